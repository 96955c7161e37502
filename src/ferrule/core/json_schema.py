"""JsonSchema: short spellings of the schemas that tools are mostly made of.

Each returns a plain dict, so that it mixes with any JSON Schema 2020-12 written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

SchemaDict: TypeAlias = dict[str, Any]


class JsonSchema:
    """A namespace of constructors: `JsonSchema.object({"city": JsonSchema.string("where")}, required=["city"])`."""

    @staticmethod
    def string(description: str = "", **keywords: Any) -> SchemaDict:
        return _typed("string", description, keywords)

    @staticmethod
    def integer(description: str = "", **keywords: Any) -> SchemaDict:
        return _typed("integer", description, keywords)

    @staticmethod
    def number(description: str = "", **keywords: Any) -> SchemaDict:
        return _typed("number", description, keywords)

    @staticmethod
    def boolean(description: str = "", **keywords: Any) -> SchemaDict:
        return _typed("boolean", description, keywords)

    @staticmethod
    def enum(values: Iterable[Any], description: str = "") -> SchemaDict:
        """One of the given values. The type is stated when they all share one, because models read it."""
        options = list(values)
        names = {_TYPE_NAMES.get(value.__class__, "") for value in options}
        typed = {"type": names.pop()} if len(names) == 1 and "" not in names else {}
        return {**typed, "enum": options, **_described(description)}

    @staticmethod
    def array(items: Mapping[str, Any], description: str = "", **keywords: Any) -> SchemaDict:
        return _typed("array", description, {"items": dict(items), **keywords})

    @staticmethod
    def object(
        properties: Mapping[str, Mapping[str, Any]],
        required: Iterable[str] = (),
        description: str = "",
        **keywords: Any,
    ) -> SchemaDict:
        named = {name: dict(schema) for name, schema in properties.items()}
        needed = list(required)
        return _typed(
            "object", description, {"properties": named, **({"required": needed} if needed else {}), **keywords}
        )


_TYPE_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _described(description: str) -> SchemaDict:
    return {"description": description} if description else {}


def _typed(name: str, description: str, keywords: Mapping[str, Any]) -> SchemaDict:
    return {"type": name, **_described(description), **keywords}
