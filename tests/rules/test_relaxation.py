from collections.abc import Iterator
from itertools import permutations, product
from typing import Any

import jsonschema
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, SchemaError
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher, schema_error
from ferrule.rules.relaxation import losses_of, relax
from ferrule.rules.rule import Rule, Value
from ferrule.schema.admission import admit
from pace import within

NAMES = ("a", "b", "xa")
leaves: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.sampled_from(
        [
            {},
            {"type": "string"},
            {"type": "integer"},
            {"type": "null"},
            {"type": "boolean"},
            {"type": ["string", "null"]},
            {"not": {}},
            {"$ref": "#/$defs/x"},
            {"$ref": "#/$defs/x", "minProperties": 1},
            {"type": "array", "items": {"$ref": "#"}},
            {"const": "a"},
            {"enum": ["a", 1, None]},
            {"type": "string", "pattern": "^a"},
            {"type": "string", "pattern": "\\ba"},
            {"type": "string", "format": "ipv4"},
            {"type": "string", "format": "unheard-of"},
        ]
    ),
    st.builds(lambda low, high: {"type": "integer", "minimum": low, "maximum": high}, *[st.integers(-3, 3)] * 2),
    st.builds(lambda low, high: {"type": "string", "minLength": low, "maxLength": high}, *[st.integers(0, 3)] * 2),
    st.builds(lambda of: {"type": "number", "multipleOf": of}, st.sampled_from([0.5, 2, 3, 9973])),
)


def nest(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(inner, min_size=1, max_size=3)
    properties = st.dictionaries(st.sampled_from(NAMES), inner, max_size=3)
    names = st.lists(st.sampled_from(NAMES), unique=True, max_size=2)
    count = st.integers(0, 3)
    return st.one_of(
        st.fixed_dictionaries(
            {"type": st.just("object"), "properties": properties},
            optional={
                "required": names,
                "additionalProperties": inner | st.booleans(),
                "patternProperties": st.dictionaries(st.sampled_from(["^x", "a$"]), inner, max_size=2),
                "propertyNames": st.sampled_from([{"enum": ["a", "b"]}, {"maxLength": 1}, {"pattern": "^x"}]),
                "minProperties": count,
                "maxProperties": count,
                "dependentRequired": st.just({"a": ["b"]}),
                "unevaluatedProperties": st.booleans(),
                "anyOf": st.lists(names.map(lambda needed: {"required": needed}), min_size=1, max_size=2),
            },
        ),
        st.fixed_dictionaries(
            {"type": st.just("array")},
            optional={
                "items": inner | st.booleans(),
                "prefixItems": lists,
                "minItems": count,
                "maxItems": count,
                "uniqueItems": st.booleans(),
                "contains": inner,
                "unevaluatedItems": st.booleans(),
            },
        ),
        st.builds(lambda options: {"anyOf": options}, lists),
        st.builds(lambda options: {"oneOf": options}, lists),
        st.builds(lambda options: {"allOf": options}, lists),
        st.builds(lambda inner: {"not": inner}, inner),
        st.builds(lambda one, two, three: {"if": one, "then": two, "else": three}, inner, inner, inner),
    )


nested = st.recursive(leaves, nest, max_leaves=6)
schemas = st.builds(lambda root, definition: {"$defs": {"x": definition}, **root}, nested, nested)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-4, 12) | st.sampled_from([0.5, 1.5, "", "a", "ab", "b", "1.2.3.4"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from((*NAMES, "z")), inner, max_size=3),
    max_leaves=5,
)


def admits(schema: dict[str, Any], text: str) -> bool:
    return ByteMatcher(emit_lark(Rule(Value(schema, schema)))).accepts(text)


def orders_of(value: Any) -> Iterator[Any]:
    """The value with the keys of its objects in every order, because the schema decides which order is written."""
    if isinstance(value, list):
        yield from map(list, product(*map(orders_of, value)))
    elif isinstance(value, dict):
        for keys in permutations(value):
            for members in product(*(orders_of(value[key]) for key in keys)):
                yield dict(zip(keys, members, strict=True))
    else:
        yield value


@given(schemas)
def test_every_admitted_schema_compiles(schema: dict[str, Any]) -> None:
    assert schema_error(relax(_admit(schema)).schema) == ""


