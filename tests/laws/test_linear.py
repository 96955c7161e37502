"""Law 7: doubling the text at most doubles the work.

Work is counted in steps and in buffered text for a stream of small pieces, and in CPU time for a text in one feed.
Steps do not show what a search or a copy of the rest of a long feed costs; CPU time does. It is compared with CPU time
of the same run, never with seconds.
"""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any

import pytest

from ferrule.core.event import CallEnd, CallStart, TextDelta
from ferrule.wire.drift import DriftReader
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.parser import Parser
from ferrule.wire.registry import all_formats
from laws.feed_costs import feed_cost
from laws.hard_texts import beginnings, hard_texts, repeated
from laws.replies import TOOLS
from sampling import sampled

FORMATS = all_formats()
CHUNK = 4
SIZE = 1500
# A name or a key may grow to 256 characters before the parser gives up; markers are shorter than that.
MAX_BUFFERED = 400


def work(form: Format, text: str) -> tuple[int, int]:
    """The steps of the parser, and the largest amount of text that it buffers between two pieces."""
    parser = Parser(form, TOOLS)
    steps = 0
    buffered = 0

    def count(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal steps
        steps += event == "line"
        return count

    sys.settrace(count)
    try:
        for start in range(0, len(text), CHUNK):
            parser.feed(text[start : start + CHUNK])
            buffered = max(buffered, len(parser._tape.text) - parser._tape.at)  # pyright: ignore[reportPrivateUsage]
        parser.close()
    finally:
        sys.settrace(None)
    return steps, buffered


@pytest.mark.parametrize("name", FORMATS)
def test_twice_the_text_is_at_most_twice_the_work(name: str) -> None:
    form = FORMATS[name]
    short, long = hard_texts(form, SIZE), hard_texts(form, 2 * SIZE)
    # Counting every line is slow, so a run takes five of the texts for each format.
    for _, kind in sampled("linear", [name], short, 5):
        text = short[kind]
        steps, _ = work(form, text)
        more, buffered = work(form, long[kind])
        allowed = 1.15 * steps * len(long[kind]) / max(len(text), 1) + 2000
        assert more <= allowed, f"{kind}: {steps} steps for {len(text)} characters, {more} for {len(long[kind])}"
        assert buffered <= MAX_BUFFERED, f"{kind}: {buffered} characters were kept"


# Quadratic cost is four times linear cost when the text grows fourfold, and much more when a rest of megabytes follows.
ALLOWED = 2.0
# CPU time that is too short to compare.
TRIFLE = 0.004


@pytest.mark.parametrize("name", FORMATS)
def test_four_times_the_text_in_one_feed_is_four_times_the_cpu_time(name: str) -> None:
    form = FORMATS[name]
    short, long = hard_texts(form, 6_000), hard_texts(form, 24_000)
    short |= {unit: repeated(unit, 6_000) for unit in beginnings(form)}
    long |= {unit: repeated(unit, 24_000) for unit in beginnings(form)}
    for _, kind in sampled("one feed", [name], short, 1):
        assert is_linear(partial(feed_cost, form), long[kind], short[kind], times=4), kind


@pytest.mark.parametrize("name", FORMATS)
def test_what_is_read_costs_the_same_however_much_text_follows(name: str) -> None:
    form = FORMATS[name]
    rest = "x" * 250_000
    for unit in beginnings(form):
        assert is_linear(partial(feed_cost, form), unit * 60 + rest, unit * 60, rest), unit


@pytest.mark.parametrize("name", FORMATS)
def test_an_opening_that_leads_to_no_call_copies_nothing_of_the_rest(name: str) -> None:
    form = FORMATS[name]
    openings, rest = f"{opening_texts(form.calls)[0]} " * 1000, "x" * 3_000_000
    assert is_linear(partial(feed_cost, form), openings + rest, openings, rest)


def is_linear(cost: Callable[[str], float], whole: str, *parts: str, times: int = 1) -> bool:
    """Whether a text takes at most `ALLOWED` times what its parts take, each `times` over, in one of three attempts."""
    for _ in range(3):
        expected = times * sum(map(cost, parts))
        if cost(whole) <= ALLOWED * expected + TRIFLE:
            return True
    return False


CALL = (CallStart(0, "call_0", "ping"), CallEnd(0, True))
# Units of text that follow a call, or nothing, one after another.
UNITS = (
    *(
        "\n",
        " ",
        "\t",
        "word\n",
        "```\n",
        "```x\n",
        "```",
        "`",
        "```json\n{\n",
        "```json\n",
        '{"name": "ping"\n',
        "{\n",
        "[\n",
    ),
    *("</tool_call>", "</tool_call>\n", "<tool_response>", "<tool_response>\n</tool_response>\n", "<tool_response>>"),
    *('{"name": "ping", "arguments": {}}\n', '{"name": "get_weather", "arguments": {"city": "', "```json " + "\t"),
)


@pytest.mark.parametrize("unit, way", sampled("drift", UNITS, itertools.product((4, 1_000_000), (False, True))))
def test_text_for_other_spellings_and_debris_is_read_in_linear_time(unit: str, way: tuple[int, bool]) -> None:
    size_of_piece, after_call = way

    def cost(text: str) -> float:
        pieces = [TextDelta(text[at : at + size_of_piece]) for at in range(0, len(text), size_of_piece)]
        reader = DriftReader(None, TOOLS)
        started = time.process_time()
        reader.read(CALL if after_call else ())
        for piece in pieces:
            reader.read((piece,))
        reader.close()
        return time.process_time() - started

    assert is_linear(cost, repeated(unit, 56_000), repeated(unit, 7_000), times=8)
