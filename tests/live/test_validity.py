"""BFCL questions to a model that is weak at calling tools: every forwarded call is valid and whole."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ToolChoice
from ferrule.bench.bfcl_requests import Question, load_questions
from ferrule.bench.validity import FORMATS, questions_by_format
from ferrule.bench.validity_count import ReplyCounts, count_replies
from live.model import smol

pytestmark = pytest.mark.live

# The number of questions in CI, and in the long run.
REQUIRED = [12, pytest.param(200, marks=pytest.mark.long)]
AUTO = [6, pytest.param(48, marks=pytest.mark.long)]
# So few that this model, which repeats itself, does not end every call: those must not be forwarded.
TOKENS = 160


async def tallies(questions_asked: list[Question], choice: ToolChoice) -> dict[str, ReplyCounts]:
    """Run half of the formats on one engine and half on another, each with its own core."""
    tallies_by_format: dict[str, ReplyCounts] = {}

    async def run(names: list[str], number: int) -> None:
        for name in names:
            tallies_by_format[name] = await count_replies(
                smol(name, number=number), questions_by_format(questions_asked)[name], choice, max_tokens=TOKENS
            )

    await asyncio.gather(run(list(FORMATS[::2]), 0), run(list(FORMATS[1::2]), 1))
    return tallies_by_format


@pytest.mark.parametrize("count", REQUIRED)
def test_with_required_every_reply_is_valid_calls_or_cut_off_in_each_of_six_formats(count: int) -> None:
    tallies_by_format = asyncio.run(tallies(load_questions(count), ToolChoice.required()))
    problems = [f"{name}: {problem}" for name, tally in tallies_by_format.items() for problem in tally.problems]
    assert [problem for problem in problems if not problem.endswith(": cut off")] == []
    assert sum(tally.invalid_calls for tally in tallies_by_format.values()) == 0
    assert sum(tally.valid + tally.cut_off for tally in tallies_by_format.values()) == count
    assert any(tally.valid for tally in tallies_by_format.values())


@pytest.mark.parametrize("count", AUTO)
def test_with_auto_no_malformed_call_reaches_the_caller(count: int) -> None:
    tallies_by_format = asyncio.run(tallies(load_questions(count), ToolChoice.auto()))
    assert sum(tally.replies for tally in tallies_by_format.values()) == count
    assert sum(tally.invalid_calls + tally.errors for tally in tallies_by_format.values()) == 0
