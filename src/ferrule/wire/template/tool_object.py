"""ToolObject: a tool as chat templates read it, with what a rendering computes of it.

A template writes the JSON of every tool into every prompt, and its budget measures each value in it first. Both depend
on the tool alone. So they are kept with the tool's own object, and one more tool in a prompt costs that tool.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.byte_cache import ENTRY_BYTES
from ferrule.core.json_text import dumps
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_cache import ToolCache

JsonStyle = tuple[object, ...]


class ToolObject(dict[str, Any]):
    """A part of a tool's definition. The sandbox lets no template change it, and nobody else may.

    `kept_measure` is its size in a budget, and what it costs to find out; None until a budget has measured it.
    `kept_json` has its text in each style in which a template has written it.
    """

    __slots__ = ("kept_json", "kept_measure")

    def __init__(self, value: dict[str, Any]) -> None:
        super().__init__(value)
        self.kept_measure: tuple[int, int] | None = None
        self.kept_json: dict[JsonStyle, str] = {}


# Measured: the parameters, the objects around them, and the text in one or two styles.
_OBJECTS: ToolCache[ToolObject] = ToolCache(lambda parameters, _: ENTRY_BYTES + 16 * len(dumps(parameters)))


def template_tool(tool: ToolDefinition) -> dict[str, Any]:
    """Return the tool in OpenAI's format, which chat templates expect."""
    return _OBJECTS.get(tool, lambda: _object_of(tool), tool.description)


def _object_of(tool: ToolDefinition) -> ToolObject:
    whole = tool.as_function()
    function = whole["function"]
    parameters = ToolObject(function["parameters"])
    return ToolObject({**whole, "function": ToolObject({**function, "parameters": parameters})})
