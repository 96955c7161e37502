"""Bound what a schema leaves open, so that a call fits in the token budget.

A weak model may write a string without end. If a schema sets no length, the rule does: strings, arrays, free objects
and free values get a limit that is derived from the budget. For longer values, raise `max_tokens` or set `maxLength`.
The checker always uses the original schema: bounds limit generation, they do not define what is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.schema.keywords import SUBSCHEMA_KEYWORDS
from ferrule.schema.refs import local_target

_CALLS = (4, 2, 1)
_ITEMS = (64, 32, 16, 8, 4, 2, 1)
_COMFORTABLE, _SHORTEST = 64, 16
# Names, markers and punctuation take about one token for this many characters in every tokenizer that was examined.
_FIXED_CHARACTERS_PER_TOKEN = 2
# The largest absolute value of an unbounded integer. Each digit may be a token.
LARGEST = 10**15
_NUMBER_TOKENS = 17
_FREE_ITEMS = 4
# A free value may be an object with this many members, each with a name and a text: strings, and other tokens.
_FREE_LOAD = (2 * _FREE_ITEMS, 4 * _FREE_ITEMS)
_DEPTH = 6
_VALUE_KEYWORDS = frozenset({"enum", "const", "$ref", "anyOf", "oneOf", "allOf", "type", "not", "if", "properties"})
_SHORT = frozenset({"integer", "number", "boolean", "null"})
# Inside of these keywords a bound would have the opposite effect.
_NEGATING = frozenset({"not", "if", "contains", "propertyNames"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The maximum length of an open string in characters, of an open array in items, and of a reply in calls."""

    characters: int
    items: int
    calls: int = 1

    def __str__(self) -> str:
        return f"open strings end at {self.characters} characters, open arrays at {self.items} items"


@dataclass(frozen=True, slots=True)
class Overhead:
    """The characters that a format writes around a call, and around each argument in addition to name and value."""

    call: int
    argument: int


# What most families write that put JSON between two markers.
_JSON_OVERHEAD = Overhead(call=40, argument=6)


