"""JsonSchema: short constructors for the schemas that most tools need.

Each returns a plain dict, so you can combine it with any JSON Schema 2020-12 written by hand.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

SchemaDict: TypeAlias = dict[str, Any]


class JsonSchema:
    """A namespace of schema constructors.

    Example:
        JsonSchema.object({"city": JsonSchema.string("where")}, required=["city"])
    """

    @staticmethod
    def string(description: str = "", **keywords: Any) -> SchemaDict:
        return _schema("string", description, keywords)

    @staticmethod
    def integer(description: str = "", **keywords: Any) -> SchemaDict:
        return _schema("integer", description, keywords)

    @staticmethod
    def number(description: str = "", **keywords: Any) -> SchemaDict:
        return _schema("number", description, keywords)

    @staticmethod
    def boolean(description: str = "", **keywords: Any) -> SchemaDict:
        return _schema("boolean", description, keywords)

    @staticmethod
    def enum(values: Iterable[Any], description: str = "") -> SchemaDict:
        """One of these values. If all have one type, the schema states it, because models read it."""
        options = list(values)
        names = {_TYPE_NAMES.get(value.__class__, "") for value in options}
        type_keyword = {"type": names.pop()} if len(names) == 1 and "" not in names else {}
        return {**type_keyword, "enum": options, **_with_description(description)}

    enum_values = enum

    @staticmethod
    def array(items: Mapping[str, Any], description: str = "", **keywords: Any) -> SchemaDict:
        return _schema("array", description, {"items": dict(items), **keywords})

    @staticmethod
    def object(
        properties: Mapping[str, Mapping[str, Any]],
        required: Iterable[str] = (),
        description: str = "",
        **keywords: Any,
    ) -> SchemaDict:
        schemas = {name: dict(schema) for name, schema in properties.items()}
        # A single name is one name, not its letters.
        names = [required] if isinstance(required, str) else list(required)
        return _schema(
            "object", description, {"properties": schemas, **({"required": names} if names else {}), **keywords}
        )


_TYPE_NAMES: dict[Any, str] = {str: "string", int: "integer", float: "number", bool: "boolean"}


def _with_description(description: str) -> SchemaDict:
    return {"description": description} if description else {}


def _schema(name: str, description: str, keywords: Mapping[str, Any]) -> SchemaDict:
    return {"type": name, **_with_description(description), **keywords}
