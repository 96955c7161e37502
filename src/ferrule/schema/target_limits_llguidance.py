"""What llguidance's own JSON Schema compiler enforces: measured with version 1.9, each row proved by a test.

The rows apply to schemas after `rules.relaxation`. Without it, a keyword that is not supported would make the compiler
refuse the whole grammar.
"""

from __future__ import annotations

from typing import Any

from ferrule.schema.target_limit import Limit, approximated, enforced, unenforced

GUIDANCE_FORMATS = frozenset(
    {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uri", "uuid"}
)
_INTEGER, _STRING = {"type": "integer"}, {"type": "string"}
_A_B: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}
_LEFT_OUT = "left out"


def _format(name: str, fit: str, wrong: str, false_rejects: tuple[str, ...] = ()) -> Limit:
    detail = "stricter than the standard in rare forms" if false_rejects else "in full"
    return enforced(f"format:{name}", detail, {"type": "string", "format": name}, (fit,), (wrong,), false_rejects)


def _approximated_format(name: str, detail: str, fit: str, false_accept: str) -> Limit:
    return approximated(f"format:{name}", detail, {"type": "string", "format": name}, (fit,), (false_accept,))


def _unknown_format(name: str, fit: str, false_accept: str) -> Limit:
    return unenforced(
        f"format:{name}", "the format is not known", {"type": "string", "format": name}, (fit,), (false_accept,)
    )


