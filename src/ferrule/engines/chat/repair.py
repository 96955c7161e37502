"""Repair: makes the request for new arguments of one call and reads its answer. Sends nothing itself.

Only the arguments are taken from the answer. The call keeps its id and its name.
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
    """The result of a repair: valid arguments, or the reason why there are none, and the usage."""

    arguments: str | None
    reason: str = ""
    usage: Usage | None = None


def repair_request(request: ToolCallRequest, attempt: Attempt, text: str) -> ToolCallRequest:
    """Return the conversation with the attempt and its faults appended. The tool choice is not set here."""
    return replace(
        request,
        messages=(*request.messages, *_repair_messages(attempt, text)),
        parallel_tool_calls=False,
        response_schema=None,
    )


def new_arguments(reply: Reply, attempt: Attempt) -> str | None:
    """Return the arguments of the first call of the same tool, unchanged; None if there is no such call."""
    calls = (part for part in reply.parts if isinstance(part, ToolCall))
    return next((call.function.arguments for call in calls if call.name == attempt.name), None)


def _repair_messages(attempt: Attempt, text: str) -> tuple[ChatMessage, ChatMessage]:
    problem = f"{INVALID_ARGUMENTS}: {attempt.message}"
    call = ToolCall(attempt.id, FunctionCall(attempt.name, attempt.arguments))
    if _is_object(call):
        result = f"{problem}. Call {attempt.name} again with arguments that match its schema."
        return ChatMessage.assistant(text, [call]), ChatMessage.tool(call.id, result, call.name, is_error=True)
    # APIs with arguments as objects cannot represent anything else, and others fail to render it, so it is quoted as
    # text. Sending {} instead would show the model a call that it did not make.
    quoted = f"{text}\n\n{attempt.name}: {attempt.arguments}".strip()
    instruction = (
        f"{problem}. Call the tool {attempt.name} again; its arguments must be one JSON object that matches its schema."
    )
    return ChatMessage.assistant(quoted), ChatMessage.user(instruction)


def _is_object(call: ToolCall) -> bool:
    try:
        return isinstance(loads(call.function.arguments), dict)
    except (ValueError, RecursionError):
        return False
