"""Repair: an invalid call goes back to the model with its faults, and the model writes the arguments again.

Shared by engines that constrain and engines that only check: a grammar does not cover every keyword. Must not know any
engine.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ferrule.core.call import FunctionCall, How, Receipt, ToolCall
from ferrule.core.event import Usage
from ferrule.core.fault import Fault
from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.receipts import INVALID_ARGUMENTS
from ferrule.errors import NoValidCallError


@dataclass(frozen=True, slots=True)
class Attempt:
    """An invalid call and its faults."""

    index: int
    id: str
    name: str
    arguments: str
    faults: tuple[Fault, ...]

    @property
    def message(self) -> str:
        return "; ".join(map(str, self.faults))


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


def repaired_draft(draft: Receipt, attempt: Attempt) -> Receipt:
    """The receipt of a call whose arguments were written again."""
    note = f"the arguments were repaired; the first attempt failed: {attempt.message}"
    return replace(draft, how=How.REPAIRED, notes=(*draft.notes, note))


def no_valid_call(engine: str, faults: str) -> NoValidCallError:
    """The error for a required call that was not made, or not made validly."""
    reason = f"the last one does not fit: {faults}" if faults else "the model made none"
    return NoValidCallError(
        f"a call was required, and {engine} produced no valid one: {reason}",
        hint="Send the request again, or simplify the tool's schema: `ferrule explain` lists what no grammar enforces.",
    )
