"""ToolOffer: what the parser and the renderer need to know of the offered tools: names and argument types."""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.tool import ToolDefinition
from ferrule.schema.object_members import member_schema
from ferrule.schema.value_decoder import types_allowed

ANY_TYPE = frozenset({"string", "number", "integer", "boolean", "null", "array", "object"})


class ToolOffer:
    """The offered tools. With None they are unknown: any call is accepted, and arguments may have any type."""

    __slots__ = ("_are_known", "_tools", "_types")

    def __init__(self, tools: Iterable[ToolDefinition] | None) -> None:
        self._are_known = tools is not None
        self._tools = {tool.name: tool for tool in tools or ()}
        self._types: dict[str, dict[str, frozenset[str]]] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._tools or not self._are_known

    def types(self, tool: str, argument: str) -> frozenset[str]:
        """The JSON types that an argument may have; any type if the schema or the tool does not say."""
        definition = self._tools.get(tool)
        if definition is None:
            return ANY_TYPE
        cache = self._types.setdefault(tool, {})
        if argument not in cache:
            cache[argument] = types_allowed(member_schema(definition.parameters, argument), definition.parameters)
        return cache[argument]
