"""Two hundred questions of BFCL to a model that is weak at calling tools: whatever is handed on is valid."""

from __future__ import annotations

import asyncio

import pytest

from ferrule import ToolChoice
from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.validity_count import Tally, tally_engine
from live.model import smol

pytestmark = pytest.mark.live

FORMATS = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml")
REQUIRED = 200
AUTO = 24


def shares(asked: list[Question]) -> dict[str, list[Question]]:
    """The questions dealt out over the formats, so that each category comes through each of them."""
    groups = [asked[at : at + 4] for at in range(0, len(asked), 4)]
    return {name: [q for group in groups[n :: len(FORMATS)] for q in group] for n, name in enumerate(FORMATS)}


async def tallies(asked: list[Question], choice: ToolChoice) -> dict[str, Tally]:
    """Half of the formats on one engine and half on another, each with a core to itself."""
    found: dict[str, Tally] = {}

    async def run(names: list[str], number: int) -> None:
        for name in names:
            found[name] = await tally_engine(smol(name, number=number), shares(asked)[name], choice)

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