GUIDANCE: tuple[Limit, ...] = (
    enforced("type", "a whole number is written without a fraction", _INTEGER, ("1", "-20"), ("1.5", '"1"'), ("1.0",)),
    enforced("enum", "in full", {"enum": ["a", 1, {"b": [1]}]}, ('"a"', "1", '{"b": [1]}'), ('"b"', "null")),
    approximated("enum, with an exponent", "its types only", {"enum": [1e21]}, ("1e+21",), ("5",)),
    enforced("const", "keys in the order given", {"const": {"a": 1, "b": 2}}, ('{"a": 1, "b": 2}',), ('{"a": 1}',),
             ('{"b": 2, "a": 1}',)),
    enforced("multipleOf", "up to 1000", {"type": "number", "multipleOf": 0.5}, ("1.5", "-2"), ("1.25",), ("1e3",)),
    unenforced("multipleOf, large", _LEFT_OUT, {"type": "integer", "multipleOf": 9973}, ("9973",), ("1",)),
    enforced("maximum", "up to 1e16, and no exponent is written", {"type": "number", "maximum": 5.5}, ("5.5", "-100"),
             ("5.51",), ("1e0",)),
    enforced("exclusiveMaximum", "as maximum", {"type": "number", "exclusiveMaximum": 5}, ("4.99",), ("5",)),
    enforced("minimum", "as maximum", {"type": "integer", "minimum": 5}, ("5", "1000"), ("4", "-5")),
    unenforced("minimum, above 1e16", _LEFT_OUT, {"type": "integer", "minimum": 10**18}, ("1000000000000000000",),
               ("5",)),
    enforced("exclusiveMinimum", "as maximum", {"type": "integer", "exclusiveMinimum": 5}, ("6",), ("5",)),
    enforced("maxLength", "in characters", {"type": "string", "maxLength": 2}, ('"ab"', '"😀😀"'), ('"abc"',)),
    enforced("minLength", "in characters", {"type": "string", "minLength": 2}, ('"ab"',), ('"a"', '"😀"')),
    enforced("pattern", "unanchored as the standard has it", {"type": "string", "pattern": "a+"}, ('"xay"',), ('"b"',)),
    unenforced("pattern, with a word boundary", _LEFT_OUT, {"type": "string", "pattern": "\\ba"}, ('"a"',), ('"b"',)),
    enforced("maxItems", "in full", {"type": "array", "maxItems": 2}, ("[1, 2]",), ("[1, 2, 3]",)),
    enforced("minItems", "in full", {"type": "array", "minItems": 2}, ("[1, 2]",), ("[1]",)),
    unenforced("uniqueItems", _LEFT_OUT, {"type": "array", "uniqueItems": True}, ("[1, 2]",), ("[1, 1]",)),
    unenforced("contains", _LEFT_OUT, {"type": "array", "contains": _INTEGER}, ("[1]",), ('["a"]',)),
    unenforced("minContains", _LEFT_OUT, {"type": "array", "contains": _INTEGER, "minContains": 2}, ("[1, 2]",),
               ("[1]",)),
    unenforced("maxContains", _LEFT_OUT, {"type": "array", "contains": _INTEGER, "maxContains": 1}, ("[1]",),
               ("[1, 2]",)),
    enforced("maxProperties", "where each listed property is required", {"type": "object", "maxProperties": 1},
             ('{"a": 1}',), ('{"a": 1, "b": 2}',)),
    unenforced("maxProperties, some optional", _LEFT_OUT, {**_A_B, "maxProperties": 1}, ('{"a": 1}',),
               ('{"a": 1, "b": 2}',)),
    enforced("minProperties", "where each listed property is required", {"type": "object", "minProperties": 1},
             ('{"a": 1}',), ("{}",)),
    unenforced("minProperties, some optional", _LEFT_OUT, {**_A_B, "minProperties": 2}, ('{"a": 1, "b": 2}',), ("{}",)),
    enforced("required", "in full", {**_A_B, "required": ["b"]}, ('{"b": 1}', '{"a": 1, "b": 2}'), ('{"a": 1}', "{}")),
    unenforced("dependentRequired", _LEFT_OUT, {**_A_B, "dependentRequired": {"a": ["b"]}}, ("{}",), ('{"a": 1}',)),
    enforced("properties", "in full", {"type": "object", "properties": {"a": _INTEGER}}, ('{"a": 1}', "{}"),
             ('{"a": "x"}',)),
    enforced("property order", "listed ones in the schema's order, then those only required, then others",
             {**_A_B, "additionalProperties": True}, ('{"a": 1, "b": 2, "c": 3}',), (),
             ('{"b": 2, "a": 1}', '{"c": 3, "a": 1}')),
    approximated("property names, twice", "a name that is not listed may come again", {"type": "object"}, ('{"a": 1}',),
                 ()),
    enforced("patternProperties", "where no two patterns match one name",
             {"type": "object", "patternProperties": {"^x": _INTEGER}}, ('{"x1": 1}', '{"y": "a"}'), ('{"x1": "a"}',)),
    unenforced("patternProperties, overlapping", _LEFT_OUT,
               {"type": "object", "patternProperties": {"^x": _INTEGER, "y$": {"minimum": 5}}}, ('{"xy": 6}',),
               ('{"xy": 1}',)),
    enforced("additionalProperties", "in full",
             {"type": "object", "properties": {"a": {}}, "additionalProperties": _INTEGER}, ('{"a": "x", "b": 1}',),
             ('{"b": "x"}',)),
    enforced("propertyNames", "an enum or a pattern alone, as patternProperties",
             {"type": "object", "propertyNames": {"enum": ["x", "y.z"]}}, ('{"y.z": 1, "x": 2}',), ('{"yxz": 1}',)),
    unenforced("propertyNames, by another keyword", _LEFT_OUT, {"type": "object", "propertyNames": {"maxLength": 2}},
               ('{"x": 1}',), ('{"xyz": 1}',)),
    enforced("unevaluatedProperties", "as additionalProperties where nothing is combined",
             {"type": "object", "properties": {"a": {}}, "unevaluatedProperties": False}, ('{"a": 1}',), ('{"x": 1}',)),
    unenforced("unevaluatedProperties, beside a combination", _LEFT_OUT,
               {"type": "object", "allOf": [{"properties": {"a": {}}}], "unevaluatedProperties": False}, ('{"a": 1}',),
               ('{"x": 1}',)),
    enforced("unevaluatedItems", "as items where nothing is combined",
             {"type": "array", "prefixItems": [{}], "unevaluatedItems": False}, ("[1]",), ("[1, 2]",)),
    unenforced("unevaluatedItems, beside a combination", _LEFT_OUT,
               {"type": "array", "allOf": [{"prefixItems": [{}]}], "unevaluatedItems": False}, ("[1]",), ("[1, 2]",)),
    enforced("items", "in full", {"type": "array", "items": _INTEGER}, ("[]", "[1, 2]"), ('["a"]',)),
    enforced("prefixItems", "in full", {"type": "array", "prefixItems": [_INTEGER, _STRING]},
             ("[]", "[1]", '[1, "a", null]'), ('["a"]', "[1, 2]")),
    enforced("anyOf", "in full, with the keywords beside it",
             {**_A_B, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, ('{"a": 1}', '{"b": 1}'), ("{}",)),
    enforced("oneOf", "where types, or required consts, keep the alternatives apart", {"oneOf": [_INTEGER, _STRING]},
             ("1", '"a"'), ("null",)),
    approximated("oneOf, overlapping", "as anyOf", {"oneOf": [{**_INTEGER, "minimum": 1}, {**_INTEGER, "maximum": 5}]},
                 ("0", "6"), ("3",)),
    enforced("allOf", "where the parts can be made one", {"allOf": [_INTEGER, {"minimum": 5}, {"maximum": 7}]}, ("5",),
             ("4", "8", '"a"')),
    unenforced("not", _LEFT_OUT, {"not": _STRING}, ("1",), ('"a"',)),
    unenforced("if", _LEFT_OUT, {**_A_B, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, ("{}",),
               ('{"a": 1}',)),
    unenforced("then", _LEFT_OUT, {**_A_B, "if": True, "then": {"required": ["b"]}}, ('{"b": 1}',), ('{"a": 1}',)),
    unenforced("else", _LEFT_OUT, {**_A_B, "if": False, "else": {"required": ["b"]}}, ('{"b": 1}',), ('{"a": 1}',)),
    unenforced("dependentSchemas", _LEFT_OUT, {**_A_B, "dependentSchemas": {"a": {"required": ["b"]}}}, ("{}",),
               ('{"a": 1}',)),
    enforced("$ref", "recursion included", {"type": "array", "items": {"$ref": "#"}}, ("[[], [[]]]",), ("[[1]]",)),
    _approximated_format("date", "29 February of every year passes", '"2026-01-31"', '"2023-02-29"'),
    _approximated_format("time", "second 60 of every minute passes", '"13:45:00Z"', '"13:45:60Z"'),
    _approximated_format("date-time", "as date and time", '"2026-01-31T13:45:00Z"', '"2023-02-29T00:00:00Z"'),
    _format("duration", '"PT15M"', '"PT"'),
    _format("email", '"name@example.com"', '"nope"', ('"\\"a b\\"@example.com"',)),
    _format("hostname", '"example.com"', '"-a.com"'),
    _format("ipv4", '"192.0.2.1"', '"256.1.1.1"'),
    _format("ipv6", '"2001:db8::1"', '"1:2:3"', ('"::ffff:1.2.3.4"',)),
    _format("uri", '"https://example.com/page"', '"/page"'),
    _format("uuid", '"123e4567-e89b-12d3-a456-426614174000"', '"123e4567"'),
    _unknown_format("idn-email", '"é@é.com"', '"nope"'),
    _unknown_format("idn-hostname", '"例え.jp"', '"a b"'),
    _unknown_format("uri-reference", '"/page"', '"a b"'),
    _unknown_format("iri", '"http://é.com/ü"', '"a b"'),
    _unknown_format("iri-reference", '"/é"', '" "'),
    _unknown_format("uri-template", '"/a/{b}"', '"/a/{b"'),
    _unknown_format("json-pointer", '"/a/b"', '"a"'),
    _unknown_format("relative-json-pointer", '"0/a"', '"/a"'),
    _unknown_format("regex", '"a+"', '"("'),
)  # fmt: skip
