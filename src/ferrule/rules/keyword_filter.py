"""Sieve: the table-driven half of widening. Keeps the keywords that llguidance's compiler knows and lists the others.

What comes out holds known keywords only: above all not `x-guidance`, with which a schema from outside could change how
the compiler reads it. Every reference in it is `#/$defs/...`, so that any part of it can be compiled by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from math import lcm
from typing import Any, cast

from ferrule.rules.keyword_rewrite import rephrased
from ferrule.rules.matcher import schema_error
from ferrule.schema.keywords import PLACES
from ferrule.schema.pointer import escape, from_fragment
from ferrule.schema.refs import local_target
from ferrule.schema.target_limits import CHECKED_FORMATS, GUIDANCE_FORMATS
from ferrule.schema.value_decoder import type_name

Node = dict[str, Any]
# Larger ones are refused, or take seconds to compile: the time grows with the square of the least common multiple.
_MOST_MULTIPLE = 1_000
_MOST_COUNT = 1_000_000
_MOST_BOUND = 10**16


@dataclass(frozen=True, slots=True)
class Loss:
    """One keyword that is not enforced while decoding: where it stands (a JSON pointer), and why."""

    path: str
    keyword: str
    how: str


class Sieve:
    """One document, sieved once; `losses` is complete after `document`."""

    def __init__(self, root: Node) -> None:
        self.losses: list[Loss] = []
        self._root = root
        self._definitions: Node = {}
        self._names: dict[str, str] = {}
        self._multiple = 1

    def document(self) -> Node:
        kept = self._node(self._root, "")
        if isinstance(kept, bool):
            self._lose("", "not", "nothing at all fits, which a grammar cannot say")
            kept = {}
        return {**kept, "$defs": self._definitions} if self._definitions else kept

    def place_of(self, pointer: str) -> str:
        """Where a place of the sieved document stands in the original."""
        for place, name in self._names.items():
            home = f"/$defs/{name}"
            if pointer == home or pointer.startswith(home + "/"):
                return place + pointer[len(home) :]
        return pointer

    def _lose(self, path: str, keyword: str, how: str) -> None:
        self.losses.append(Loss(path, keyword, how))

    def _node(self, schema: object, path: str) -> Node | bool:
        if not isinstance(schema, dict):
            return bool(schema)
        given = cast("Node", schema)
        if given.keys() == {"not"} and given["not"] in ({}, True):
            return False
        kept: Node = {}
        for keyword, value in rephrased(given).items():
            at = f"{path}/{escape(keyword)}"
            if keyword in _GONE:
                if _GONE[keyword](given):
                    self._lose(at, keyword, "llguidance refuses this keyword")
            elif keyword in _TAKEN:
                kept[keyword] = value
            elif keyword in _WEIGHED:
                self._weigh(keyword, value, at, kept)
            elif keyword == "$ref":
                kept[keyword] = self._reference(value)
            elif keyword in PLACES and PLACES[keyword].reach != "apart":
                kept[keyword] = self._held(keyword, value, at)
        self._settle_patterns(kept, path)
        self._settle_counts(kept, path)
        return kept

    def _weigh(self, keyword: str, value: Any, at: str, kept: Node) -> None:
        why = _WEIGHED[keyword](keyword, value)
        if keyword == "multipleOf" and not why:
            together = lcm(self._multiple, _digits(value))
            why = "with the other multiples it would take long to compile" if together > _MOST_MULTIPLE else ""
            self._multiple = self._multiple if why else together
        if not why:
            kept[keyword] = int(value) if keyword in _COUNTS else value
            return
        self._lose(at, keyword, why)
        if keyword in ("enum", "const"):
            kept.setdefault("type", _types(value if keyword == "enum" else [value]))

    def _held(self, keyword: str, value: Any, at: str) -> object:
        match PLACES[keyword].shape:
            case "one":
                return self._node(value, at)
            case "many":
                return [self._node(item, f"{at}/{number}") for number, item in enumerate(cast("list[object]", value))]
            case "map":
                named = cast("dict[str, object]", value)
                return {name: self._node(item, f"{at}/{escape(name)}") for name, item in named.items()}

    def _reference(self, ref: str) -> str:
        place = from_fragment(ref[1:])
        if place not in self._names:
            name = f"d{len(self._names)}"
            self._names[place] = name
            self._definitions[name] = {}
            self._definitions[name] = self._node(local_target(ref, self._root), place)
        return f"#/$defs/{self._names[place]}"

    def _settle_patterns(self, kept: Node, path: str) -> None:
        patterns = cast("Node", kept.get("patternProperties", {}))
        why = schema_error({"type": "object", "patternProperties": dict.fromkeys(patterns, True)}) if patterns else ""
        if why:
            self._lose(f"{path}/patternProperties", "patternProperties", f"llguidance refuses the patterns: {why:.120}")
            del kept["patternProperties"]
            # It spoke of what no pattern matches; without the patterns it would speak of more.
            if kept.pop("additionalProperties", True) is not True:
                self._lose(f"{path}/additionalProperties", "additionalProperties", "goes with patternProperties")

    def _settle_counts(self, kept: Node, path: str) -> None:
        for keyword in ("maxProperties", "minProperties"):
            if keyword in kept and (why := schema_error(_skeleton(kept))):
                self._lose(f"{path}/{keyword}", keyword, f"llguidance refuses it here: {why:.120}")
                del kept[keyword]


def _skeleton(kept: Mapping[str, Any]) -> Node:
    """An object schema with its names and counts alone."""
    own = {key: kept[key] for key in ("required", "minProperties", "maxProperties") if key in kept}
    named = {key: dict.fromkeys(kept[key], True) for key in ("properties", "patternProperties") if key in kept}
    return {"type": "object", **named, **own, "additionalProperties": kept.get("additionalProperties") is not False}


def _digits(multiple: float) -> int:
    """A multiple without its powers of ten, which cost nothing."""
    number = Decimal(repr(multiple)).normalize()
    return int("".join(map(str, number.as_tuple().digits)))


def _multiple(keyword: str, value: Any) -> str:
    if _digits(value) > _MOST_MULTIPLE:
        return "it would take long to compile"
    return schema_error({"type": "number", keyword: value})


def _bound(keyword: str, value: Any) -> str:
    if abs(value) > _MOST_BOUND:
        return f"llguidance takes bounds up to {_MOST_BOUND:.0e}"
    return schema_error({"type": "number", keyword: value})


def _count(keyword: str, value: Any) -> str:
    return f"it is more than {_MOST_COUNT}" if value > _MOST_COUNT else ""


def _pattern(keyword: str, value: Any) -> str:
    why = schema_error({"type": "string", keyword: value})
    return f"llguidance refuses the pattern: {why:.120}" if why else ""


def _format(keyword: str, value: Any) -> str:
    if value in GUIDANCE_FORMATS:
        return ""
    return "llguidance does not know this format" if value in CHECKED_FORMATS else "no one checks this format"


def _values(keyword: str, value: Any) -> str:
    """The first reason not to list these values. A number of 64 bits or more must never reach the compiler: it ends the
    whole process at the smallest such number."""
    return next((why for number in _numbers(value) if (why := _oddity(number))), "")


def _oddity(number: float) -> str:
    if isinstance(number, float):
        return "llguidance spells out a number that is written with an exponent" if "e" in repr(number) else ""
    return "llguidance does not survive numbers of 64 bits and more" if abs(number) >= _MOST_WHOLE else ""


def _numbers(value: object) -> Iterator[float]:
    """Every number inside a value."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield value
    elif isinstance(value, dict):
        for held in cast("dict[str, object]", value).values():
            yield from _numbers(held)
    elif isinstance(value, list):
        for held in cast("list[object]", value):
            yield from _numbers(held)


