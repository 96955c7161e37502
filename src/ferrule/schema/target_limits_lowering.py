"""What Ferrule's own lowering enforces, for values in any notation: each row proved by a test."""

from __future__ import annotations

from typing import Any

from ferrule.schema.target_limit import Limit, enforced, nearly, unsaid

_INTEGER, _STRING = {"type": "integer"}, {"type": "string"}
_A_B: dict[str, Any] = {"type": "object", "properties": {"a": {}, "b": {}}}
_LEFT_OUT = "not lowered"
_SIGN = "only whether a minus may be written"
_FORMATS = {
    "date": ('"2026-01-31"', '"x"'),
    "time": ('"13:45:00Z"', '"x"'),
    "date-time": ('"2026-01-31T13:45:00Z"', '"x"'),
    "duration": ('"PT15M"', '"PT"'),
    "email": ('"name@example.com"', '"nope"'),
    "idn-email": ('"é@é.com"', '"nope"'),
    "hostname": ('"example.com"', '"-a.com"'),
    "idn-hostname": ('"例え.jp"', '"a b"'),
    "ipv4": ('"192.0.2.1"', '"256.1.1.1"'),
    "ipv6": ('"::1"', '"1:2:3"'),
    "uri": ('"https://example.com/page"', '"/page"'),
    "uri-reference": ('"/page"', '"a b"'),
    "iri": ('"http://é.com/ü"', '"a b"'),
    "iri-reference": ('"/é"', '" "'),
    "uri-template": ('"/a/{b}"', '"/a/{b"'),
    "uuid": ('"123e4567-e89b-12d3-a456-426614174000"', '"nope"'),
    "json-pointer": ('"/a/b"', '"a"'),
    "relative-json-pointer": ('"0/a"', '"/a"'),
    "regex": ('"a+"', '"("'),
}

