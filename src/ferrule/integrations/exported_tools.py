"""ExportedTool: a Ferrule tool for use by a framework. It depends on no framework.

Every call goes through Ferrule's executor: it validates the arguments, requests approval for side effects, enforces a
deadline, and returns errors as messages that a model can act on. A framework has no ledger, so a call that it repeats
after a crash runs again. Use `ToolConversation` for side effects that must run at most once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import CallContext
from ferrule.core.ids import ANY_ID
from ferrule.core.tool import ToolDefinition
from ferrule.engines.sync import run
from ferrule.errors import UnsupportedError
from ferrule.run.decision import DecideInput, to_decide
from ferrule.run.executor import ToolExecutor
from ferrule.run.loop import Decide, deny_all
from ferrule.sources.functions import Function, Functions
from ferrule.sources.source import Source

ExportableTools: TypeAlias = Source | ToolExecutor | Iterable[Function]


@dataclass(frozen=True, slots=True)
class ExportedTool:
    """One tool. `decide` approves calls if the framework has no approval of its own."""

    definition: ToolDefinition
    executor: ToolExecutor
    decide: Decide = deny_all
    loop: asyncio.AbstractEventLoop | None = None
    """The event loop of its source, because connections are bound to a loop. None if any loop will do."""

    async def call(
        self, arguments: Mapping[str, Any] | str, call_id: str = "", *, is_approved: bool = False
    ) -> ToolResult:
        """Call the tool. Errors are results too. `is_approved` means that the framework got approval for this call."""
        name, id = self.definition.name, call_id or ANY_ID.make(self.definition.name, 0)
        try:
            call = ToolCall.of(name, arguments, id=id)
        except (TypeError, ValueError) as error:
            # A framework's parser may have accepted NaN, or converted the arguments to objects.
            return ToolResult(id, name, f"invalid_arguments: not JSON ({error})", is_error=True)
        work = self._run(call, is_approved)
        if self.loop is None or self.loop is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def call_sync(
        self, arguments: Mapping[str, Any] | str, call_id: str = "", *, is_approved: bool = False
    ) -> ToolResult:
        """Like `call`, for synchronous code."""
        if self.loop is not None and self.loop is _running_loop():
            raise UnsupportedError(
                f"{self.definition.name} was called synchronously in its source's event loop, which would deadlock",
                hint="Use the framework's async API (ainvoke, kickoff_async), or export_tools.",
            )
        return run(self.call(arguments, call_id, is_approved=is_approved))

    async def _run(self, call: ToolCall, is_approved: bool) -> ToolResult:
        fault = self.executor.fault_of(call, CallContext(call_id=call.id))
        if fault is not None:
            # Before the approval: a model without a grammar may have written invalid arguments.
            return self.executor.result_of(call, fault)
        if is_approved or not self.executor.requires_confirmation(call):
            return await self.executor.dispatch_confirmed(call)
        decision = await self.decide(call)
        if decision is None or not decision.is_allowed:
            reason = decision.why if decision is not None else "nobody has decided yet"
            return ToolResult(call.id, call.name, f"denied: {reason}", is_error=True)
        if decision.arguments is not None:
            call = replace(call, function=replace(call.function, arguments=decision.arguments))
        return await self.executor.dispatch_confirmed(call)


async def wrap_tools_async(tools: ExportableTools, decide: DecideInput = deny_all) -> tuple[ExportedTool, ...]:
    """Wrap the current tools for a framework. A source must be open, and is used in the running event loop."""
    needs_loop = isinstance(tools, Source | ToolExecutor)
    executor = _executor_of(tools)
    loop = asyncio.get_running_loop() if needs_loop else None
    approve = to_decide(decide)
    return tuple(ExportedTool(definition, executor, approve, loop) for definition in await executor.refresh())


def wrap_tools(tools: ExportableTools, decide: DecideInput = deny_all) -> tuple[ExportedTool, ...]:
    """Like `wrap_tools_async`, for synchronous code."""
    return run(wrap_tools_async(tools, decide))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _executor_of(tools: ExportableTools) -> ToolExecutor:
    if isinstance(tools, ToolExecutor):
        return tools
    return ToolExecutor(tools if isinstance(tools, Source) else Functions(tools))
