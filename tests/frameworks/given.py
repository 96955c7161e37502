"""What the tests of every framework are given: two tools of ours, replies good and bad, and a small real model."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

from ferrule import (
    CallContext,
    ChoicePolicy,
    Decision,
    Diagnostic,
    Engine,
    FinishReason,
    FunctionCall,
    Reply,
    ToolCall,
    ToolCallRequest,
    ToolError,
    pick,
    tool,
)

SEEN: list[tuple[str, str]] = []
"""What has really happened: tools write it down."""
BAD_ARGUMENTS = ('{"town": "Paris"}', "{}", '{"city": "Paris", "days": "many"}', '{"city": 1}')
"""Of `weather`: an unknown and a missing name, a missing one, and two of the wrong type."""
A_CALL_FIRST = ToolCallRequest(messages=(), tool_choice_policy=ChoicePolicy.REQUIRED_FIRST_HOP, max_tokens=48)


@tool
def weather(city: str, days: int = 1) -> dict[str, Any]:
    """The weather of a city."""
    if city == "Nowhere":
        raise ToolError("no such city")
    SEEN.append((city, str(days)))
    return {"city": city, "sky": "clear"}


@tool(side_effects=True)
def send(to: str, context: CallContext) -> str:
    """Sends a letter."""
    SEEN.append((to, context.call_id))
    return f"sent to {to}"


async def always(call: ToolCall) -> Decision | None:
    return Decision(True)


async def never(call: ToolCall) -> Decision | None:
    return Decision(False, "not on Sundays")


def calls(name: str, arguments: str, id: str = "call_1") -> Reply:
    return Reply.of(ToolCall.of(name, arguments, id))


def cut_off() -> Reply:
    call = ToolCall("call_1", FunctionCall("weather", '{"city": "Par'), complete=False)
    return Reply((call,), finish=FinishReason.LENGTH)


def refused() -> Reply:
    call = ToolCall("call_1", FunctionCall("weather", '{"town": "Paris"}'), complete=False)
    return Reply((call,), (Diagnostic("invalid_arguments", "/: city is missing", index=0),), FinishReason.STOP)


@lru_cache(maxsize=1)
def smol() -> Engine:
    return pick(f"llama:{os.environ['FERRULE_MODEL']}?threads=1&slots=1&context=2048")
