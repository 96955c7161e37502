"""Texts that are hard for a parser: slow if it looks back or ahead, deep if it recurses, or broken."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.errors import UnrenderableError
from ferrule.wire.format import Format
from ferrule.wire.parse_plan import opening_texts
from ferrule.wire.renderer import render
from laws.cuts import two_call_text
from laws.replies import ALL_MARKERS, TOOLS, own_markers

# What a call can be nested in, or arguments in each other, in any family.
NESTINGS = ('{"function": ', '{"a": ', "[", "(", '{"arguments": {"a": ', "{a:", "<parameter=a>")


def call_with(form: Format, value: str) -> str:
    """A call with this value as its argument `city`."""
    call = ToolCall.of("get_weather", {"city": value}, id=form.ids.sample("get_weather", 0))
    return render(form, Reply.of(call), TOOLS)


def open_call(form: Format) -> str:
    """A call up to the beginning of a value."""
    return call_with(form, "@").partition("@")[0]


def hard_texts(form: Format, size: int) -> dict[str, str]:
    """Texts that are slow for a parser which looks back or reads twice."""
    opener = opening_texts(form.calls)[0]
    whole = two_call_text(form)
    opened = open_call(form)
    return {
        "a long value": call_with(form, "x = 'y' \\ \n" * (size // 10)),
        "a long value that never ends": opened + "ab cd " * (size // 6),
        "half openers": opener[:-1] * (size // max(len(opener) - 1, 1)) if len(opener) > 1 else "<" * size,
        "openers": opener * (size // len(opener)),
        "openers and names": f"{opener}get_weather" * (size // (len(opener) + 11)),
        "brackets": opened + "[" * size,
        "braces": '{"a":' * (size // 5),
        "digits": opened + "7" * size,
        "white space": opened + " " * size,
        "white space after a call": whole + "\n" * size,
        "backslashes": opened + "\\" * size,
        "quotes": opened + '"' * size,
        "an object without a name": '{"arguments": {"a": "' + "b" * size,
        "a name without end": f"{opener}{'n' * size}",
        "a quoted name without end": f'{opener.rstrip("{[")}{{"name": "{"n" * size}',
        "call after call": "\n".join([whole] * (size // 300)),
    }


@cache
def beginnings(form: Format, count: int = 10) -> tuple[str, ...]:
    """The openings, and one call cut off at `count` places: inside its markers, its name, its id, its arguments."""
    call = call_with(form, "Paris")
    cuts = {call[: len(call) * place // count] for place in range(1, count + 1)}
    return tuple(sorted({*cuts, *opening_texts(form.calls)} - {""}))


def repeated(unit: str, size: int) -> str:
    """As many of a text as give this size."""
    return unit * (size // len(unit) + 1)


def deep_texts(form: Format, depth: int) -> Iterator[str]:
    """Every nesting, at this depth: after each opening, inside a value, and alone."""
    heads = {"", open_call(form), *opening_texts(form.calls)}
    heads |= {head.rstrip("{[") for head in heads}
    for head in sorted(heads):
        for nesting in NESTINGS:
            yield head + nesting * depth


_ODD = (
    *("{", "}", "[", "]", "(", ")", '"', "'", "\\", "\\u", "\\ud800", "\ud800", "\udc00", "\x00", "\ufeff", "\u2028"),
    *("\x85", "\r\n", "\n", " ", "\t", ",", ":", "=", "null", "None", "true", "True", "NaN", "-", "1e999", "0x1", "01"),
    *(
        "9" * 40,
        "9" * 5000,
        "-0",
        "```",
        "```json\n",
        "name",
        "arguments",
        "function",
        '"function": {',
        '"name": "ping"',
    ),
    *('"arguments": {"a": 1}', '"id": "x"', "get_weather", "ping", "unknown", "😀", "<", "|", '"""', "&lt;", "\\x41"),
    *("\\N{DASH}", "1_000", "(1,)", "{1}", "...", "n" * 300, '{"name": "ping", "arguments": {}}'),
)


def _call_with_any(form: Format, value: str) -> str:
    try:
        return call_with(form, value)
    except UnrenderableError:
        return call_with(form, "Paris")


def mutated_text(form: Format, seed: str) -> str:
    """A reply with two calls, changed in some places. The same seed gives the same text."""
    chance = random.Random(seed)
    own = sorted(own_markers(form))
    text = two_call_text(form) if chance.random() < 0.5 else _call_with_any(form, chance.choice((*ALL_MARKERS, *_ODD)))
    for _ in range(chance.choice((1, 1, 2, 3, 6))):
        at = chance.randint(0, len(text))
        end = min(len(text), at + chance.randint(0, 12))
        match chance.randrange(8):
            case 0:
                text = text[:at] + text[end:]
            case 1 | 2:
                text = text[:at] + chance.choice(own) + text[at:]
            case 3:
                text = text[:at] + chance.choice(_ODD) + text[at:]
            case 4:
                text = text[:at] + text[at:end] * chance.randint(2, 4) + text[end:]
            case 5:
                text = text[:at]
            case 6:
                text += chance.choice(ALL_MARKERS) + text[at:end]
            case _:
                depth = chance.choice((2, 9, 300, 1000))
                text = text[:at] + chance.choice(NESTINGS) * depth + text[at:]
    return text


def cut(text: str, seed: str) -> list[str]:
    """The text in random pieces."""
    chance = random.Random(seed)
    places = sorted(chance.randint(0, len(text)) for _ in range(chance.choice((1, 2, 3, 8, 30))))
    return [text[start:end] for start, end in zip([0, *places], [*places, len(text)], strict=True)]