def _types(values: list[object]) -> list[str]:
    return sorted({type_name(value) if not isinstance(value, float) else "number" for value in values})


def _always(schema: Node) -> bool:
    return True


def _beside(keyword: str) -> Callable[[Node], bool]:
    return lambda schema: keyword in schema


# Refused in every form. The function says whether the keyword asks for anything where it stands.
_GONE: Mapping[str, Callable[[Node], bool]] = {
    "not": _always,
    "if": lambda schema: "then" in schema or "else" in schema,
    "then": _beside("if"),
    "else": _beside("if"),
    "dependentSchemas": _always,
    "dependentRequired": _always,
    "propertyNames": lambda schema: schema["propertyNames"] not in (True, {}),
    "unevaluatedProperties": lambda schema: schema["unevaluatedProperties"] not in (True, {}),
    "unevaluatedItems": lambda schema: schema["unevaluatedItems"] not in (True, {}),
    "contains": _always,
    "minContains": _beside("contains"),
    "maxContains": _beside("contains"),
    "uniqueItems": lambda schema: schema["uniqueItems"] is True,
}
_TAKEN = frozenset({"type", "required"})
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_MOST_WHOLE = 2**62
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
# Taken in some forms. The function gives the reason for leaving it out, or nothing.
_WEIGHED: Mapping[str, Callable[[str, Any], str]] = {
    **dict.fromkeys(_COUNTS, _count),
    **dict.fromkeys(_BOUNDS, _bound),
    "multipleOf": _multiple,
    "pattern": _pattern,
    "format": _format,
    "enum": _values,
    "const": _values,
}
