"""Repair: an invalid call goes back to the model with its faults, and the model writes it again.

A call whose arguments do not fit gets new arguments for the same tool. A call of a tool that was not offered may become
a call of any offered one, or a text: which tool the model meant is not known, so it is asked and not forced.

Shared by engines that constrain and engines that only check: a grammar does not cover every keyword. Must not know any
engine.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ferrule.core.call import FunctionCall, How, Receipt, ToolCall
from ferrule.core.event import FinishReason, Usage, add_usage
from ferrule.core.fault import Fault
from ferrule.core.history import readable_messages
from ferrule.core.json_text import loads
from ferrule.core.message import ChatMessage
from ferrule.core.reply import Reply
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.receipts import INVALID_ARGUMENTS, NOT_OFFERED, REPEATED_CALL, call_faults
from ferrule.errors import EngineError, NoValidCallError

CUT_OFF = "cut_off"
_TRY_OFFERED = "Call one of the offered tools, or answer without a call."


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

    def cut_off(self, limit: int | None) -> Attempt:
        """The same attempt, with the token limit as its fault: what is wrong with its arguments follows from that."""
        if self.is_unknown:
            return self
        tokens = f" of {limit} tokens" if limit else ""
        message = f"the call was cut off at the limit{tokens}; put less into one call, and the rest into further calls"
        return replace(self, faults=(Fault("", CUT_OFF, message),))

    @property
    def is_partial(self) -> bool:
        """Whether the arguments are not a JSON object, which they are if an answer ends inside them."""
        return not _is_object(self.arguments)

    @property
    def is_unknown(self) -> bool:
        """Whether it names a tool that was not offered, or repeats an excluded call: another tool may be meant."""
        return self.code in (NOT_OFFERED, REPEATED_CALL)

    @property
    def code(self) -> str:
        keyword = self.faults[0].keyword
        return keyword if keyword in (NOT_OFFERED, REPEATED_CALL) else INVALID_ARGUMENTS


@dataclass(frozen=True, slots=True)
class Repair:
    """The result of a repair: a valid call, or the reason why there is none, and the usage.

    `text` is what the model answered instead of a call of an unknown tool.
    """

    call: FunctionCall | None
    reason: str = ""
    text: str = ""
    usage: Usage | None = None

    @property
    def is_answered(self) -> bool:
        return self.call is not None or bool(self.text)


async def repair_call(
    attempt: Attempt,
    tools: Mapping[str, ToolDefinition],
    limit: int,
    ask: Callable[[Attempt], Awaitable[Reply]],
    excluded: Sequence[FunctionCall] = (),
) -> Repair:
    """Have the model write a call again, at most `limit` times. A failure costs only this call, not the answer.

    `ask` sends the request; it may raise `EngineError`.
    """
    usage: Usage | None = None
    for _ in range(limit):
        try:
            reply = await ask(attempt)
        except EngineError as failure:
            return Repair(None, f"; the repair failed: {failure.message}", usage=usage)
        usage = add_usage(usage, reply.usage)
        call = _new_call(reply, attempt)
        if call is None:
            text = reply.text if attempt.is_unknown and reply.finish is FinishReason.STOP else ""
            return Repair(None, "; the repair failed: the model did not call the tool again", text, usage)
        faults = call_faults(tools, call.name, call.arguments, excluded)
        if not faults:
            return Repair(call, usage=usage)
        attempt = replace(attempt, name=call.name, arguments=call.arguments, faults=faults)
    return Repair(None, f"; after the repair: {attempt.message}", usage=usage)


def repair_request(request: ToolCallRequest, attempt: Attempt, text: str) -> ToolCallRequest:
    """Return the conversation with the attempt and its faults appended, and the request's own tool choice."""
    return replace(
        request,
        messages=(*request.messages, *readable_messages(_repair_messages(attempt, text))),
        tool_choice=_choice_after(request, attempt),
        tool_choice_policy=ChoicePolicy.AUTO,
        parallel_tool_calls=False,
        response_schema=None,
    )


def _choice_after(request: ToolCallRequest, attempt: Attempt) -> ToolChoice:
    """The request's own choice. After a repeated call it is without the tools of the loop: the model insists on it."""
    if attempt.code != REPEATED_CALL:
        return request.choice
    names = request.choice.names or tuple(tool.name for tool in request.tools)
    looping = {call.name for call in request.excluded_calls}
    others = tuple(name for name in names if name not in looping)
    return replace(request.choice, names=others) if others else ToolChoice.none()


def _new_call(reply: Reply, attempt: Attempt) -> FunctionCall | None:
    """Return the first call, unchanged. If the attempt names a tool, it is the first call of that tool."""
    calls = [part.function for part in reply.parts if isinstance(part, ToolCall)]
    return next((call for call in calls if attempt.is_unknown or call.name == attempt.name), None)


def _repair_messages(attempt: Attempt, text: str) -> tuple[ChatMessage, ChatMessage]:
    problem = f"{attempt.code}: {attempt.message}"
    call = ToolCall(attempt.id, FunctionCall(attempt.name, attempt.arguments))
    if not attempt.is_partial:
        again = f"Call {attempt.name} again with arguments that match its schema."
        result = f"{problem}. {_TRY_OFFERED if attempt.is_unknown else again}"
        return ChatMessage.assistant(text, [call]), ChatMessage.tool(call.id, result, call.name, is_error=True)
    # APIs with arguments as objects cannot represent anything else, and others fail to render it, so it is quoted as
    # text. Sending {} instead would show the model a call that it did not make.
    quoted = f"{text}\n\n{attempt.name}: {attempt.arguments}".strip()
    again = f"Call the tool {attempt.name} again; its arguments must be one JSON object that matches its schema."
    instruction = f"{problem}. {_TRY_OFFERED if attempt.is_unknown else again}"
    return ChatMessage.assistant(quoted), ChatMessage.user(instruction)


def _is_object(arguments: str) -> bool:
    try:
        return isinstance(loads(arguments), dict)
    except (ValueError, RecursionError):
        return False


def repaired_draft(draft: Receipt, attempt: Attempt) -> Receipt:
    """The receipt of a call that was written again."""
    what = "call was" if attempt.is_unknown else "arguments were"
    note = f"the {what} repaired; the first attempt failed: {attempt.message}"
    return replace(draft, how=How.REPAIRED, notes=(*draft.notes, note))


def no_valid_call(engine: str, faults: str) -> NoValidCallError:
    """The error for a required call that was not made, or not made validly."""
    reason = f"the last one does not fit: {faults}" if faults else "the model made none"
    return NoValidCallError(
        f"a call was required, and {engine} produced no valid one: {reason}",
        hint="Send the request again, or simplify the tool's schema: `ferrule explain` lists what no grammar enforces.",
    )
