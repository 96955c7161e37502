"""Bound: an end for what a schema leaves open, so that a call fits in the tokens that there are.

A weak model can write a string for ever. Where a schema sets no length, the rule does: strings, arrays, free objects
and free values get a limit that follows from the budget; whoever wants more raises `max_tokens` or says `maxLength`.
The checker is never given a bounded schema: a bound is about generation, not about what is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.schema.keywords import PLACES
from ferrule.schema.refs import local_target

_CALLS = (4, 2, 1)
_ITEMS = (64, 32, 16, 8, 4, 2, 1)
_COMFORTABLE, _SHORTEST = 64, 16
# Names, marks and punctuation come to about this many characters a token in every tokenizer that was looked at.
_FIXED_CHARACTERS_PER_TOKEN = 2
# An open whole number has at most so many digits, each of which may be a token.
LARGEST = 10**15
_NUMBER_TOKENS = 17
_FREE_ITEMS = 4
# A free value may be an object of so many members, each with a name and a text.
_FREE_LOAD = (2 * _FREE_ITEMS, 4 * _FREE_ITEMS)
_DEPTH = 6
_VALUE_KEYWORDS = frozenset({"enum", "const", "$ref", "anyOf", "oneOf", "allOf", "type", "not", "if", "properties"})
_SHORT = frozenset({"integer", "number", "boolean", "null"})
# Inside of these a bound would forbid the opposite of what it is meant for.
_TURNED = frozenset({"not", "if", "contains", "propertyNames"})


@dataclass(frozen=True, slots=True)
class Bounds:
    """The longest open string in characters, the most items of an open array, and the most calls in one reply."""

    characters: int
    items: int
    calls: int = 1

    def __str__(self) -> str:
        return f"open strings end at {self.characters} characters, open arrays at {self.items} items"


@dataclass(frozen=True, slots=True)
class Overhead:
    """How many characters stand around a call, and around each argument besides its name and value."""

    call: int
    argument: int


# What most families write who put JSON between two marks.
_JSON_OVERHEAD = Overhead(call=40, argument=6)


def bounds_for(
    tools: Iterable[ToolDefinition],
    budget: int,
    most_calls: int | None,
    overhead: Overhead = _JSON_OVERHEAD,
    tokens_a_character: int = 1,
) -> Bounds:
    """Bounds under which any call to any of the tools fits in `budget` tokens.

    A token a character is the worst case for text in ASCII; other scripts take more in many vocabularies. Text that
    takes more than was reckoned with may still run out, and is then cut off and told so, as without bounds. A small
    budget lowers the number of calls first, then that of items.
    """
    offered = [(tool.parameters, _around(tool, overhead)) for tool in tools]
    calls_tried = _CALLS if most_calls is None else tuple(sorted({min(n, most_calls) for n in _CALLS}, reverse=True))
    for least in (_COMFORTABLE, _SHORTEST):
        for items in _ITEMS:
            for calls in calls_tried:
                room = min(
                    (_room(schema, budget // calls - around, items) for schema, around in offered), default=budget
                )
                if room // tokens_a_character >= least:
                    return Bounds(room // tokens_a_character, items, calls)
    return Bounds(_SHORTEST, 1, 1)


def bounded(schema: Mapping[str, Any], bounds: Bounds) -> dict[str, Any]:
    """The same schema with an end for everything that it leaves open."""
    return cast("dict[str, Any]", _bounded(schema, bounds, 0))


def reached(value: Any, bounds: Bounds) -> bool:
    """Whether a value holds something that is as long as the bounds allow, and so may have been cut short by them."""
    match value:
        case str():
            return len(value) >= bounds.characters
        case list():
            items = cast("list[Any]", value)
            return len(items) >= bounds.items or any(reached(item, bounds) for item in items)
        case dict():
            return any(reached(item, bounds) for item in cast("dict[str, Any]", value).values())
        case _:
            return False


def _bounded(schema: Any, bounds: Bounds, depth: int) -> Any:
    if not isinstance(schema, Mapping):
        return _free(bounds) if schema is True and depth else schema
    fields = cast("Mapping[str, Any]", schema)
    if depth and not fields.keys() & _VALUE_KEYWORDS and not _says_something(fields):
        return {**fields, **_free(bounds)}
    made = {keyword: _inside(keyword, held, bounds, depth) for keyword, held in fields.items()}
    types = _types(fields)
    if "enum" in fields or "const" in fields:
        return made
    for keyword in {"anyOf", "oneOf"} & fields.keys():
        if (length := _raw_length(fields[keyword], made[keyword], bounds)) is not None:
            made.setdefault("maxLength", length)
    if "string" in types and "pattern" not in fields and "format" not in fields:
        made.setdefault("maxLength", max(bounds.characters, int(fields.get("minLength", 0))))
    if "array" in types:
        made.setdefault("maxItems", max(bounds.items, int(fields.get("minItems", 0))))
        if "items" not in fields and "prefixItems" not in fields:
            made["items"] = _free(bounds)
    if "integer" in types and "number" not in types:
        made |= _digits(fields)
    if "object" in types and depth and _is_open(fields):
        made |= _members(fields, bounds, depth)
    return made


def _types(fields: Mapping[str, Any]) -> frozenset[str]:
    kinds: Any = fields.get("type")
    return frozenset([kinds] if isinstance(kinds, str) else kinds or ())


def _digits(fields: Mapping[str, Any]) -> dict[str, int]:
    """A model that has lost its way writes zeros without end; so many digits carry every amount, size and time."""
    lower = {} if fields.keys() & {"minimum", "exclusiveMinimum"} else {"minimum": -LARGEST}
    upper = {} if fields.keys() & {"maximum", "exclusiveMaximum"} else {"maximum": LARGEST}
    return lower | upper


def _members(fields: Mapping[str, Any], bounds: Bounds, depth: int) -> dict[str, Any]:
    """Any members, so many of them; where some are named without a schema, those and no others."""
    each = _bounded(fields.get("additionalProperties", True), bounds, depth + 1)
    named: list[str] = list(fields.get("required") or ())
    if named:
        return {"properties": dict.fromkeys(named, each), "additionalProperties": False}
    least = int(fields.get("minProperties", 0))
    return {"maxProperties": fields.get("maxProperties", max(bounds.items, least)), "additionalProperties": each}


def _says_something(fields: Mapping[str, Any]) -> bool:
    return any(keyword in PLACES for keyword in fields)


def _is_open(fields: Mapping[str, Any]) -> bool:
    """An object that lists no properties and forbids none: any keys at all."""
    extra = fields.get("additionalProperties", True)
    return not fields.get("properties") and extra is not False and "patternProperties" not in fields


def _free(bounds: Bounds) -> dict[str, Any]:
    """Any value, two levels deep and not wide: it stands for whatever the schema's author did not think of."""
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


