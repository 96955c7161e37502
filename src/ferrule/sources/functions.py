"""Python functions as tools. Async functions run in the event loop, others in threads, so that none blocks the loop.

The threads are bounded per tool and per tenant; see `tool_threads`. A function with `isolation="process"` runs in a
worker process that is killed at its deadline; see `tool_processes`.

A parameter annotated with `CallContext` is not part of the tool's schema. The function receives the context of the
call there: it says who is calling, and `context.report(...)` reports progress.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MethodType
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.outcome import TOOL_BUSY, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, SchemaError
from ferrule.schema.annotations import hints_of
from ferrule.schema.python_arguments import annotations_of, arguments_for
from ferrule.schema.tool_decorator import INJECTED, FunctionTool, Isolation, IsolationName, Receiver, tool
from ferrule.sources.source import Source
from ferrule.sources.status import ToolLoad
from ferrule.sources.tool_exceptions import run_tool
from ferrule.sources.tool_output import to_json_value
from ferrule.sources.tool_processes import FunctionReference, ToolProcesses
from ferrule.sources.tool_threads import TENANT_THREADS, THREADS, Busy, ToolThreads

_PROCESSES = 4

Function = Callable[..., Any] | FunctionTool[..., Any]


class Functions(Source):
    """Functions of your program as tools. Each is called with Python values of the types in its hints.

    `threads` is how many calls of one tool may run at once for one tenant, `tenant_threads` how many of all tools. They
    bound plain functions only: async functions run in the event loop.

    With `isolation="process"` all functions run in worker processes, at most `processes` for one tenant, each with at
    most `memory_bytes` of address space if given. `@tool(isolation="process")` does that for one function.

    Example:
        source = Functions([get_weather, send_mail])
    """

    kind = "functions"

    def __init__(
        self,
        functions: Iterable[Function],
        *,
        id: str = "python",
        threads: int = THREADS,
        tenant_threads: int = TENANT_THREADS,
        isolation: IsolationName = Isolation.NONE,
        processes: int = _PROCESSES,
        memory_bytes: int = 0,
    ) -> None:
        for option, count in {"threads": threads, "tenant_threads": tenant_threads, "processes": processes}.items():
            if count < 1:
                raise DefinitionError(f"{option} must be 1 or more, not {count}", hint="Leave it out for the default.")
        self.id = id
        self._functions = {entry.definition.name: entry for entry in map(ToolFunction.of, functions)}
        self._threads = ToolThreads(threads, max(threads, tenant_threads), name=f"{id}-tool")
        is_isolated = Isolation.of(isolation) is Isolation.PROCESS
        isolated = {
            name: FunctionReference.of(entry.function, name)
            for name, entry in self._functions.items()
            if is_isolated or entry.isolation is Isolation.PROCESS
        }
        self._indexes = {name: index for index, name in enumerate(isolated)}
        self._processes = ToolProcesses(tuple(isolated.values()), memory_bytes)
        # A thread waits for each worker process, so this bounds the processes.
        self._process_threads = ToolThreads(processes, processes, name=f"{id}-process", of="worker processes")

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(entry.definition for entry in self._functions.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        entry = self._functions.get(name)
        if entry is None:
            return NotDelivered(f"there is no function {name!r}", code="bad_request")
        index = self._indexes.get(name)
        if entry.is_async and index is None:
            return await run_tool(name, entry.run_async(arguments, context))
        threads = self._threads_of(name)
        slot = await threads.acquire(name, context.principal.tenant, context.deadline)
        if isinstance(slot, Busy):
            return NotDelivered(slot.reason, code=TOOL_BUSY)
        if index is None:
            return await run_tool(name, threads.run(slot, lambda: entry.run(arguments, context)))
        effects = entry.definition.side_effects
        # What the worker sends is an outcome already, and nothing of the function's code runs here.
        return await threads.run(
            slot, lambda: self._processes.run(name, index, arguments, context, side_effects=effects)
        )

    def refusal(self, name: str, context: CallContext) -> NotDelivered | None:
        busy = self._threads_of(name).hung(name, context.principal.tenant)
        return NotDelivered(busy.reason, code=TOOL_BUSY) if busy else None

    def _threads_of(self, name: str) -> ToolThreads:
        return self._process_threads if name in self._indexes else self._threads

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        return (*self._threads.loads, *self._process_threads.loads)

    async def close(self) -> None:
        self._threads.close()
        self._process_threads.close()
        self._processes.close()


@dataclass(frozen=True, slots=True)
class ToolFunction:
    """A function, and what is needed to call it with JSON arguments."""

    function: Callable[..., Any]
    definition: ToolDefinition
    annotations: Mapping[str, Any]
    context_name: str
    is_async: bool
    isolation: Isolation

    @staticmethod
    def of(function: Function) -> ToolFunction:
        """Read a function's type hints. A method must be bound to an instance."""
        decorated = _decorate(function)
        if decorated.receiver is not Receiver.NONE:
            raise DefinitionError(
                f"{decorated.definition.name} is a method of a class, and not bound to an instance",
                hint=f"Pass the method of an instance: `instance.{decorated.definition.name}`.",
            )
        hints = hints_of(decorated.function)
        return ToolFunction(
            decorated.function,
            decorated.definition,
            annotations_of(decorated.function, INJECTED),
            next((name for name, hint in hints.items() if hint is CallContext and name != "return"), ""),
            inspect.iscoroutinefunction(decorated.function),
            decorated.isolation,
        )

    def run(self, arguments: Mapping[str, Any], context: CallContext) -> Any:
        """Call a plain function, in its thread. So do its types' validators, and what turns its value into JSON."""
        return to_json_value(self.function(**self.values(arguments, context)))

    async def run_async(self, arguments: Mapping[str, Any], context: CallContext) -> Any:
        return await self.function(**self.values(arguments, context))

    def values(self, arguments: Mapping[str, Any], context: CallContext) -> dict[str, Any]:
        """The function's keyword arguments."""
        try:
            values = arguments_for(self.annotations, arguments)
        except SchemaError as refusal:
            raise DefinitionError(f"invalid_arguments: {refusal.message}") from None
        return {**values, self.context_name: context} if self.context_name else values


def _decorate(function: Function) -> FunctionTool[..., Any]:
    if isinstance(function, FunctionTool):
        return cast("FunctionTool[..., Any]", function)
    # `@classmethod` above `@tool`: from Python 3.13 on, the class then gives a method around the tool.
    inner = getattr(function, "__func__", None)
    if isinstance(inner, FunctionTool) and inspect.ismethod(function):
        unbound = cast("FunctionTool[..., Any]", inner)
        bound = MethodType(unbound.function, function.__self__)
        return FunctionTool(bound, unbound.definition, isolation=unbound.isolation)
    return tool(function)
