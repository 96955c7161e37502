"""Borrowed: tools of a framework as a source of ours. Knows no framework.

Their arguments have been checked against their schema before they run, which most frameworks leave to whoever calls.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import Raised


@dataclass(frozen=True, slots=True)
class BorrowedTool:
    """`run` gives a text or a JSON value. Of what it raises only `ferrule.ToolError` is told in its own words."""

    definition: ToolDefinition
    run: Callable[[Mapping[str, Any], CallContext], Awaitable[Any]]


class Borrowed(Source):
    """Tools by their names. `side_effects` names those that change the world, where the framework does not say it."""

    def __init__(self, tools: Iterable[BorrowedTool], *, id: str, side_effects: Iterable[str] = ()) -> None:
        self.id = id
        self._tools = {tool.definition.name: tool for tool in tools}
        for name in side_effects:
            if name not in self._tools:
                raise DefinitionError(f"{name!r} is not among the tools", hint=f"They are: {', '.join(self._tools)}.")
            tool = self._tools[name]
            self._tools[name] = replace(tool, definition=replace(tool.definition, side_effects=True))

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(tool.definition for tool in self._tools.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        tool = self._tools.get(name)
        if tool is None:
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        raised = Raised()
        with raised:
            return Answered(await tool.run(arguments, context))
        return raised.outcome