def _raw_length(options: Iterable[Any], made: Iterable[Any], bounds: Bounds) -> int | None:
    """How long the text of a union may be where its values are written raw; None where that is not for us to say.

    Raw, all of its options are one text, whose end no option can say by itself. In JSON each has its own, no later one.
    """
    lengths = [_NUMBER_TOKENS]
    for open_one, option in zip(options, made, strict=True):
        fields: Mapping[str, Any] = cast("Mapping[str, Any]", option) if isinstance(option, Mapping) else {}
        kinds = _types(fields)
        if "enum" in fields or "const" in fields:
            lengths += [len(dumps(value)) for value in fields.get("enum") or [fields.get("const")]]
        elif kinds <= {"string", *_SHORT} and "maxLength" in fields:
            lengths.append(int(fields["maxLength"]))
        elif kinds & {"array", "object"} and "$ref" not in dumps(fields):
            strings, fixed = _load(open_one, fields, bounds.items, 1)
            # Names and marks are reckoned at two characters a token, which the room for strings makes up for.
            lengths.append(max(strings * bounds.characters, fixed) + fixed)
        elif not kinds or kinds - _SHORT:
            return None
    return max(lengths)


def _inside(keyword: str, held: Any, bounds: Bounds, depth: int) -> Any:
    place = PLACES.get(keyword)
    if place is None or keyword in _TURNED:
        return held
    # The same value is not a level deeper: only what stands below it is.
    inner = depth + (place.reach == "below") + (keyword == "$defs")
    if place.shape == "map" and isinstance(held, Mapping):
        named = cast("Mapping[str, Any]", held)
        return {name: _bounded(schema, bounds, inner) for name, schema in named.items()}
    if place.shape == "many" and isinstance(held, list):
        return [_bounded(schema, bounds, inner) for schema in cast("list[Any]", held)]
    if place.shape == "one" and (isinstance(held, Mapping) or held is True):
        return _bounded(cast("Any", held), bounds, inner)
    return held


def _around(tool: ToolDefinition, overhead: Overhead) -> int:
    """The tokens of everything that the wire format writes for a call, whatever its values are."""
    arguments = len(tool.parameters.get("properties") or ())
    return _tokens(overhead.call + len(tool.name) + arguments * overhead.argument)


def _room(schema: Mapping[str, Any], budget: int, items: int) -> int:
    """How long each open string may be."""
    strings, fixed = _load(schema, schema, items, 0)
    left = budget - fixed
    return left // strings if strings else left


def _load(schema: Any, root: Mapping[str, Any], items: int, depth: int) -> tuple[int, int]:
    """How many open strings a value can have, and how many tokens everything else takes."""
    if not isinstance(schema, Mapping) or depth > _DEPTH:
        return _FREE_LOAD
    fields = cast("Mapping[str, Any]", schema)
    if depth and not fields.keys() & _VALUE_KEYWORDS and not _says_something(fields):
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
        # A name beside each value, unless the names are given.
        named = len(fields.get("required") or ())
        each = _load(fields.get("additionalProperties", True), root, items, depth + 1)
        count = named or items
        strings, fixed = strings + count * (each[0] + (not named)), fixed + count * (each[1] + 4)
    return strings, fixed + (_NUMBER_TOKENS if {"integer", "number"} & types else 2)


def _tokens(characters: int) -> int:
    return -(-characters // _FIXED_CHARACTERS_PER_TOKEN)
