"""Arguments in any order, on the target that supports it: each at most once, all required ones, nothing else."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import FunctionCall, Reply, ToolCall, ToolChoice, ToolDefinition
from ferrule.core.json_text import dumps
from ferrule.formats import all_formats, get_format
from ferrule.rules.gbnf import emit_gbnf
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.wire.format import encoding_of
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind

TOOL = ToolDefinition(
    "book",
    "",
    {
        "type": "object",
        "properties": {
            "city": {"type": "string", "maxLength": 20},
            "nights": {"type": "integer", "minimum": 1},
            "guest": {"$ref": "#/$defs/guest"},
            "late": {"type": "boolean"},
        },
        "required": ["nights", "city"],
        "$defs": {"guest": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}},
    },
)
VALUES = {"city": "Rome", "nights": 2, "guest": {"name": "Ann"}, "late": True}
JSON_FORMATS = [name for name, form in all_formats().items() if encoding_of(form) == "JSON"]


def call_text(name: str, arguments: dict[str, object]) -> str:
    call = ToolCall("", FunctionCall("book", dumps(arguments)))
    return render(get_format(name), Reply((call,)), [TOOL])


def matcher(name: str, *, any_order: bool = True) -> ByteMatcher:
    return ByteMatcher(emit_lark(bind(get_format(name), [TOOL], ToolChoice.required(), any_order=any_order)))


@pytest.mark.parametrize("name", JSON_FORMATS)
def test_every_order_of_what_fits_is_admitted_in_every_format_with_json(name: str) -> None:
    free = matcher(name)
    for size in range(2, len(VALUES) + 1):
        for chosen in itertools.permutations(VALUES, size):
            fits = {"city", "nights"} <= {*chosen}
            assert free.accepts(call_text(name, {key: VALUES[key] for key in chosen})) == fits


def test_by_default_arguments_come_in_the_schemas_order() -> None:
    ordered = matcher("hermes", any_order=False)
    assert ordered.accepts(call_text("hermes", {"city": "Rome", "nights": 2}))
    assert not ordered.accepts(call_text("hermes", {"nights": 2, "city": "Rome"}))


@given(st.lists(st.sampled_from(sorted(VALUES)), max_size=6))
def test_no_member_comes_twice(keys: list[str]) -> None:
    body = ", ".join(f"{dumps(key)}: {dumps(VALUES[key])}" for key in keys)
    text = f'<tool_call>\n{{"name": "book", "arguments": {{{body}}}}}\n</tool_call>'
    fits = len({*keys}) == len(keys) and {"city", "nights"} <= {*keys}
    assert FREE.accepts(text) == fits


@pytest.mark.parametrize(
    "change",
    [
        {"properties": {f"p{n}": {"type": "null"} for n in range(65)}, "required": []},
        {"minProperties": 1},
    ],
    ids=["too many", "a keyword besides"],
)
def test_an_object_that_does_not_support_any_order_keeps_the_schemas_order(change: dict[str, object]) -> None:
    tool = ToolDefinition("book", "", {**TOOL.parameters, **change})
    grammar = emit_lark(bind(get_format("hermes"), [tool], ToolChoice.required(), any_order=True))
    assert "set_bit" not in grammar
    assert ByteMatcher(grammar)


def test_an_object_inside_itself_comes_in_any_order_too() -> None:
    nested = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"$ref": "#"}}, "required": ["a"]}
    tool = ToolDefinition("book", "", nested)
    free = ByteMatcher(emit_lark(bind(get_format("hermes"), [tool], ToolChoice.required(), any_order=True)))
    assert free.accepts(call_text("hermes", {"b": {"a": "x"}, "a": "y"}))
    assert not free.accepts(call_text("hermes", {"b": {"a": 1}, "a": "y"}))
    assert not free.accepts(call_text("hermes", {"b": {"a": "x"}}))


def test_a_target_without_any_order_keeps_the_schemas_order() -> None:
    free, ordered = (
        emit_gbnf(bind(get_format("hermes"), [TOOL], ToolChoice.required(), any_order=is_free)).text
        for is_free in (True, False)
    )
    assert free == ordered


FREE = matcher("hermes")
