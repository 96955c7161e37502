"""What may be passed as `decide`, the function that approves or denies calls with side effects."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias, cast

from ferrule.core.call import ToolCall
from ferrule.errors import DefinitionError
from ferrule.run.journal import Decision
from ferrule.run.loop import Decide

Answer: TypeAlias = Decision | bool | None
DecideInput: TypeAlias = Callable[[ToolCall], Answer | Awaitable[Answer]]
"""A function of a call, synchronous or not. True approves, False denies, None leaves the decision to somebody else."""

_HINT = "Write `def decide(call): return True`, or return Decision(False, why=...)."


def to_decide(decide: DecideInput) -> Decide:
    """Convert it. A synchronous function runs in a thread, because it may wait for a person."""
    if not callable(cast("object", decide)):
        raise DefinitionError(f"decide must be a function, not {decide!r:.60}", hint=_HINT)

    async def decide_call(call: ToolCall) -> Decision | None:
        if _is_async(decide):
            answer = await cast("Awaitable[Answer]", decide(call))
        else:
            answer = await asyncio.to_thread(decide, call)
            if inspect.isawaitable(answer):
                answer = await answer
        return _to_decision(answer)

    return decide_call


def _is_async(function: Callable[..., object]) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)


def _to_decision(answer: object) -> Decision | None:
    if answer is None or isinstance(answer, Decision):
        return answer
    if isinstance(answer, bool):
        return Decision(answer, "" if answer else "the user denied it")
    raise DefinitionError(f"decide returned {answer!r:.60}", hint=_HINT)
