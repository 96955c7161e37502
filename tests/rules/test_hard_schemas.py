"""Schemas that are hard for grammar compilers: each binds, compiles and admits a rendered call in four encodings."""

from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.json_text import dumps
from ferrule.core.reply import Reply
from ferrule.core.request import ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.errors import SchemaError
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.rules.relaxation import losses_of, relax
from ferrule.schema.admission import admit
from ferrule.schema.checker import Checker
from ferrule.wire.registry import get_format
from ferrule.wire.renderer import render
from ferrule.wire.rule_builder import bind
from sampling import sampled
from schema.test_hostile import REFUSED

FORMATS = ("hermes", "qwen_xml", "pythonic", "gemma4")
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}


def object_schema(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


TREE = {
    "type": "object",
    "properties": {"name": TEXT, "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}}},
    "required": ["name", "children"],
}
CASES: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "recursion": (
        {**object_schema(tree={"$ref": "#/$defs/tree"}), "$defs": {"tree": TREE}},
        {"tree": {"name": "a", "children": [{"name": "b", "children": []}]}},
    ),
    "null or a value": (object_schema(a={"anyOf": [WHOLE, {"type": "null"}]}), {"a": None}),
    "enum inside anyOf": (object_schema(a={"anyOf": [{"enum": ["x", "y"]}, WHOLE]}), {"a": "y"}),
    "oneOf of types": (object_schema(a={"oneOf": [WHOLE, {"type": "boolean"}]}), {"a": True}),
    "oneOf of objects": (
        object_schema(
            a={"oneOf": [object_schema(kind={"const": "p"}, n=WHOLE), object_schema(kind={"const": "q"}, t=TEXT)]}
        ),
        {"a": {"kind": "q", "t": "x"}},
    ),
    "oneOf that overlaps": (object_schema(a={"oneOf": [{**WHOLE, "minimum": 1}, {**WHOLE, "maximum": 5}]}), {"a": 7}),
    "allOf": (
        object_schema(a={"allOf": [object_schema(n=WHOLE), {"properties": {"t": TEXT}}]}),
        {"a": {"n": 1, "t": "x"}},
    ),
    "patternProperties": (
        object_schema(a={"type": "object", "patternProperties": {"^x_": WHOLE}}),
        {"a": {"x_one": 1, "x_two": 2}},
    ),
    "additionalProperties false": (
        object_schema(a={**object_schema(n=WHOLE), "additionalProperties": False}),
        {"a": {"n": 1}},
    ),
    "additionalProperties by schema": (
        object_schema(a={**object_schema(n=TEXT), "additionalProperties": WHOLE}),
        {"a": {"n": "x", "more": 5}},
    ),
    "bounds": (
        object_schema(
            a={**WHOLE, "minimum": 1, "maximum": 9}, b={"type": "number", "exclusiveMinimum": 0, "maximum": 1}
        ),
        {"a": 5, "b": 0.5},
    ),
    "lengths": (object_schema(a={**TEXT, "minLength": 2, "maxLength": 4}), {"a": "abc"}),
    "counts": (object_schema(a={"type": "array", "items": WHOLE, "minItems": 1, "maxItems": 3}), {"a": [1, 2]}),
    "numbers of properties": (
        object_schema(a={"type": "object", "additionalProperties": WHOLE, "minProperties": 1, "maxProperties": 2}),
        {"a": {"k": 1}},
    ),
    "multiples": (object_schema(a={**WHOLE, "multipleOf": 7}), {"a": 21}),
    "a multiple that is slow": (object_schema(a={**WHOLE, "multipleOf": 123_456_789}), {"a": 123_456_789}),
    "formats": (
        object_schema(
            a={**TEXT, "format": "date-time"}, b={**TEXT, "format": "uuid"}, c={**TEXT, "format": "unheard-of"}
        ),
        {"a": "2026-01-31T13:45:00Z", "b": "123e4567-e89b-12d3-a456-426614174000", "c": "x"},
    ),
    "pattern": (object_schema(a={**TEXT, "pattern": "^[a-z]{2}-\\d+$"}), {"a": "ab-12"}),
    "pattern with a word boundary": (object_schema(a={**TEXT, "pattern": "\\bab\\b"}), {"a": "ab"}),
    "const": (object_schema(a={"const": "fixed"}, b={"const": 5}), {"a": "fixed", "b": 5}),
    "arrays of arrays of objects": (
        object_schema(a={"type": "array", "items": {"type": "array", "items": object_schema(n=WHOLE)}}),
        {"a": [[{"n": 1}, {"n": 2}], []]},
    ),
    "a tuple": (
        object_schema(a={"type": "array", "prefixItems": [WHOLE, TEXT], "minItems": 2, "items": False}),
        {"a": [1, "x"]},
    ),
    "nothing at all": ({"type": "object", "properties": {}}, {}),
    "boolean schemas": ({**object_schema(a=True), "properties": {"a": True, "b": False}}, {"a": [1, "x", None]}),
    "not, if, dependencies, uniqueItems, contains": (
        {
            **object_schema(a={"type": "array", "items": WHOLE, "uniqueItems": True, "contains": {"minimum": 2}}),
            "not": {"required": ["z"]},
            "if": {"required": ["z"]},
            "then": False,
            "dependentRequired": {"z": ["y"]},
            "propertyNames": {"maxLength": 3},
        },
        {"a": [1, 2]},
    ),
    "two hundred properties": (
        object_schema(**{f"p{number}": WHOLE for number in range(200)}),
        {f"p{number}": number for number in range(200)},
    ),
}


def tool_of(name: str, schema: dict[str, Any], form: str) -> ToolDefinition:
    """A tool whose schema is admitted and, if its arguments are JSON, relaxed for the compiler."""
    admitted_schema = admit(schema)
    return ToolDefinition(name, parameters=relax(admitted_schema).schema if form == "hermes" else admitted_schema)


def assert_admitted(form: str, tools: list[ToolDefinition], name: str, arguments: dict[str, Any]) -> None:
    format = get_format(form)
    matcher = ByteMatcher(emit_lark(bind(format, tools, ToolChoice.required())))
    call = ToolCall.of(name, arguments, id=format.ids.sample(name, 0))
    text = render(format, Reply((call,)), tools)
    reach = matcher.match(text)
    assert reach.is_complete, (
        f"refused after {text[: reach.characters][-60:]!r}, before {text[reach.characters :][:60]!r}"
    )


@pytest.mark.parametrize("case, form", sampled("hard schemas", CASES, FORMATS, 2))
def test_a_hard_schema_binds_compiles_and_admits_a_call(case: str, form: str) -> None:
    schema, arguments = CASES[case]
    assert not Checker(admit(schema)).faults(arguments)
    assert_admitted(form, [tool_of("f", schema, form)], "f", arguments)


@pytest.mark.parametrize("form", FORMATS)
def test_five_hundred_tools_are_one_rule(form: str) -> None:
    tools = [tool_of(f"tool_{number}", object_schema(city=TEXT, days=WHOLE), form) for number in range(500)]
    assert_admitted(form, tools, "tool_437", {"city": "Rome", "days": 3})


@pytest.mark.parametrize("make, code", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_one_hostile_tool_among_fifty_loses_only_itself(make: Any, code: str) -> None:
    offered: dict[str, Any] = {f"good_{number}": object_schema(city=TEXT) for number in range(50)}
    offered["bad"] = make()
    tools: list[ToolDefinition] = []
    refused: dict[str, str] = {}
    for name, schema in offered.items():
        try:
            tools.append(tool_of(name, schema, "hermes"))
        except SchemaError as refusal:
            refused[name] = refusal.code
    assert refused == {"bad": code}
    assert_admitted("hermes", tools, "good_49", {"city": "Rome"})


def test_a_tool_that_is_not_fully_enforced_reports_it_and_does_not_affect_the_others() -> None:
    hard = ToolDefinition("hard", parameters=admit(object_schema(a={"type": "array", "uniqueItems": True})))
    easy = ToolDefinition("easy", parameters=admit(object_schema(a=WHOLE)))
    assert [loss.keyword for loss in losses_of(hard, "JSON")] == ["uniqueItems"]
    assert losses_of(easy, "JSON") == ()
    for form in FORMATS:
        assert_admitted(form, [tool_of("hard", hard.parameters, form), easy], "easy", {"a": 1})


def test_an_enum_value_of_another_type_than_the_schemas_own_cannot_be_written() -> None:
    enum = {"type": "integer", "enum": ["dontcare", 1, 2.0, "2"]}
    tool = ToolDefinition("pick", "", {"type": "object", "properties": {"x": enum}, "required": ["x"]})
    matcher = ByteMatcher(emit_lark(bind(get_format("qwen_xml"), [tool], ToolChoice.required())))
    call = "<tool_call>\n<function=pick>\n<parameter=x>\n{}\n</parameter>\n</function>\n</tool_call>"
    assert matcher.accepts(call.format("1"))
    assert not matcher.accepts(call.format("dontcare"))
    assert not matcher.accepts(call.format('"2"'))


@pytest.mark.parametrize("number", [-(2**63), -(2**63) - 1, -(10**30), 2**63, 10**30])
@pytest.mark.parametrize("keyword", ["enum", "const"])
def test_a_number_that_would_end_the_compilers_process_never_reaches_it(keyword: str, number: int) -> None:
    value = [{"a": [number]}] if keyword == "enum" else number
    relaxed = relax({"type": "object", "properties": {"x": {keyword: value}}})
    assert str(number) not in dumps(relaxed.schema)
    assert [loss.keyword for loss in relaxed.losses] == [keyword]


def test_the_del_character_in_a_constant_is_an_ordinary_literal() -> None:
    tool = ToolDefinition("pick", "", {"type": "object", "properties": {"x": {"const": "a\x7f"}}, "required": ["x"]})
    matcher = ByteMatcher(emit_lark(bind(get_format("qwen_xml"), [tool], ToolChoice.required())))
    call = "<tool_call>\n<function=pick>\n<parameter=x>\na\x7f\n</parameter>\n</function>\n</tool_call>"
    assert matcher.accepts(call)
