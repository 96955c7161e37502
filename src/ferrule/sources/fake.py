"""FakeSource: a source with scripted outcomes, for your tests and ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.sources.source import Source

Behavior = Callable[[str, Mapping[str, Any], CallContext], Outcome]


def _answer_done(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("done")


class FakeSource(Source):
    """`behave` returns the outcome of every call; `calls` records what was called."""

    def __init__(self, tools: Iterable[ToolDefinition], behave: Behavior = _answer_done, *, id: str = "fake") -> None:
        self.id = id
        self.calls: list[tuple[str, dict[str, Any], CallContext]] = []
        self._tools = tuple(tools)
        self._behave = behave

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return self._tools

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        self.calls.append((name, dict(arguments), context))
        if all(tool.name != name for tool in self._tools):
            return NotDelivered(f"there is no tool {name!r}", code="bad_request")
        return self._behave(name, arguments, context)