def bounds_for(
    tools: Iterable[ToolDefinition],
    budget: int,
    max_calls: int | None,
    overhead: Overhead = _JSON_OVERHEAD,
    tokens_per_character: int = 1,
) -> Bounds:
    """Bounds under which any call to any of the tools fits in `budget` tokens.

    One token per character is the worst case for ASCII text; other scripts take more in many vocabularies. Text that
    takes more than estimated may still exceed the budget. It is then cut off and reported, as without bounds. A small
    budget reduces the number of calls first, then the number of items.
    """
    offered = [(tool.parameters, _call_tokens(tool, overhead)) for tool in tools]
    call_counts = _CALLS if max_calls is None else tuple(sorted({min(n, max_calls) for n in _CALLS}, reverse=True))
    for min_characters in (_COMFORTABLE, _SHORTEST):
        for items in _ITEMS:
            for calls in call_counts:
                characters = min(
                    (
                        _string_length(schema, budget // calls - call_overhead, items)
                        for schema, call_overhead in offered
                    ),
                    default=budget,
                )
                if characters // tokens_per_character >= min_characters:
                    return Bounds(characters // tokens_per_character, items, calls)
    return Bounds(_SHORTEST, 1, 1)


def apply_bounds(schema: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    """The same schema with a limit for everything that it leaves open."""
    return cast("dict[str, Any]", _apply(schema, bounds, 0))


def reaches_bounds(value: Any, bounds: Bounds) -> bool:
    """Whether some part of a value is as long as the bounds allow, so that they may have cut it short."""
    match value:
        case str():
            return len(value) >= bounds.characters
        case list():
            items = cast("list[Any]", value)
            return len(items) >= bounds.items or any(reaches_bounds(item, bounds) for item in items)
        case dict():
            return any(reaches_bounds(item, bounds) for item in cast("dict[str, Any]", value).values())
        case _:
            return False


def _apply(schema: Any, bounds: Bounds, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return _free(bounds) if schema is True and depth else schema
    fields = cast("Mapping[str, Any]", schema)
    if depth and not fields.keys() & _VALUE_KEYWORDS and not _has_subschemas(fields):
        return {**fields, **_free(bounds)}
    result = {keyword: _apply_to_keyword(keyword, value, bounds, depth) for keyword, value in fields.items()}
    types = _types(fields)
    if "enum" in fields or "const" in fields:
        return result
    for keyword in {"anyOf", "oneOf"} & fields.keys():
        if (length := _raw_length(fields[keyword], result[keyword], bounds)) is not None:
            result.setdefault("maxLength", length)
    if "string" in types and "pattern" not in fields and "format" not in fields:
        result.setdefault("maxLength", max(bounds.characters, int(fields.get("minLength", 0))))
    if "array" in types:
        result.setdefault("maxItems", max(bounds.items, int(fields.get("minItems", 0))))
        if "items" not in fields and "prefixItems" not in fields:
            result["items"] = _free(bounds)
    if "integer" in types and "number" not in types:
        result |= _digits(fields)
    if "object" in types and depth and _is_open(fields):
        result |= _members(fields, bounds, depth)
    return result


def _types(fields: Mapping[str, Any]) -> frozenset[str]:
    kinds: Any = fields.get("type")
    return frozenset([kinds] if isinstance(kinds, str) else kinds or ())


def _digits(fields: Mapping[str, Any]) -> dict[str, int]:
    """Bounds for an open integer. They stop endless digits, and are large enough for every amount, size and time."""
    lower = {} if fields.keys() & {"minimum", "exclusiveMinimum"} else {"minimum": -LARGEST}
    upper = {} if fields.keys() & {"maximum", "exclusiveMaximum"} else {"maximum": LARGEST}
    return lower | upper


def _members(fields: Mapping[str, Any], bounds: Bounds, depth: int) -> dict[str, Any]:
    """Keywords for an open object: a limited number of members, or only the required ones if some are required."""
    each = _apply(fields.get("additionalProperties", True), bounds, depth + 1)
    named: list[str] = list(fields.get("required") or ())
    if named:
        return {"properties": dict.fromkeys(named, each), "additionalProperties": False}
    least = int(fields.get("minProperties", 0))
    return {"maxProperties": fields.get("maxProperties", max(bounds.items, least)), "additionalProperties": each}


def _has_subschemas(fields: Mapping[str, Any]) -> bool:
    return any(keyword in SUBSCHEMA_KEYWORDS for keyword in fields)


def _is_open(fields: Mapping[str, Any]) -> bool:
    """Whether an object allows any keys: it lists no properties and forbids none."""
    extra = fields.get("additionalProperties", True)
    return not fields.get("properties") and extra is not False and "patternProperties" not in fields


def _free(bounds: Bounds) -> dict[str, Any]:
    """A schema for any value, limited to two levels and a few items, for parts that the schema does not specify."""
    plain: list[dict[str, Any]] = [
        {"type": "string", "maxLength": bounds.characters},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "null"},
    ]
    most = min(bounds.items, _FREE_ITEMS)
    some = {"type": "array", "items": {"anyOf": plain}, "maxItems": most}
    named = {"type": "object", "additionalProperties": {"anyOf": plain}, "maxProperties": most}
    return {"anyOf": [*plain, some, named], "maxLength": _FREE_LOAD[0] * bounds.characters}


def _raw_length(options: Iterable[Any], bounded_options: Iterable[Any], bounds: Bounds) -> int | None:
    """The maximum length of a union whose values are written raw; None if it cannot be determined.

    Written raw, all options are one text, so no single option can limit its length. In JSON, each option has its own
    limit, which is never larger.
    """
    lengths = [_NUMBER_TOKENS]
    for original, option in zip(options, bounded_options, strict=True):
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", option) if isinstance(option, Mapping) else {}
        kinds = _types(fields)
        if "enum" in fields or "const" in fields:
            lengths += [len(dumps(value)) for value in fields.get("enum") or [fields.get("const")]]
        elif kinds <= {"string", *_SHORT} and "maxLength" in fields:
            lengths.append(int(fields["maxLength"]))
        elif kinds & {"array", "object"} and "$ref" not in dumps(fields):
            strings, fixed = _load(original, fields, bounds.items, 1)
            # Names and punctuation are estimated at two characters per token; the space for strings compensates for it.
            lengths.append(max(strings * bounds.characters, fixed) + fixed)
        elif not kinds or kinds - _SHORT:
            return None
    return max(lengths)


def _apply_to_keyword(keyword: str, value: Any, bounds: Bounds, depth: int) -> Any:
    holder = SUBSCHEMA_KEYWORDS.get(keyword)
    if holder is None or keyword in _NEGATING:
        return value
    # Only schemas for a part of the value are a level deeper, not those for the same value.
    inner = depth + (holder.applies_to == "part") + (keyword == "$defs")
    if holder.shape == "map" and isinstance(value, Mapping):
        named = cast("Mapping[str, Any]", value)
        return {name: _apply(schema, bounds, inner) for name, schema in named.items()}
    if holder.shape == "many" and isinstance(value, list):
        return [_apply(schema, bounds, inner) for schema in cast("list[Any]", value)]
    if holder.shape == "one" and (isinstance(value, Mapping) or value is True):
        return _apply(cast("Any", value), bounds, inner)
    return value


def _call_tokens(tool: ToolDefinition, overhead: Overhead) -> int:
    """The tokens that the wire format takes for a call, without its values."""
    arguments = len(tool.parameters.get("properties") or ())
    return _tokens(overhead.call + len(tool.name) + arguments * overhead.argument)


def _string_length(schema: Mapping[str, Any], budget: int, items: int) -> int:
    """The maximum length of each open string."""
    strings, fixed = _load(schema, schema, items, 0)
    remaining = budget - fixed
    return remaining // strings if strings else remaining


def _load(schema: Any, root: Mapping[str, Any], items: int, depth: int) -> tuple[int, int]:
    """The number of open strings in a value, and the tokens that everything else takes."""
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return _FREE_LOAD
    fields = cast("Mapping[str, Any]", schema)
    if depth and not fields.keys() & _VALUE_KEYWORDS and not _has_subschemas(fields):
        return _FREE_LOAD
    if "enum" in fields or "const" in fields:
        values = fields.get("enum") or [fields.get("const")]
        return (0, _tokens(max(map(len, map(dumps, values)))))
    if "$ref" in fields:
        return _load(local_target(fields["$ref"], root), root, items, depth + 1)
    options = [*(fields.get("anyOf") or ()), *(fields.get("oneOf") or ())]
    loads = [_load(option, root, items, depth + 1) for option in options]
    worst = (max((s for s, _ in loads), default=0), max((f for _, f in loads), default=0))
    strings, fixed = worst
    for part in fields.get("allOf") or ():
        more = _load(part, root, items, depth + 1)
        strings, fixed = strings + more[0], fixed + more[1]
    properties: Mapping[str, Any] = fields.get("properties") or {}
    for name, inner in properties.items():
        more = _load(inner, root, items, depth + 1)
        strings, fixed = strings + more[0], fixed + more[1] + _tokens(len(name)) + 4
    types = _types(fields)
    if "array" in types:
        most = int(fields.get("maxItems", max(items, int(fields.get("minItems", 0)))))
        each = _load(fields.get("items", True), root, items, depth + 1)
        strings, fixed = strings + most * each[0], fixed + most * (each[1] + 1)
    if "string" in types:
        longest = fields.get("maxLength")
        strings, fixed = (strings + 1, fixed + 2) if longest is None else (strings, fixed + int(longest) + 2)
    if "object" in types and _is_open(fields) and depth:
        # Each value has a name, which is an open string too unless the names are required ones.
        named = len(fields.get("required") or ())
        each = _load(fields.get("additionalProperties", True), root, items, depth + 1)
        count = named or items
        strings, fixed = strings + count * (each[0] + (not named)), fixed + count * (each[1] + 4)
    return strings, fixed + (_NUMBER_TOKENS if {"integer", "number"} & types else 2)


def _tokens(characters: int) -> int:
    return -(-characters // _FIXED_CHARACTERS_PER_TOKEN)
