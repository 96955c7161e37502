"""The first half of relaxation: keep the keywords that llguidance's compiler supports, by a table, and list the others.

The result contains only supported keywords. In particular it never contains `x-guidance`, with which an untrusted
schema could change how the compiler reads it. Every reference in it has the form `#/$defs/...`, so each part can be
compiled by itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import lcm
from typing import Any, cast

from ferrule.rules.matcher import schema_error
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS
from ferrule.schema.object_members import needs_additional_members
from ferrule.schema.pointer import escape, from_fragment
from ferrule.schema.refs import local_target
from ferrule.schema.target_limits import CHECKED_FORMATS, GUIDANCE_FORMATS
from ferrule.schema.value_decoder import type_name

# Beside one of these keywords, this schema alone does not show what counts as evaluated for `unevaluated...`.
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"})


def rewrite_keywords(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Replace `unevaluated...` and `propertyNames` by supported keywords, where that is exact."""
    result = dict(schema)
    if not _IN_PLACE & result.keys():
        _rename(result, "unevaluatedProperties", "additionalProperties")
        if "contains" not in result:
            _rename(result, "unevaluatedItems", "items")
    _rewrite_property_names(result)
    return result


def _rename(schema: dict[str, Any], old: str, new: str) -> None:
    if old not in schema:
        return
    value = schema.pop(old)
    # If the other keyword is present, it has already evaluated everything, and this one has no effect.
    schema.setdefault(new, value)


def _rewrite_property_names(schema: dict[str, Any]) -> None:
    """Replace `propertyNames` by `patternProperties` and a closed object, if one pattern describes the names."""
    names, others = schema.get("propertyNames"), schema.get("additionalProperties", True)
    pattern = _pattern_of(cast("dict[str, Any]", names)) if isinstance(names, dict) else None
    # A listed property would then also have to match `additionalProperties`, which moves into the pattern.
    if pattern is None or "patternProperties" in schema or (schema.get("properties") and others is not True):
        return
    if others is False:
        return
    del schema["propertyNames"]
    schema["patternProperties"] = {pattern: others}
    schema["additionalProperties"] = False


def _pattern_of(names: dict[str, Any]) -> str | None:
    """The pattern of the allowed names; None if they are defined by another keyword, or by more than one."""
    keywords = {key: value for key, value in names.items() if key not in ("type", "title", "description")}
    if len(keywords) != 1 or names.get("type", "string") != "string":
        return None
    ((keyword, value),) = keywords.items()
    match keyword:
        case "pattern":
            return str(value)
        case "enum" | "const":
            values = cast("list[object]", value) if keyword == "enum" else [value]
            return f"^(?:{'|'.join(_escape_literal(value) for value in values if isinstance(value, str))})$"
        case _:
            return None


def _escape_literal(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_ ]", lambda match: f"\\x{{{ord(match[0]):x}}}", text)


Node = dict[str, Any]
# The compiler refuses larger multiples or needs seconds for them: its time grows with the square of their least common
# multiple.
_MAX_MULTIPLE = 1_000
_MAX_COUNT = 1_000_000
_MAX_BOUND = 10**16


@dataclass(frozen=True, slots=True)
class Loss:
    """One keyword that is not enforced while decoding: its JSON pointer, its name and the reason."""

    path: str
    keyword: str
    reason: str


