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
from ferrule.errors import FerruleError, SchemaError, ToolError
from ferrule.schema.annotations import hints_of
from ferrule.schema.define import INJECTED, FunctionTool, tool
from ferrule.schema.to_python import arguments_to_python
from ferrule.sources.source import Source

_THREADS = 16

Function = Callable[..., Any] | FunctionTool[..., Any]


class Functions(Source):
    """The functions of a program. Each is called with the Python values that its hints ask for."""

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
            given = arguments_to_python(held.function, arguments, INJECTED)
        except SchemaError as refusal:
            return Answered(f"invalid_arguments: {refusal.message}", is_error=True, code="bad_request")
        if held.context_name:
            given[held.context_name] = context
        (answer,) = await asyncio.gather(self._run(held, given), return_exceptions=True)
        return _answered(answer)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _run(self, held: _Held, given: Mapping[str, Any]) -> Any:
        if inspect.iscoroutinefunction(held.function):
            return await held.function(**given)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: held.function(**given))


@dataclass(frozen=True, slots=True)
class _Held:
    function: Callable[..., Any]
    definition: ToolDefinition
    context_name: str


def _held(function: Function) -> _Held:
    made = cast("FunctionTool[..., Any]", function if isinstance(function, FunctionTool) else tool(function))
    hints = hints_of(made.function)
    context_name = next((name for name, hint in hints.items() if hint is CallContext and name != "return"), "")
    return _Held(made.function, made.definition, context_name)


def _answered(answer: object) -> Outcome:
    """What a function gave, or what is told of what it raised: never a stack, and words only where they are meant."""
    match answer:
        case FerruleError():
            return Answered(answer.message, is_error=True, code=answer.code)
        case asyncio.CancelledError():
            raise answer
        case BaseException():
            return Answered(f"the tool failed ({type(answer).__name__})", is_error=True, code=ToolError.code)
        case _:
            return Answered(cast("Any", answer))
