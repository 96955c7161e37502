"""ImportedTools: a framework's tools as a Ferrule source. It depends on no framework.

Ferrule validates the arguments against the tool's schema before it runs; most frameworks leave that to the caller.
Plain functions run in threads of the source, bounded per tool and per tenant; see `tool_threads`. The event loop's own
threads are few and shared with everything else: tools that hang would use them up.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.outcome import TOOL_BUSY, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.source import Source
from ferrule.sources.status import ToolLoad
from ferrule.sources.tool_exceptions import run_tool
from ferrule.sources.tool_threads import TENANT_THREADS, THREADS, Busy, ToolThreads


@dataclass(frozen=True, slots=True)
class ImportedTool:
    """One tool. It has one of `run` and `run_in_thread`, which return a text or a JSON value.

    The model sees the message of a `ToolError`; for any other exception it sees only the type.
    """

    definition: ToolDefinition
    run: Callable[[Mapping[str, Any], CallContext], Awaitable[Any]] | None = None
    run_in_thread: Callable[[Mapping[str, Any], CallContext], Any] | None = None
    """A plain function, which may block."""

    def __post_init__(self) -> None:
        if (self.run is None) is (self.run_in_thread is None):
            raise DefinitionError(
                f"the imported tool {self.definition.name!r} needs one of run and run_in_thread",
                hint="Give `run` a coroutine function, or `run_in_thread` a plain function.",
            )


class ImportedTools(Source):
    """Tools of a framework. `side_effects` names the tools that have side effects, if the framework does not say so."""

    def __init__(self, tools: Iterable[ImportedTool], *, id: str, side_effects: Iterable[str] = ()) -> None:
        self.id = id
        self._threads = ToolThreads(THREADS, TENANT_THREADS, name=f"{id}-tool")
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
        if tool.run is not None:
            return await run_tool(name, tool.run(arguments, context))
        slot = await self._threads.acquire(name, context.principal.tenant, context.deadline)
        if isinstance(slot, Busy):
            return NotDelivered(slot.reason, code=TOOL_BUSY)
        # Frameworks keep what they trace in context variables.
        work = partial(copy_context().run, cast("Callable[..., Any]", tool.run_in_thread), arguments, context)
        return await run_tool(name, self._threads.run(slot, work))

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        busy = self._threads.hung(name, context.principal.tenant)
        return NotDelivered(busy.reason, code=TOOL_BUSY) if busy else None

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        return self._threads.loads

    async def close(self) -> None:
        self._threads.close()