@given(schemas, st.lists(values, min_size=1, max_size=8))
def test_what_fits_the_schema_is_still_admitted(schema: dict[str, Any], candidates: list[Any]) -> None:
    admitted = _admit(schema)
    relaxed = relax(admitted)
    validator = jsonschema.Draft202012Validator
    fitting = validator(admitted, format_checker=validator.FORMAT_CHECKER)
    for value in filter(fitting.is_valid, candidates):
        spellings = map(dumps, orders_of(value))
        assert any(admits(relaxed.schema, text) for text in spellings), f"{dumps(value)} under {relaxed}"


@given(schemas)
def test_relaxing_again_loses_nothing_more(schema: dict[str, Any]) -> None:
    assert relax(relax(_admit(schema)).schema).losses == ()


def _admit(schema: dict[str, Any]) -> dict[str, Any]:
    try:
        return admit(schema)
    except SchemaError as refusal:
        assume(refusal.code != "ref_cycle")
        raise


@pytest.mark.parametrize(
    "schema, path, keyword",
    [
        ({"type": "array", "uniqueItems": True}, "/uniqueItems", "uniqueItems"),
        ({"properties": {"a/b": {"not": {"type": "null"}}}}, "/properties/a~1b/not", "not"),
        ({"$defs": {"x": {"not": {}, "type": "null"}}, "items": {"$ref": "#/$defs/x"}}, "/$defs/x/not", "not"),
        ({"items": {"oneOf": [{"minimum": 1}, {"maximum": 5}]}}, "/items/oneOf", "oneOf"),
        ({"type": "string", "format": "int32"}, "/format", "format"),
        ({"type": "integer", "minimum": 5, "maximum": 4}, "/minimum", "minimum"),
        ({"type": "integer", "allOf": [{"multipleOf": 997}, {"multipleOf": 991}]}, "/allOf/1/multipleOf", "multipleOf"),
        ({"type": "object", "required": ["a"], "properties": {"a": False}}, "/required", "required"),
    ],
)
def test_a_removed_keyword_is_listed_with_its_path(schema: dict[str, Any], path: str, keyword: str) -> None:
    losses = relax(admit(schema)).losses
    assert (path, keyword) in [(loss.path, loss.keyword) for loss in losses]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "uniqueItems": False},
        {"type": "array", "minContains": 2},
        {"type": "object", "then": {"required": ["a"]}},
        {"type": "object", "unevaluatedProperties": False},
        {"type": "object", "propertyNames": {"enum": ["a"]}},
        {"type": "string", "maxLength": 5.0},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        {"type": "integer", "title": "x", "default": 1, "x-mine": {"not": {}}},
        {"type": "object", "$defs": {"unused": {"not": {}}}},
    ],
)
def test_a_keyword_without_effect_or_with_an_exact_rewrite_is_no_loss(schema: dict[str, Any]) -> None:
    assert relax(admit(schema)).losses == ()


def test_a_schema_cannot_set_compiler_options() -> None:
    schema = {"type": "array", "x-guidance": {"item_separator": ";", "lenient": True}}
    assert relax(admit(schema)).schema == {"type": "array"}


def test_a_reference_into_a_removed_keyword_is_still_resolved() -> None:
    schema = admit({"properties": {"a": {"$ref": "#/not"}}, "not": {"type": "string"}, "type": "object"})
    relaxed = relax(schema)
    assert admits(relaxed.schema, '{"a": "x"}')
    assert not admits(relaxed.schema, '{"a": 1}')


def test_a_circular_reference_keeps_nothing_beside_it() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node", "minProperties": 1}}}
    relaxed = relax(admit({"$defs": {"node": node}, "$ref": "#/$defs/node"}))
    assert admits(relaxed.schema, '{"next": {"next": {}}}')
    assert [loss.keyword for loss in relaxed.losses] == ["minProperties"]


def test_multiples_that_would_take_minutes_are_left_out_at_once() -> None:
    with within(1):
        for multiple in (123456789, 9973, 1e300, 1e-12):
            assert relax({"type": "integer", "multipleOf": multiple}).losses


def test_only_llguidance_has_a_schema_compiler() -> None:
    with pytest.raises(DefinitionError):
        relax({}, "gbnf")


def test_losses_depend_on_how_arguments_are_written() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string", "pattern": "^a"}, "b": {"format": "date"}}}
    tool = ToolDefinition("f", parameters=parameters)
    assert [loss.path for loss in losses_of(tool, "JSON")] == ["/properties/b/format"]
    lowered = ["/properties/a/pattern", "/properties/b/format"]
    assert [loss.path for loss in losses_of(tool, "tagged")] == lowered
