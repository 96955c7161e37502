"""Questions of BFCL to a model that is weak at calling tools: whatever is handed on is valid."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ToolChoice
from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.validity import FORMATS, dealt
from ferrule.bench.validity_count import Tally, tally_engine
from live.model import smol

pytestmark = pytest.mark.live

# As many questions as CI has time for, and as many as the long run asks.
REQUIRED = [24, pytest.param(200, marks=pytest.mark.long)]
AUTO = [6, pytest.param(48, marks=pytest.mark.long)]
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


@pytest.mark.parametrize("count", REQUIRED)
def test_with_required_every_reply_is_valid_calls_in_each_of_six_formats(count: int) -> None:
    found = asyncio.run(tallies(questions(count), ToolChoice.required()))
    problems = [f"{name}: {problem}" for name, tally in found.items() for problem in tally.problems]
    assert not problems
    assert sum(tally.valid for tally in found.values()) == count


@pytest.mark.parametrize("count", AUTO)
def test_with_auto_no_malformed_call_reaches_the_caller(count: int) -> None:
    found = asyncio.run(tallies(questions(count), ToolChoice.auto()))
    assert sum(tally.replies for tally in found.values()) == count
    assert sum(tally.invalid_calls + tally.errors for tally in found.values()) == 0
