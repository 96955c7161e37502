"""Law 7: doubling the text at most doubles the work. Work is counted in steps, and in buffered text."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.parser import Parser
from ferrule.wire.registry import all_formats
from ferrule.wire.renderer import render
from laws.cuts import two_call_text
from laws.replies import TOOLS
from sampling import sampled

FORMATS = all_formats()
CHUNK = 4
SIZE = 1500
# A name or a key may grow to 256 characters before the parser gives up; markers are shorter than that.
MAX_BUFFERED = 400


def call_with(form: Format, value: str) -> str:
    call = ToolCall.of("get_weather", {"city": value}, id=form.ids.sample("get_weather", 0))
    return render(form, Reply.of(call), TOOLS)


def hard_texts(form: Format, size: int) -> dict[str, str]:
    """Texts that are slow for a parser which looks back or reads twice."""
    opener = opening_texts(form.calls)[0]
    whole = two_call_text(form)
    open_call = call_with(form, "@").partition("@")[0]
    return {
        "a long value": call_with(form, "x = 'y' \\ \n" * (size // 10)),
        "a long value that never ends": open_call + "ab cd " * (size // 6),
        "half openers": opener[:-1] * (size // max(len(opener) - 1, 1)) if len(opener) > 1 else "<" * size,
        "openers": opener * (size // len(opener)),
        "openers and names": f"{opener}get_weather" * (size // (len(opener) + 11)),
        "brackets": open_call + "[" * size,
        "braces": '{"a":' * (size // 5),
        "digits": open_call + "7" * size,
        "white space": open_call + " " * size,
        "white space after a call": whole + "\n" * size,
        "backslashes": open_call + "\\" * size,
        "quotes": open_call + '"' * size,
        "an object without a name": '{"arguments": {"a": "' + "b" * size,
        "call after call": "\n".join([whole] * (size // 300)),
    }


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
