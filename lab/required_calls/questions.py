"""Questions whose schemas hold keywords that no grammar enforces: `uniqueItems`, `not`, `if`, `contains`."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Final

from ferrule.core.tool import ToolDefinition

_WORDS: Final = ("red", "green", "blue", "small", "large", "old", "new", "round")

Property = tuple[str, dict[str, Any]]


def _unique_items(rng: random.Random) -> Property:
    words = rng.sample(_WORDS, rng.randint(3, 5))
    items = rng.choice([{"enum": words}, {"type": "integer", "minimum": 1, "maximum": len(words)}])
    least = rng.randint(2, len(words) - 1)
    return "tags", {"type": "array", "items": items, "uniqueItems": True, "minItems": least, "maxItems": 6}


def _not(rng: random.Random) -> Property:
    first, second = rng.sample(_WORDS, 2)
    return "kind", rng.choice(
        [
            {"enum": [first, second], "not": {"const": first}},
            {"type": "integer", "minimum": 0, "maximum": 9, "not": {"multipleOf": 2}},
            {"type": "string", "maxLength": 12, "not": {"pattern": "^[a-e]"}},
            {"type": ["string", "integer"], "maxLength": 8, "not": {"type": "string"}},
        ]
    )


def _if(rng: random.Random) -> Property:
    first, second = rng.sample(_WORDS, 2)
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {"mode": {"enum": [first, second]}, "amount": {"type": "integer", "minimum": 0, "maximum": 99}},
        "required": ["mode"],
        "additionalProperties": False,
        "if": {"properties": {"mode": {"const": first}}},
    }
    if rng.random() < 0.5:
        return "order", {**schema, "then": {"required": ["amount"]}, "else": {"not": {"required": ["amount"]}}}
    return "order", {**schema, "required": ["mode", "amount"], "then": {"properties": {"amount": {"minimum": 50}}}}


def _contains(rng: random.Random) -> Property:
    words = rng.sample(_WORDS, 4)
    items = {"type": "array", "items": {"enum": words}, "minItems": 1, "maxItems": 4}
    wanted = {"contains": {"const": words[-1]}}
    return "colours", {**items, **wanted, **rng.choice([{}, {"minContains": 2}, {"maxContains": 1}])}


KEYWORDS: Final[Mapping[str, Callable[[random.Random], Property]]] = {
    "uniqueItems": _unique_items,
    "not": _not,
    "if": _if,
    "contains": _contains,
}
SAME_SCHEMA: Final = 6
"""How many questions in a row have the same schema: the engine reads a prompt's beginning once."""
COMBINATIONS: Final = [names for size in range(1, len(KEYWORDS) + 1) for names in combinations(KEYWORDS, size)]


@dataclass(frozen=True, slots=True)
class RequiredQuestion:
    """A question, the tool that must be called, and the keywords in its schema."""

    text: str
    tool: ToolDefinition
    keywords: tuple[str, ...]


def question(number: int) -> RequiredQuestion:
    """The question of a number. Combinations of keywords take turns; each schema has some questions in a row."""
    rng = random.Random(number // SAME_SCHEMA)
    keywords = COMBINATIONS[number // SAME_SCHEMA % len(COMBINATIONS)]
    properties = dict(KEYWORDS[name](rng) for name in keywords)
    schema = {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
    words = ", ".join(random.Random(number).sample(_WORDS, 3))
    tool = ToolDefinition("file", "Files a thing.", schema)
    return RequiredQuestion(f"File the thing that is {words}.", tool, keywords)
