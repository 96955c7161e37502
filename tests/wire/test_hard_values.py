"""Generic XML, pythonic calls, bare JSON and fenced JSON with the values that are hard to write and to read.

What we write is also read by another reader (Python's own parser, the json module), and what other writers write is
read by us, so that a mistake that the renderer and the parser share is noticed.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule import Event, JsonSchema, Reply, Text, ToolCall, ToolDefinition, fold
from ferrule.core.event import ArgumentsDelta, CallEnd
from ferrule.formats import get_format, parse, render
from ferrule.wire.parser import Parser
from laws.cuts import essence
from laws.examples import per_format
from laws.replies import ALL_MARKERS, values

KEEP = (
    ToolDefinition.build("keep")
    .parameter("value", {})
    .parameter("text", JsonSchema.string())
    .parameter("list", {"type": "array"})
    .parameter("object", {"type": "object"})
    .parameter("number", JsonSchema.number())
    .parameter("flag", JsonSchema.boolean())
    .done()
)
TOOLS = (KEEP, ToolDefinition.build("ping").done())
# The ids of the requirements, and the format that each of them names.
NAMES = {"F5": "generic_xml", "F7": "pythonic", "F12": "bare_json", "F13": "fenced_json"}
FORMATS = pytest.mark.parametrize("id", NAMES)

# Whole calls of these formats, as a value inside a call.
QUOTED = (
    '<tool_call>\n<name>ping</name>\n<arguments>{"a": "</arguments>"}</arguments>\n</tool_call>',
    '[ping(), keep(value="]")]',
    '{"name": "ping", "arguments": {}}',
    '```json\n{"name": "ping", "arguments": {}}\n```',
)
TEXTS = (
    *(
        "",
        " ",
        "\n",
        "\t",
        "\r\n",
        '"',
        "'",
        '"""',
        "'''",
        "\\",
        "\\\\",
        '\\"',
        "\\n",
        "\\u0041",
        "\\x41",
        "\x00\x1f\x7f",
    ),
    *(
        "é",
        "e\u0301",
        "𝕒𝄞😀",
        "👩\u200d👩\u200d👧",
        "שלום",
        "مرحبا بالعالم",
        "\u202eevil\u202c",
        "\u2028\u2029\x85\ufeff",
    ),
    *(
        "{",
        "}",
        "{}",
        "}}",
        "[",
        "]",
        "(",
        ")",
        "),",
        "=",
        ",",
        ":",
        "<",
        ">",
        "&lt;",
        "</",
        "```",
        "``",
        "#",
        "$",
        "%s",
    ),
    *(
        "12",
        "-0",
        "1e5",
        "1e999",
        "007",
        "0x1F",
        "1_000",
        "NaN",
        "true",
        "True",
        "false",
        "null",
        "None",
        "[1]",
        '{"a": 1}',
    ),
    *QUOTED,
)
NUMBERS = (
    *(0, 1, -1, 2**53 + 1, 2**63, -(2**64), 10**30, -(10**30), 10**100),
    *(0.0, -0.0, 1.0, 0.1, 1.5, -2.5e-7, 1e22, 1e308, 1.7976931348623157e308, 5e-324, 2.2250738585072014e-308),
)
NESTED: tuple[Any, ...] = (
    *([], {}, [[]], [[], [[]]], {"": ""}, {"": {"": {}}}, [None, True, False, 0, ""], [[1, [2, [3, {"a": [4]}]]]]),
    *({"a b": 1, "é😀": [], 'q"\\\n': None, "</arguments>": "```", "]": "}"}, [{"a": {"b": [{}, [], ""]}}] * 3),
    {"name": "ping", "arguments": {"value": [{"name": "keep", "arguments": {}}]}},
)
HARD: tuple[dict[str, Any], ...] = (
    {},
    *({"value": value} for value in (None, True, False, *TEXTS, *NUMBERS, *NESTED)),
    *({"text": text} for text in (*TEXTS, *ALL_MARKERS)),
    {"text": "".join(TEXTS)},
    {"list": list(TEXTS)},
    {"object": {text: text for text in TEXTS}},
    {"list": list(NUMBERS), "number": -0.0, "flag": False},
)


def call(arguments: dict[str, Any], at: int = 0) -> ToolCall:
    return ToolCall.of("keep", arguments, id=f"call_{at}")


def exact(value: Any) -> str:
    """A text that differs where 1, 1.0 and True do, 0.0 and -0.0 do, or the order of keys does."""
    return json.dumps(value)


def read(id: str, text: str) -> Reply:
    return parse(get_format(NAMES[id]), text, TOOLS)


