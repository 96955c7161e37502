"""Repair: has a model write the arguments of one call again. Makes the question, reads the answer, sends nothing.

Only arguments are taken from the answer: the call keeps its id and its name, and nothing else in it counts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import Usage
from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.chat.turn import Attempt
from ferrule.engines.receipts import INVALID_ARGUMENTS


@dataclass(frozen=True, slots=True)
class Repair:
    """What came of asking again: arguments that fit, or why there are none; and what it cost."""

    arguments: str | None
    why_not: str = ""
    usage: Usage | None = None


def question(request: ToolCallRequest, attempt: Attempt, text: str) -> ToolCallRequest:
    """The conversation with the attempt and what is wrong with it; the choice is not set here."""
    return replace(
        request,
        messages=(*request.messages, *_told(attempt, text)),
        parallel_tool_calls=False,
        response_schema=None,
    )


def answer(reply: Reply, attempt: Attempt) -> str | None:
    """The arguments of the first call of the same tool, as they were written; None where there is none."""
    calls = (part for part in reply.parts if isinstance(part, ToolCall))
    return next((call.function.arguments for call in calls if call.name == attempt.name), None)


def _told(attempt: Attempt, text: str) -> tuple[ChatMessage, ChatMessage]:
    wrong = f"{INVALID_ARGUMENTS}: {attempt.told}"
    call = ToolCall(attempt.id, FunctionCall(attempt.name, attempt.arguments))
    if _is_object(call):
        result = f"{wrong}. Call {attempt.name} again with arguments that fit its schema."
        return ChatMessage.assistant(text, [call]), ChatMessage.tool(call.id, result, call.name, is_error=True)
    # APIs that keep arguments as objects have no place for what is not one, and others fail to render it; so it is
    # quoted. Sending {} in its place would show the model a call that it did not make.
    quoted = f"{text}\n\n{attempt.name}: {attempt.arguments}".strip()
    asked = f"{wrong}. Call the tool {attempt.name} again; its arguments must be one JSON object that fits its schema."
    return ChatMessage.assistant(quoted), ChatMessage.user(asked)


def _is_object(call: ToolCall) -> bool:
    try:
        return isinstance(loads(call.function.arguments), dict)
    except (ValueError, RecursionError):
        return False
