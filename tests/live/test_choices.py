"""Each kind of choice, several times, at a temperature at which the model varies."""

from __future__ import annotations

import asyncio

import pytest

from lab.choices import KINDS, count_kept
from live.model import smol

pytestmark = pytest.mark.live

# `scripts/long choices` runs fifty of each, here and on vLLM.
RUNS = 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_is_honoured_in_every_run(kind: str) -> None:
    assert asyncio.run(count_kept(smol("hermes"), kind, RUNS)) == RUNS