LOWERED: tuple[Limit, ...] = (
    enforced("type", "a whole number is written without a fraction", _INTEGER, ("1", "-20"), ("1.5", '"1"'), ("1.0",)),
    enforced("enum", "alone, without what stands beside it", {"enum": ["a", 1]}, ('"a"', "1"), ('"b"', "null")),
    enforced("const", "keys in the order given", {"const": {"a": 1, "b": 2}}, ('{"a": 1, "b": 2}',), ('{"a": 1}',),
             ('{"b": 2, "a": 1}',)),
    unsaid("multipleOf", _LEFT_OUT, {"type": "integer", "multipleOf": 3}, ("3",), ("4",)),
    enforced("maximum", "of whole numbers, up to 1e18", {"type": "integer", "maximum": 5}, ("5", "-70"), ("6",)),
    unsaid("maximum, of numbers", _LEFT_OUT, {"type": "number", "maximum": 5}, ("5",), ("6",)),
    enforced("exclusiveMaximum", "as maximum", {"type": "integer", "exclusiveMaximum": 5}, ("4",), ("5",)),
    unsaid("exclusiveMaximum, of numbers", _LEFT_OUT, {"type": "number", "exclusiveMaximum": 5}, ("4",), ("5",)),
    enforced("minimum", "as maximum", {"type": "integer", "minimum": 5}, ("5", "1000"), ("4", "-5")),
    nearly("minimum, of numbers", _SIGN, {"type": "number", "minimum": 5}, ("5",), ("4",)),
    enforced("exclusiveMinimum", "as maximum", {"type": "integer", "exclusiveMinimum": 5}, ("6",), ("5",)),
    nearly("exclusiveMinimum, of numbers", _SIGN, {"type": "number", "exclusiveMinimum": 5}, ("6",), ("5",)),
    unsaid("maxLength, above 512", "not counted", {"type": "string", "maxLength": 600}, ('"ab"',),
           ('"' + "a" * 601 + '"',)),
    unsaid("minLength, above 512", "counted up to 512", {"type": "string", "minLength": 513}, ('"' + "a" * 513 + '"',),
           ('"' + "a" * 512 + '"',)),
    enforced("maxLength", "in characters", {"type": "string", "maxLength": 2}, ('"ab"', '"😀😀"'), ('"abc"',)),
    enforced("minLength", "in characters", {"type": "string", "minLength": 2}, ('"ab"',), ('"a"', '"😀"')),
    unsaid("pattern", _LEFT_OUT, {"type": "string", "pattern": "^a+$"}, ('"aa"',), ('"b"',)),
    enforced("maxItems", "in full", {"type": "array", "maxItems": 2}, ("[1, 2]",), ("[1, 2, 3]",)),
    enforced("minItems", "in full", {"type": "array", "minItems": 2}, ("[1, 2]",), ("[1]",)),
    unsaid("uniqueItems", _LEFT_OUT, {"type": "array", "uniqueItems": True}, ("[1, 2]",), ("[1, 1]",)),
    unsaid("contains", _LEFT_OUT, {"type": "array", "contains": _INTEGER}, ("[1]",), ('["a"]',)),
    unsaid("minContains", _LEFT_OUT, {"type": "array", "contains": _INTEGER, "minContains": 2}, ("[1, 2]",), ("[1]",)),
    unsaid("maxContains", _LEFT_OUT, {"type": "array", "contains": _INTEGER, "maxContains": 1}, ("[1]",), ("[1, 2]",)),
    unsaid("maxProperties", _LEFT_OUT, {**_A_B, "maxProperties": 1}, ('{"a": 1}',), ('{"a": 1, "b": 2}',)),
    unsaid("minProperties", _LEFT_OUT, {**_A_B, "minProperties": 1}, ('{"a": 1}',), ("{}",)),
    enforced("required", "in full", {**_A_B, "required": ["b"]}, ('{"b": 1}', '{"a": 1, "b": 2}'), ('{"a": 1}', "{}")),
    unsaid("dependentRequired", _LEFT_OUT, {**_A_B, "dependentRequired": {"a": ["b"]}}, ("{}",), ('{"a": 1}',)),
    enforced("properties", "in full; where some are listed, no other may be written unless additionalProperties asks",
             {"type": "object", "properties": {"a": _INTEGER}}, ('{"a": 1}', "{}"), ('{"a": "x"}',), ('{"b": 1}',)),
    enforced("property order", "listed ones in the schema's order, then those only required, then others",
             _A_B, ('{"a": 1, "b": 2}',), (), ('{"b": 2, "a": 1}',)),
    nearly("properties, beside others", "a listed name may come among the others, and then is held to their schema",
           {"type": "object", "properties": {"a": _INTEGER, "b": {}}, "additionalProperties": True},
           ('{"a": 1, "b": 2}',), ('{"b": 2, "a": "x"}',)),
    nearly("property names, twice", "a name that is not listed may come again", {"type": "object"}, ('{"a": 1}',), ()),
    unsaid("patternProperties", _LEFT_OUT, {"type": "object", "patternProperties": {"^x": _INTEGER}}, ('{"x1": 1}',),
           ('{"x1": "a"}',)),
    enforced("additionalProperties", "in full",
             {"type": "object", "properties": {"a": {}}, "additionalProperties": _INTEGER}, ('{"a": "x", "b": 1}',),
             ('{"b": "x"}',)),
    unsaid("propertyNames", _LEFT_OUT, {"type": "object", "propertyNames": {"maxLength": 2}}, ('{"x": 1}',),
           ('{"xyz": 1}',)),
    unsaid("unevaluatedProperties", _LEFT_OUT, {"type": "object", "unevaluatedProperties": False}, ("{}",),
           ('{"x": 1}',)),
    unsaid("unevaluatedItems", _LEFT_OUT, {"type": "array", "unevaluatedItems": False}, ("[]",), ("[1]",)),
    enforced("items", "in full", {"type": "array", "items": _INTEGER}, ("[]", "[1, 2]"), ('["a"]',)),
    enforced("prefixItems", "by place", {"type": "array", "prefixItems": [_INTEGER, _STRING], "minItems": 2},
             ('[1, "a"]',), ('["a", "b"]', "[1, 2]")),
    enforced("anyOf", "in full", {"anyOf": [_INTEGER, _STRING]}, ("1", '"a"'), ("null",)),
    nearly("oneOf", "as anyOf", {"oneOf": [{"type": "integer"}, {"type": "number"}]}, ("1.5",), ("1",)),
    nearly("allOf", "made one, with what is lowered of it", {"allOf": [_INTEGER, {"multipleOf": 7}]}, ("7",), ("8",)),
    unsaid("not", _LEFT_OUT, {"not": _STRING}, ("1",), ('"a"',)),
    unsaid("if", _LEFT_OUT, {**_A_B, "if": {"required": ["a"]}, "then": {"required": ["b"]}}, ("{}",), ('{"a": 1}',)),
    unsaid("then", _LEFT_OUT, {**_A_B, "if": True, "then": {"required": ["b"]}}, ('{"b": 1}',), ('{"a": 1}',)),
    unsaid("else", _LEFT_OUT, {**_A_B, "if": False, "else": {"required": ["b"]}}, ('{"b": 1}',), ('{"a": 1}',)),
    unsaid("dependentSchemas", _LEFT_OUT, {**_A_B, "dependentSchemas": {"a": {"required": ["b"]}}}, ("{}",),
           ('{"a": 1}',)),
    enforced("$ref", "recursion included", {"type": "array", "items": {"$ref": "#"}}, ("[[], [[]]]",), ("[[1]]",)),
    *(
        unsaid(f"format:{name}", _LEFT_OUT, {"type": "string", "format": name}, (fit,), (slip,))
        for name, (fit, slip) in _FORMATS.items()
    ),
)  # fmt: skip