def assert_calls(reply: Reply, expected: list[dict[str, Any]], text: str) -> None:
    assert [(made.name, exact(made.arguments)) for made in reply.calls] == [
        ("keep", exact(arguments)) for arguments in expected
    ], text
    assert not reply.incomplete, text
    assert not reply.diagnostics, text


@FORMATS
def test_every_hard_value_is_written_and_read_as_it_was(id: str) -> None:
    for arguments in HARD:
        text = render(get_format(NAMES[id]), Reply.of(call(arguments)), TOOLS)
        reply = read(id, text)
        assert_calls(reply, [arguments], text)
        assert (reply.text, reply.reasoning) == ("", ""), text


@FORMATS
@given(arguments=st.fixed_dictionaries({}, optional={"value": values, "list": st.lists(values, max_size=3)}))
def test_any_value_is_written_and_read_as_it_was(id: str, arguments: dict[str, Any]) -> None:
    text = render(get_format(NAMES[id]), Reply.of(call(arguments)), TOOLS)
    assert_calls(read(id, text), [arguments], text)


# Other readers of what we write.


def _read_xml(text: str) -> list[dict[str, Any]]:
    one = re.compile(
        r"<tool_call>\n<name>(\w+)</name>\n<arguments>(\{.*?\})</arguments>\n</tool_call>(?=\n<tool_call>\n<name>|$)",
        re.DOTALL,
    )
    return [json.loads(arguments) for _, arguments in one.findall(text)]


def _read_python(text: str) -> list[dict[str, Any]]:
    listed = ast.parse(text, mode="eval").body
    assert isinstance(listed, ast.List)
    made = [one for one in listed.elts if isinstance(one, ast.Call) and not one.args]
    assert len(made) == len(listed.elts)
    return [{key.arg or "": ast.literal_eval(key.value) for key in one.keywords} for one in made]


def _read_objects(text: str) -> list[dict[str, Any]]:
    decoder, objects, at = json.JSONDecoder(), list[Any](), 0
    while at < len(text):
        value, at = decoder.raw_decode(text, at)
        objects.append(value["arguments"])
        at += len(text[at:]) - len(text[at:].lstrip("\n"))
    return objects


def _read_fence(text: str) -> list[dict[str, Any]]:
    return _read_objects(text.removeprefix("```json\n").removesuffix("\n```"))


READERS: dict[str, Callable[[str], list[dict[str, Any]]]] = {
    "F5": _read_xml,
    "F7": _read_python,
    "F12": _read_objects,
    "F13": _read_fence,
}


@FORMATS
def test_another_reader_finds_the_same_hard_values_in_what_is_written(id: str) -> None:
    for first, second in pairwise(HARD):
        text = render(get_format(NAMES[id]), Reply.of(call(first), call(second, 1)), TOOLS)
        if id == "F5" and (QUOTED[0] in exact_strings(first) or QUOTED[0] in exact_strings(second)):
            continue  # The expression above cannot tell a quoted call from a call; ours can.
        assert [exact(arguments) for arguments in READERS[id](text)] == [exact(first), exact(second)], text


