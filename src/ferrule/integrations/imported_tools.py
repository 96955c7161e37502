"""ImportedTools: a framework's tools as a Ferrule source. It depends on no framework.

Ferrule validates the arguments against the tool's schema before it runs; most frameworks leave that to the caller.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import run_tool


@dataclass(frozen=True, slots=True)
class ImportedTool:
    """One tool. `run` returns a text or a JSON value. The model sees the message of a `ToolError`; for any other
    exception it sees only the type.
    """

    definition: ToolDefinition
    run: Callable[[Mapping[str, Any], CallContext], Awaitable[Any]]


class ImportedTools(Source):
    """Tools of a framework. `side_effects` names the tools that have side effects, if the framework does not say so."""

    def __init__(self, tools: Iterable[ImportedTool], *, id: str, side_effects: Iterable[str] = ()) -> None:
        self.id = id
        self._tools = {tool.definition.name: tool for tool in tools}
        for name in side_effects:
            if name not in self._tools:
                raise DefinitionError(
                    f"side_effects names the unknown tool {name!r}", hint=f"The tools are: {', '.join(self._tools)}."
                )
            tool = self._tools[name]
            self._tools[name] = replace(tool, definition=replace(tool.definition, side_effects=True))

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self._tools.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        tool = self._tools.get(name)
        if tool is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return await run_tool(name, tool.run(arguments, context))
