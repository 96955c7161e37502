"""LentTool: a tool of ours in the hands of a framework. Knows no framework.

Every call goes through our executor: arguments are checked against the schema, a tool that changes the world asks for
leave, a deadline ends it, and whatever goes wrong comes back as words that a model can act on. A framework has no
ledger, so that a call which it repeats after a crash happens again: `ToolConversation` is for effects that must not.
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
from ferrule.run.dispatcher import Dispatcher
from ferrule.run.executor import ToolExecutor
from ferrule.run.loop import Decide, nobody
from ferrule.sources.functions import Function, Functions
from ferrule.sources.source import Source

Lendable: TypeAlias = Source | Dispatcher | Iterable[Function]


@dataclass(frozen=True, slots=True)
class LentTool:
    """One tool. `decide` is asked for leave where the framework does not ask itself."""

    definition: ToolDefinition
    executor: Dispatcher
    decide: Decide = nobody
    home: asyncio.AbstractEventLoop | None = None
    """The loop that its source lives in: connections do not move. None where any will do."""

    async def call(
        self, arguments: Mapping[str, Any] | str, call_id: str = "", *, has_leave: bool = False
    ) -> ToolResult:
        """What came of it, whatever it was. `has_leave` says that the framework asked a person for this very call."""
        name, id = self.definition.name, call_id or ANY_ID.make(self.definition.name, 0)
        try:
            call = ToolCall.of(name, arguments, id=id)
        except (TypeError, ValueError) as damage:
            # A framework's reader may have let NaN through, or made objects of them.
            return ToolResult(id, name, f"invalid_arguments: they are not JSON ({damage})", is_error=True)
        work = self._governed(call, has_leave)
        if self.home is None or self.home is asyncio.get_running_loop():
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.home))

    def call_now(self, arguments: Mapping[str, Any] | str, call_id: str = "", *, has_leave: bool = False) -> ToolResult:
        """The same for a caller that is not asynchronous."""
        if self.home is not None and self.home is _loop_here():
            raise UnsupportedError(
                f"{self.definition.name} was called synchronously in the loop that its source lives in, and would wait "
                "for itself",
                hint="Use the framework's asynchronous way (ainvoke, kickoff_async), or lend_now.",
            )
        return run(self.call(arguments, call_id, has_leave=has_leave))

    async def _governed(self, call: ToolCall, has_leave: bool) -> ToolResult:
        fault = self.executor.fault_of(call, CallContext(call_id=call.id))
        if fault is not None:
            # Before anybody is asked: the model that wrote it need not have been held to the schema.
            return self.executor.result_of(call, fault)
        if has_leave or not self.executor.requires_confirmation(call):
            return await self.executor.dispatch_confirmed(call)
        decision = await self.decide(call)
        if decision is None or not decision.is_allowed:
            why = decision.why if decision is not None else "nobody has decided yet"
            return ToolResult(call.id, call.name, f"denied: {why}", is_error=True)
        if decision.arguments is not None:
            call = replace(call, function=replace(call.function, arguments=decision.arguments))
        return await self.executor.dispatch_confirmed(call)


async def lend(tools: Lendable, decide: Decide = nobody) -> tuple[LentTool, ...]:
    """Our tools as they are now. A source must be open already, and is used in the loop that lends it."""
    is_bound = isinstance(tools, Source | Dispatcher)
    executor = _executor_of(tools)
    home = asyncio.get_running_loop() if is_bound else None
    return tuple(LentTool(definition, executor, decide, home) for definition in await executor.refresh())


def lend_now(tools: Lendable, decide: Decide = nobody) -> tuple[LentTool, ...]:
    """The same for a caller that is not asynchronous."""
    return run(lend(tools, decide))


def _loop_here() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _executor_of(tools: Lendable) -> Dispatcher:
    if isinstance(tools, Dispatcher):
        return tools
    return ToolExecutor(tools if isinstance(tools, Source) else Functions(tools))