class KeywordFilter:
    """Filters one document. Call `document` once; `losses` is complete after it."""

    def __init__(self, root: Node) -> None:
        self.losses: list[Loss] = []
        self._root = root
        self._definitions: Node = {}
        self._names: dict[str, str] = {}
        self._common_multiple = 1

    def document(self) -> Node:
        """The filtered document."""
        result = self._node(self._root, "")
        if isinstance(result, bool):
            self._record_loss("", "not", "no value is valid, which a grammar cannot express")
            result = {}
        return {**result, "$defs": self._definitions} if self._definitions else result

    def original_path(self, pointer: str) -> str:
        """The pointer into the original document for a pointer into the filtered one."""
        for original, name in self._names.items():
            definition = f"/$defs/{name}"
            if pointer == definition or pointer.startswith(definition + "/"):
                return original + pointer[len(definition) :]
        return pointer

    def _record_loss(self, path: str, keyword: str, reason: str) -> None:
        self.losses.append(Loss(path, keyword, reason))

    def _node(self, schema: object, path: str) -> Node | bool:
        if not isinstance(schema, dict):
            return bool(schema)
        fields = cast("Node", schema)
        if fields.keys() == {"not"} and fields["not"] in ({}, True):
            return False
        result: Node = {}
        for keyword, value in rewrite_keywords(fields).items():
            keyword_path = f"{path}/{escape(keyword)}"
            if keyword in _UNSUPPORTED:
                if _UNSUPPORTED[keyword](fields):
                    self._record_loss(keyword_path, keyword, "llguidance refuses this keyword")
            elif keyword in _SUPPORTED:
                result[keyword] = value
            elif keyword in _CONDITIONAL:
                self._filter_conditional(keyword, value, keyword_path, result)
            elif keyword == "$ref":
                result[keyword] = self._reference(value)
            elif keyword in SUBSCHEMA_KEYWORDS and SUBSCHEMA_KEYWORDS[keyword].applies_to != "nothing":
                result[keyword] = self._filter_subschemas(keyword, value, keyword_path)
        self._drop_refused_patterns(result, path)
        self._drop_refused_counts(result, path)
        return result

    def _filter_conditional(self, keyword: str, value: Any, keyword_path: str, result: Node) -> None:
        reason = _CONDITIONAL[keyword](keyword, value)
        if keyword == "multipleOf" and not reason:
            combined = lcm(self._common_multiple, _digits(value))
            reason = (
                "together with the other multiples it would take too long to compile"
                if combined > _MAX_MULTIPLE
                else ""
            )
            self._common_multiple = self._common_multiple if reason else combined
        if not reason:
            result[keyword] = int(value) if keyword in _COUNTS else value
            return
        self._record_loss(keyword_path, keyword, reason)
        if keyword in ("enum", "const"):
            result.setdefault("type", _types(value if keyword == "enum" else [value]))

    def _filter_subschemas(self, keyword: str, value: Any, keyword_path: str) -> object:
        match SUBSCHEMA_KEYWORDS[keyword].shape:
            case "one":
                return self._node(value, keyword_path)
            case "many":
                return [
                    self._node(item, f"{keyword_path}/{number}")
                    for number, item in enumerate(cast("list[object]", value))
                ]
            case "map":
                named = cast("dict[str, object]", value)
                return {name: self._node(item, f"{keyword_path}/{escape(name)}") for name, item in named.items()}

    def _reference(self, ref: str) -> str:
        pointer = from_fragment(ref[1:])
        if pointer not in self._names:
            name = f"d{len(self._names)}"
            self._names[pointer] = name
            # The name is registered before its target is filtered, so that recursion ends.
            self._definitions[name] = {}
            self._definitions[name] = self._node(local_target(ref, self._root), pointer)
        return f"#/$defs/{self._names[pointer]}"

    def _drop_refused_patterns(self, result: Node, path: str) -> None:
        patterns = cast("Node", result.get("patternProperties", {}))
        reason = (
            schema_error({"type": "object", "patternProperties": dict.fromkeys(patterns, True)}) if patterns else ""
        )
        if reason:
            self._record_loss(
                f"{path}/patternProperties", "patternProperties", f"llguidance refuses the patterns: {reason:.120}"
            )
            del result["patternProperties"]
            # It applies to names that no pattern matches. Without the patterns it would apply to more names.
            if result.pop("additionalProperties", True) is not True:
                self._record_loss(
                    f"{path}/additionalProperties",
                    "additionalProperties",
                    "depends on patternProperties, which is left out",
                )

    def _drop_refused_counts(self, result: Node, path: str) -> None:
        for keyword in ("maxProperties", "minProperties"):
            if keyword in result and (reason := schema_error(_skeleton(result))):
                self._record_loss(f"{path}/{keyword}", keyword, f"llguidance refuses it here: {reason:.120}")
                if needs_additional_members(result):
                    # Without the count, the object would be closed, and nothing that can be written would fit.
                    result.setdefault("additionalProperties", True)
                del result[keyword]


