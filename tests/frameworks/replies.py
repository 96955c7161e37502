"""Scripted replies for the tests of every framework: valid, invalid and failing."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from ferrule import (
    ChatMessage,
    Diagnostic,
    Event,
    FerruleError,
    FinishReason,
    FunctionCall,
    Reasoning,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolCallRequest,
    Usage,
)
from ferrule.engines.fake import FakeEngine

PLAIN_TEXT = Reply.of("It is clear.")
LET_ME_SEE = Reply.of(Reasoning("hm"), "let me see", ToolCall.of("weather", '{"city":  "Paris"}', "a"))
"""One of each part; the arguments have unusual whitespace."""
PARIS = Reply(
    (Reasoning("hm"), Text("so"), ToolCall.of("weather", '{"city": "Paris", "days": 3}', "x")),
    finish=FinishReason.TOOL_CALLS,
    usage=Usage(5, 6),
)
ULM, BONN = ToolCall.of("weather", '{"city": "Ulm", "days": 2}', "a1"), ToolCall.of("weather", '{"city": "Bonn"}', "a2")
ULM_AND_BONN = Reply((Reasoning("Hm. "), Text("Wait."), ULM, BONN), (), FinishReason.TOOL_CALLS, Usage(7, 5))

HISTORY = (
    ChatMessage.system("Be short."),
    ChatMessage.user("Weather?"),
    ChatMessage(
        Role.ASSISTANT,
        (Reasoning("Paris, surely."), Text("Let me see."), ToolCall.of("weather", {"city": "Paris"}, "c7")),
    ),
)
"""A history, as the engine receives it."""


def calls(name: str, arguments: str, id: str = "call_1") -> Reply:
    return Reply.of(ToolCall.of(name, arguments, id))


def truncated_reply() -> Reply:
    call = ToolCall("call_1", FunctionCall("weather", '{"city": "Par'), complete=False)
    return Reply((call,), finish=FinishReason.LENGTH)


def rejected_reply() -> Reply:
    call = ToolCall("call_1", FunctionCall("weather", '{"town": "Paris"}'), complete=False)
    return Reply((call,), (Diagnostic("invalid_arguments", "/: city is missing", index=0),), FinishReason.STOP)


each_incomplete_reply = pytest.mark.parametrize(
    "reply, expected",
    [
        (truncated_reply(), "cut off in a call of weather"),
        (rejected_reply(), "call of weather is rejected: /: city is missing"),
    ],
    ids=["cut_off", "refused"],
)
each_bad_argument = pytest.mark.parametrize(
    "arguments", ['{"town": "Paris"}', "{}", '{"city": "Paris", "days": "many"}', '{"city": 1}']
)
"""Of `weather`: an unknown and a missing name, a missing one, and two of the wrong type."""


class Failing(FakeEngine):
    """An engine that raises the given error."""

    def __init__(self, error: FerruleError) -> None:
        super().__init__([])
        self._error = error

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise self._error
        yield
