"""Python functions as tools. Async functions run in the event loop, others in threads, so that none blocks the loop.

The threads are bounded per tool and per tenant; see `tool_threads`.

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
from ferrule.schema.tool_decorator import INJECTED, FunctionTool, Receiver, tool
from ferrule.sources.source import Source
from ferrule.sources.status import ToolLoad
from ferrule.sources.tool_exceptions import run_tool
from ferrule.sources.tool_output import to_json_value
from ferrule.sources.tool_threads import Busy, ToolThreads

_THREADS = 16
_TENANT_THREADS = 64

Function = Callable[..., Any] | FunctionTool[..., Any]


class Functions(Source):
    """Functions of your program as tools. Each is called with Python values of the types in its hints.

    `threads` is how many calls of one tool may run at once for one tenant, `tenant_threads` how many of all tools. They
    bound plain functions only: async functions run in the event loop.

    Example:
        source = Functions([get_weather, send_mail])
    """

    kind = "functions"

    def __init__(
        self,
        functions: Iterable[Function],
        *,
        id: str = "python",
        threads: int = _THREADS,
        tenant_threads: int = _TENANT_THREADS,
    ) -> None:
        self.id = id
        self._functions = {entry.definition.name: entry for entry in map(_tool_function, functions)}
        self._threads = ToolThreads(threads, max(threads, tenant_threads), name=f"{id}-tool")

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(entry.definition for entry in self._functions.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        entry = self._functions.get(name)
        if entry is None:
            return NotDelivered(f"there is no function {name!r}", code="bad_request")
        if entry.is_async:
            return await run_tool(name, entry.run_async(arguments, context))
        slot = await self._threads.acquire(name, context.principal.tenant, context.deadline)
        if isinstance(slot, Busy):
            return NotDelivered(slot.reason, code=TOOL_BUSY)
        return await run_tool(name, self._threads.run(slot, lambda: entry.run(arguments, context)))

    @property
    def loads(self) -> tuple[ToolLoad, ...]:
        return self._threads.loads

    async def close(self) -> None:
        self._threads.close()


@dataclass(frozen=True, slots=True)
class _ToolFunction:
    function: Callable[..., Any]
    definition: ToolDefinition
    annotations: Mapping[str, Any]
    context_name: str
    is_async: bool

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


def _tool_function(function: Function) -> _ToolFunction:
    decorated = _decorate(function)
    if decorated.receiver is not Receiver.NONE:
        raise DefinitionError(
            f"{decorated.definition.name} is a method of a class, and not bound to an instance",
            hint=f"Pass the method of an instance: `instance.{decorated.definition.name}`.",
        )
    hints = hints_of(decorated.function)
    context_name = next((name for name, hint in hints.items() if hint is CallContext and name != "return"), "")
    annotations = annotations_of(decorated.function, INJECTED)
    return _ToolFunction(
        decorated.function,
        decorated.definition,
        annotations,
        context_name,
        inspect.iscoroutinefunction(decorated.function),
    )


def _decorate(function: Function) -> FunctionTool[..., Any]:
    if isinstance(function, FunctionTool):
        return cast("FunctionTool[..., Any]", function)
    # `@classmethod` above `@tool`: from Python 3.13 on, the class then gives a method around the tool.
    inner = getattr(function, "__func__", None)
    if isinstance(inner, FunctionTool) and inspect.ismethod(function):
        unbound = cast("FunctionTool[..., Any]", inner)
        return FunctionTool(MethodType(unbound.function, function.__self__), unbound.definition)
    return tool(function)