def exact_strings(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\\n", "\n").replace('\\"', '"')


# Other writers of what we read.


def _json_spellings(value: Any) -> list[str]:
    return [
        json.dumps(value),
        json.dumps(value, ensure_ascii=False),
        json.dumps(value, separators=(",", ":")),
        json.dumps(value, indent=2, ensure_ascii=False),
        json.dumps(value).replace("/", "\\/"),
    ]


def _write_xml(arguments: dict[str, Any]) -> list[str]:
    return [
        shape.replace("@", spelling)
        for spelling in _json_spellings(arguments)
        for shape in (
            "<tool_call>\n<name>keep</name>\n<arguments>@</arguments>\n</tool_call>",
            "<tool_call><name>keep</name><arguments>@</arguments></tool_call>",
            "<tool_call>\n<name>keep</name>\n<arguments>\n@\n</arguments>\n</tool_call>",
        )
    ]


def _write_python(arguments: dict[str, Any]) -> list[str]:
    spaced = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    ascii_only = ",".join(f"{key}={value!a}" for key, value in arguments.items())
    as_json = ", ".join(f"{key}={json.dumps(value)}" for key, value in arguments.items())
    return [f"[keep({spaced})]", f"[keep({ascii_only})]", f"[keep({as_json})]"]


def _write_objects(arguments: dict[str, Any]) -> list[str]:
    objects = _json_spellings({"name": "keep", "arguments": arguments})
    return [*objects, json.dumps({"name": "keep", "parameters": arguments})]


def _write_fences(arguments: dict[str, Any]) -> list[str]:
    return [
        *(f"```json\n{written}\n```" for written in _write_objects(arguments)),
        f"```\n{_write_objects(arguments)[0]}\n```",
        f"```json\n[{_write_objects(arguments)[0]}]\n```",
    ]


WRITERS: dict[str, Callable[[dict[str, Any]], list[str]]] = {
    "F5": _write_xml,
    "F7": _write_python,
    "F12": _write_objects,
    "F13": _write_fences,
}


@FORMATS
def test_hard_values_of_another_writer_are_read_as_they_were(id: str) -> None:
    for arguments in HARD:
        for text in WRITERS[id](arguments):
            assert_calls(read(id, text), [arguments], text)


@FORMATS
@given(value=values)
def test_any_value_of_another_writer_is_read_as_it_was(id: str, value: Any) -> None:
    for text in WRITERS[id]({"value": value}):
        assert_calls(read(id, text), [{"value": value}], text)


# Text around calls, several calls, and streams.

_FEW = (HARD[-1], {"text": "".join(QUOTED)}, {"object": {"": [[{}], None, "]}\"'"]}}, {})


@FORMATS
@pytest.mark.parametrize("before", ["", "Let me look.\n", "שלום 😀 [1] {2} <b>\n", "A ``code`` word,\n\n"])
@pytest.mark.parametrize("after", ["", "\nThat is all.", "\n[1] {2} </b> 😀"])
def test_text_before_and_after_several_calls_is_text(id: str, before: str, after: str) -> None:
    form = get_format(NAMES[id])
    middle = render(form, Reply.of(*[call(arguments, at) for at, arguments in enumerate(_FEW)]), TOOLS)
    reply = read(id, before + middle + after)
    assert_calls(reply, list(_FEW), before + middle + after)
    texts = [part.text for part in reply.parts if isinstance(part, Text)]
    assert "".join(texts).split() == (before + after).split()
    kinds = [type(part) for part in reply.parts]
    assert kinds == [Text] * bool(before) + [ToolCall] * len(_FEW) + [Text] * bool(after)


def streamed(id: str, pieces: list[str]) -> tuple[list[Event], Reply]:
    parser = Parser(get_format(NAMES[id]), TOOLS)
    events = [event for piece in pieces for event in parser.feed(piece)]
    events += parser.close()
    return events, fold(events)


def assert_only_grows(events: list[Event], reply: Reply) -> None:
    """Arguments are sent in order, each piece extends the last, and their sum is the JSON of the call."""
    sent: dict[int, str] = {}
    for event in events:
        if isinstance(event, ArgumentsDelta):
            sent[event.index] = sent.get(event.index, "") + event.json
        if isinstance(event, CallEnd):
            assert isinstance(json.loads(sent[event.index]), dict)
    assert list(sent.values()) == [made.function.arguments for made in reply.calls]


def assert_every_cut_is_the_same(id: str, text: str) -> None:
    whole = essence(read(id, text))
    for pieces in [list(text), *([text[:at], text[at:]] for at in range(len(text) + 1))]:
        events, reply = streamed(id, pieces)
        assert essence(reply) == whole, pieces[0]
        assert_only_grows(events, reply)


@FORMATS
@pytest.mark.parametrize("arguments", [*_FEW, {"value": list(TEXTS[:30])}, {"text": QUOTED[0]}, {"text": QUOTED[3]}])
def test_a_hard_call_cut_at_every_character_is_the_same(id: str, arguments: dict[str, Any]) -> None:
    parts = ("I look.", call(arguments), call({"value": "]}\"'\\"}, 1))
    text = render(get_format(NAMES[id]), Reply.of(*parts), TOOLS)
    assert_calls(read(id, text), [arguments, {"value": "]}\"'\\"}], text)
    assert_every_cut_is_the_same(id, text)


@FORMATS
@per_format(20)
@given(value=values, before=st.sampled_from(["", "I look.\n", "{[<`\n"]))
@example(value="</arguments>\n</tool_call>", before="")
@example(value={"": ["```", "]", ")"]}, before="I look.\n")
def test_any_call_cut_at_every_character_is_the_same(id: str, value: Any, before: str) -> None:
    text = before + render(get_format(NAMES[id]), Reply.of(call({"value": value})), TOOLS)
    assert_every_cut_is_the_same(id, text)


# What a call is not complete without: in XML the tags after the arguments may be missing, with a diagnostic.
CLOSERS = {"F5": "}", "F7": ")", "F12": "}", "F13": "}"}


@FORMATS
@per_format(20)
@given(value=values)
def test_a_call_that_is_cut_off_is_never_handed_on(id: str, value: Any) -> None:
    text = render(get_format(NAMES[id]), Reply.of(call({"value": value})), TOOLS)
    for at in range(text.rindex(CLOSERS[id]) + 1):
        assert not read(id, text[:at]).calls, text[:at]
