"""Each kind of choice, again and again, at a temperature where the model strays."""

from __future__ import annotations

import asyncio

import pytest

from lab.choices import KINDS, held
from live.model import smol

pytestmark = pytest.mark.live

# `scripts/long choices` makes fifty of each, here and on vLLM.
RUNS = 3


@pytest.mark.parametrize("kind", KINDS)
def test_the_choice_is_held_in_every_run(kind: str) -> None:
    assert asyncio.run(held(smol("hermes"), kind, RUNS)) == RUNS
