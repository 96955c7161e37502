"""Python functions as tools. Asynchronous ones run in the loop, others in threads, so that none holds the loop up.

A parameter annotated with `CallContext` is not the model's to fill: it is given the context of the call, by which a
function knows who asks and tells how far it has come.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, cast

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import SchemaError
from ferrule.schema.annotations import hints_of
from ferrule.schema.python_arguments import annotations_of, arguments_for
from ferrule.schema.tool_decorator import INJECTED, FunctionTool, tool
from ferrule.sources.source import Source
from ferrule.sources.tool_exceptions import Raised

_THREADS = 16

Function = Callable[..., Any] | FunctionTool[..., Any]


class Functions(Source):
    """The functions of a program. Each is called with the Python values that its hints ask for."""

    kind = "functions"

    def __init__(self, functions: Iterable[Function], *, id: str = "python", threads: int = _THREADS) -> None:
        self.id = id
        self._held = {held.definition.name: held for held in map(_held, functions)}
        self._threads = ThreadPoolExecutor(threads, thread_name_prefix=f"{id}-tool")

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return tuple(held.definition for held in self._held.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        held = self._held.get(name)
        if held is None:
            return NotDelivered(f"there is no function {name!r}", code="bad_request")
        try:
            given = arguments_for(held.annotations, arguments)
        except SchemaError as refusal:
            return Answered(f"invalid_arguments: {refusal.message}", is_error=True, code="bad_request")
        if held.context_name:
            given[held.context_name] = context
        raised = Raised()
        with raised:
            return Answered(await self._run(held, given))
        return raised.outcome

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, held: _Held, given: Mapping[str, Any]) -> Any:
        if held.is_asynchronous:
            return await held.function(**given)
        return await asyncio.get_running_loop().run_in_executor(self._threads, lambda: held.function(**given))


@dataclass(frozen=True, slots=True)
class _Held:
    function: Callable[..., Any]
    definition: ToolDefinition
    annotations: Mapping[str, Any]
    context_name: str
    is_asynchronous: bool


def _held(function: Function) -> _Held:
    made = cast("FunctionTool[..., Any]", function if isinstance(function, FunctionTool) else tool(function))
    hints = hints_of(made.function)
    context_name = next((name for name, hint in hints.items() if hint is CallContext and name != "return"), "")
    annotations = annotations_of(made.function, INJECTED)
    return _Held(made.function, made.definition, annotations, context_name, inspect.iscoroutinefunction(made.function))
