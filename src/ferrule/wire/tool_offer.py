"""Offered: what the walks need to know of the tools on offer: their names and their arguments' types."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.tool import ToolDefinition
from ferrule.schema.value_decoder import types_allowed

ANY_TYPE = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


class Offered:
    """The tools on offer. With None, nothing is known: any marked call is read, and any type is allowed."""

    __slots__ = ("_are_known", "_tools", "_types")

    def __init__(self, tools: Iterable[ToolDefinition] | None) -> None:
        self._are_known = tools is not None
        self._tools = {tool.name: tool for tool in tools or ()}
        self._types: dict[str, dict[str, frozenset[str]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tools or not self._are_known

    def types(self, tool: str, argument: str) -> frozenset[str]:
        """The JSON types that an argument may have; any where the schema is silent or the tool unknown."""
        definition = self._tools.get(tool)
        if definition is None:
            return ANY_TYPE
        known = self._types.setdefault(tool, {})
        if argument not in known:
            schema = definition.properties.get(argument)
            known[argument] = ANY_TYPE if schema is None else types_allowed(schema, definition.parameters)
        return known[argument]
