"""Two hundred questions of BFCL to a model that is weak at calling tools: whatever is handed on is valid."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ToolChoice
from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.validity import FORMATS, dealt
from ferrule.bench.validity_count import Tally, tally_engine
from live.model import smol

pytestmark = pytest.mark.live

REQUIRED = 200
AUTO = 24
# Little, so that the bounds are needed: a call must end inside of it.
TOKENS = 256


async def tallies(asked: list[Question], choice: ToolChoice) -> dict[str, Tally]:
    """Half of the formats on one engine and half on another, each with a core to itself."""
    found: dict[str, Tally] = {}

    async def run(names: list[str], number: int) -> None:
        for name in names:
            found[name] = await tally_engine(smol(name, number=number), dealt(asked)[name], choice, max_tokens=TOKENS)

    await asyncio.gather(run(list(FORMATS[::2]), 0), run(list(FORMATS[1::2]), 1))
    return found


def test_with_required_every_reply_is_valid_calls_in_each_of_six_formats() -> None:
    found = asyncio.run(tallies(questions(REQUIRED), ToolChoice.required()))
    problems = [f"{name}: {problem}" for name, tally in found.items() for problem in tally.problems]
    assert not problems
    assert sum(tally.valid for tally in found.values()) == REQUIRED


def test_with_auto_no_malformed_call_reaches_the_caller() -> None:
    found = asyncio.run(tallies(questions(AUTO), ToolChoice.auto()))
    assert sum(tally.replies for tally in found.values()) == AUTO
    assert sum(tally.invalid_calls + tally.errors for tally in found.values()) == 0
