"""Python functions as tools. Async functions run in the event loop, others in threads, so that none blocks the loop.

A parameter annotated with `CallContext` is not part of the tool's schema. The function receives the context of the
call there: it says who is calling, and `context.report(...)` reports progress.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from types import MethodType
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, SchemaError
from ferrule.schema.annotations import hints_of
from ferrule.schema.python_arguments import annotations_of, arguments_for
from ferrule.schema.tool_decorator import INJECTED, FunctionTool, Receiver, tool
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import run_tool

_THREADS = 16

Function = Callable[..., Any] | FunctionTool[..., Any]


class Functions(Source):
    """Functions of your program as tools. Each is called with Python values of the types in its hints.

    Example:
        source = Functions([get_weather, send_mail])
    """

    kind = "functions"

    def __init__(self, functions: Iterable[Function], *, id: str = "python", threads: int = _THREADS) -> None:
        self.id = id
        self._functions = {entry.definition.name: entry for entry in map(_tool_function, functions)}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"{id}-tool")

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(entry.definition for entry in self._functions.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        entry = self._functions.get(name)
        if entry is None:
            return NotDelivered(f"there is no function {name!r}", code="bad_request")
        try:
            values = arguments_for(entry.annotations, arguments)
        except SchemaError as refusal:
            return Answered(f"invalid_arguments: {refusal.message}", is_error=True, code="bad_request")
        if entry.context_name:
            values[entry.context_name] = context
        return await run_tool(name, self._run(entry, values))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, entry: _ToolFunction, values: Mapping[str, Any]) -> Any:
        if entry.is_async:
            return await entry.function(**values)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: entry.function(**values))


@dataclass(frozen=True, slots=True)
class _ToolFunction:
    function: Callable[..., Any]
    definition: ToolDefinition
    annotations: Mapping[str, Any]
    context_name: str
    is_async: bool


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
