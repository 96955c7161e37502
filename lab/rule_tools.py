"""Generate realistic tools, any number and always the same ones. Independent of what is measured."""

import random
from typing import Any, Final

from ferrule.core.json_schema import JsonSchema, SchemaDict
from ferrule.core.tool import ToolDefinition

_VERBS: Final = ("get", "list", "create", "update", "delete", "search", "send", "schedule", "export", "convert")
_NOUNS: Final = ("invoice", "flight", "ticket", "user", "file", "meeting", "payment", "sensor", "order", "branch")
_QUALITIES: Final = ("recent", "shared", "draft", "public", "archived", "linked", "bulk", "remote", "daily", "raw")
_STRINGS: Final = ("query", "title", "owner_id", "destination", "language", "comment", "path", "time_zone", "currency")
_COUNTS: Final = ("limit", "offset", "priority", "retries", "page_size", "max_results")
_AMOUNTS: Final = ("amount", "latitude", "longitude", "threshold", "discount")
_SWITCHES: Final = ("recursive", "dry_run", "include_deleted", "notify", "verbose")
_CHOICES: Final = (
    ("status", ("open", "closed", "pending", "cancelled")),
    ("sort_by", ("created_at", "updated_at", "name")),
    ("unit", ("metric", "imperial")),
    ("format", ("json", "csv", "pdf", "xlsx", "markdown")),
    ("severity", ("low", "medium", "high", "critical")),
)
_LISTS: Final = ("tags", "attendees", "columns", "ids", "labels")
_OBJECTS: Final = ("filter", "address", "options", "range", "metadata")
_FEWEST: Final = 3
_MOST: Final = 8
_DEEPEST: Final = 2
_SEED: Final = 20_260


def sample_tools(count: int) -> tuple[ToolDefinition, ...]:
    """The first `count` of an endless sequence of tools; no two have the same name or the same parameters."""
    return tuple(_tool(number) for number in range(count))


def _tool(number: int) -> ToolDefinition:
    luck = random.Random(_SEED + number)
    quality, noun, verb = _QUALITIES[number // 100 % 10], _NOUNS[number // 10 % 10], _VERBS[number % 10]
    series = f"_v{number // 1000 + 1}" if number >= 1000 else ""
    built = ToolDefinition.build(f"{verb}_{quality}_{noun}{series}").description(
        f"{verb.capitalize()} one {quality} {noun} or several, and tell what was done with each."
    )
    # A unique parameter, so that no two schemas are equal and none is found in a cache by chance.
    own = f"{noun}_{number}"
    built = built.parameter(own, JsonSchema.string(f"Which {noun} is meant."), required=True)
    for name, schema in _members(luck, luck.randint(_FEWEST - 1, _MOST - 1), 0).items():
        built = built.parameter(name, schema, required=luck.random() < 0.4)
    return built.done()


def _members(luck: random.Random, count: int, depth: int) -> dict[str, SchemaDict]:
    members: dict[str, SchemaDict] = {}
    while len(members) < count:
        name, schema = _member(luck, depth)
        members.setdefault(name, schema)
    return members


def _member(luck: random.Random, depth: int) -> tuple[str, SchemaDict]:
    kinds = ("string", "string", "count", "amount", "switch", "choice", "list", "object")
    match luck.choice(kinds if depth < _DEEPEST else kinds[:-2]):
        case "count":
            return luck.choice(_COUNTS), JsonSchema.integer("How many.", minimum=0, maximum=luck.choice((10, 100, 500)))
        case "amount":
            return luck.choice(_AMOUNTS), JsonSchema.number("How much, in the unit of the account.")
        case "switch":
            return luck.choice(_SWITCHES), JsonSchema.boolean("Whether to do so; false unless said.")
        case "choice":
            name, options = luck.choice(_CHOICES)
            return name, JsonSchema.enum(options, f"The {name}, as the list shows it.")
        case "list":
            return luck.choice(_LISTS), JsonSchema.array(_item(luck, depth), "One entry for each.")
        case "object":
            name = luck.choice(_OBJECTS)
            return name, _object(luck, depth, f"What else the {name} should say.")
        case _:
            bounds: dict[str, Any] = {"maxLength": 200} if luck.random() < 0.2 else {}
            return luck.choice(_STRINGS), JsonSchema.string("As the user wrote it.", **bounds)


def _item(luck: random.Random, depth: int) -> SchemaDict:
    return _object(luck, depth, "An entry.") if luck.random() < 0.3 else JsonSchema.string()


def _object(luck: random.Random, depth: int, description: str) -> SchemaDict:
    members = _members(luck, luck.randint(2, 4), depth + 1)
    needed = [name for name in members if luck.random() < 0.5]
    return JsonSchema.object(members, needed, description)