def _skeleton(fields: Mapping[str, Any]) -> Node:
    """An object schema reduced to its property names and counts."""
    own = {key: fields[key] for key in ("required", "minProperties", "maxProperties") if key in fields}
    named = {key: dict.fromkeys(fields[key], True) for key in ("properties", "patternProperties") if key in fields}
    return {"type": "object", **named, **own, "additionalProperties": fields.get("additionalProperties") is not False}


def _digits(multiple: float) -> int:
    """A multiple without its powers of ten, which add nothing to the compile time."""
    number = Decimal(repr(multiple)).normalize()
    return int("".join(map(str, number.as_tuple().digits)))


def _multiple_problem(keyword: str, value: Any) -> str:
    if _digits(value) > _MAX_MULTIPLE:
        return "it would take too long to compile"
    return schema_error({"type": "number", keyword: value})


def _bound_problem(keyword: str, value: Any) -> str:
    if abs(value) > _MAX_BOUND:
        return f"llguidance supports bounds up to {_MAX_BOUND:.0e}"
    return schema_error({"type": "number", keyword: value})


def _count_problem(keyword: str, value: Any) -> str:
    return f"it is more than {_MAX_COUNT}" if value > _MAX_COUNT else ""


def _pattern_problem(keyword: str, value: Any) -> str:
    reason = schema_error({"type": "string", keyword: value})
    return f"llguidance refuses the pattern: {reason:.120}" if reason else ""


def _format_problem(keyword: str, value: Any) -> str:
    if value in GUIDANCE_FORMATS:
        return ""
    return "llguidance does not support this format" if value in CHECKED_FORMATS else "no validator checks this format"


def _value_problem(keyword: str, value: Any) -> str:
    """The first reason not to pass these values to the compiler, or "".

    A number of 64 bits or more must never reach the compiler: it aborts the whole process at the smallest such number.
    """
    return next((reason for number in _numbers(value) if (reason := _number_problem(number))), "")


def _number_problem(number: float) -> str:
    if isinstance(number, float):
        return "llguidance writes out numbers that have an exponent" if "e" in repr(number) else ""
    return "llguidance crashes on numbers of 64 bits and more" if abs(number) >= _MAX_INTEGER else ""


def _numbers(value: object) -> Iterator[float]:
    """Every number inside a JSON value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, dict):
        for inner in cast("dict[str, object]", value).values():
            yield from _numbers(inner)
    elif isinstance(value, list):
        for inner in cast("list[object]", value):
            yield from _numbers(inner)


def _types(values: list[object]) -> list[str]:
    return sorted({type_name(value) if not isinstance(value, float) else "number" for value in values})


def _always_applies(schema: Node) -> bool:
    return True


def _applies_beside(keyword: str) -> Callable[[Node], bool]:
    return lambda schema: keyword in schema


# Refused in every form. The function says whether the keyword has any effect in this schema; if not, nothing is lost.
_UNSUPPORTED: Mapping[str, Callable[[Node], bool]] = {
    "not": _always_applies,
    "if": lambda schema: "then" in schema or "else" in schema,
    "then": _applies_beside("if"),
    "else": _applies_beside("if"),
    "dependentSchemas": _always_applies,
    "dependentRequired": _always_applies,
    "propertyNames": lambda schema: schema["propertyNames"] not in (True, {}),
    "unevaluatedProperties": lambda schema: schema["unevaluatedProperties"] not in (True, {}),
    "unevaluatedItems": lambda schema: schema["unevaluatedItems"] not in (True, {}),
    "contains": _always_applies,
    "minContains": _applies_beside("contains"),
    "maxContains": _applies_beside("contains"),
    "uniqueItems": lambda schema: schema["uniqueItems"] is True,
}
_SUPPORTED = frozenset({"type", "required"})
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MAX_INTEGER = 2**62
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# Supported in some forms. The function returns the reason to leave the keyword out, or "".
_CONDITIONAL: Mapping[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(_COUNTS, _count_problem),
    **dict.fromkeys(_BOUNDS, _bound_problem),
    "multipleOf": _multiple_problem,
    "pattern": _pattern_problem,
    "format": _format_problem,
    "enum": _value_problem,
    "const": _value_problem,
}
