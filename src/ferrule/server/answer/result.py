"""The result of a conversation, for a caller who was gone when it ended: from the ledger alone.

| status | meaning |
|---|---|
| `waiting` | a call waits for approval |
| `running` | a process works on it, or is about to |
| `interrupted` | nobody works on it or has decided on it; resume it: `{"ferrule": {"resume": id}}` |
| `completed` | it has ended, and here is the answer |
| `failed` | it could not be continued after a decision, and here is why |
"""

from __future__ import annotations

from typing import Any, cast

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Role, messages_from_json
from ferrule.core.outcome import Answered, Outcome
from ferrule.run.ledger.continuation import DUE, FAILED
from ferrule.run.ledger.ledger import ApprovalState, CallRecord, CallState, ConversationRecord
from ferrule.run.machine import denial_outcome, outcome_as_dict
from ferrule.run.turn_record import TurnRecord
from ferrule.server.gateway import Gateway

WAITING, RUNNING, INTERRUPTED, COMPLETED, FAILURE = "waiting", "running", "interrupted", "completed", "failed"
STATUSES = (WAITING, RUNNING, INTERRUPTED, COMPLETED, FAILURE)
# A call that has started has no outcome yet: it is not known whether it will have happened.
_OPEN = frozenset({CallState.PROPOSED, CallState.AWAITING_APPROVAL, CallState.APPROVED, CallState.STARTED})


async def result_of(gateway: Gateway, record: ConversationRecord, now: float) -> tuple[str, dict[str, Any]]:
    """Return the status of a conversation, and what belongs to it."""
    ledger = gateway.ledger
    continuation = await ledger.continuation(record.id)
    if continuation is not None and continuation.status == FAILED:
        return FAILURE, {"error": {"code": continuation.error_code, "message": continuation.error_message}}
    is_busy = record.held_until > now or (continuation is not None and continuation.status == DUE)
    state = cast("dict[str, Any]", record.state or {})
    calls = await ledger.calls(record.id)
    is_open = state.get("loop") or ("turn" not in state and any(call.state in _OPEN for call in calls))
    if is_open:
        pending = [
            one.id
            for one in await ledger.approvals_in(record.id)
            if one.state is ApprovalState.PENDING and one.expires_at > now
        ]
        if pending:
            return WAITING, {"approvals": pending}
        return (RUNNING if is_busy else INTERRUPTED), {}
    messages = messages_from_json(state.get("messages", ()))
    if messages:
        return COMPLETED, _turn_view(messages, state.get("turn"))
    if not calls:
        return (RUNNING if is_busy else INTERRUPTED), {}
    return COMPLETED, await _call_view(gateway, calls[-1])


def _turn_view(messages: tuple[ChatMessage, ...], data: dict[str, Any] | None) -> dict[str, Any]:
    record = TurnRecord.from_dict(data) if data else None
    start = record.start if record else _last_turn(messages)
    added = messages[start:]
    answers = [message.content for message in added if message.role is Role.ASSISTANT]
    usage = record.usage if record else None
    return {
        "text": answers[-1] if answers else "",
        "finish_reason": record.finish.value if record else "stop",
        "limit": record.limit if record else "",
        "usage": usage and {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "calls": [_pair_view(call, result) for call, result in _pairs(added)],
    }


async def _call_view(gateway: Gateway, call: CallRecord) -> dict[str, Any]:
    outcome: Outcome = call.outcome or Answered("it did not run", is_error=True, code=call.state.value)
    if call.state is CallState.DENIED:
        approval = await gateway.ledger.approval_for(call.conversation, call.id)
        outcome = denial_outcome(approval.why if approval else "")
    view = {"id": call.id, "tool": call.tool, "arguments": call.arguments.decode("utf-8", "backslashreplace")}
    return {"call": {**view, "state": call.state.value, "outcome": outcome_as_dict(outcome)}}


def _last_turn(messages: tuple[ChatMessage, ...]) -> int:
    """Return where the last turn begins, for conversations that do not say."""
    users = [number for number, message in enumerate(messages) if message.role is Role.USER]
    return users[-1] + 1 if users else 0


def _pairs(messages: tuple[ChatMessage, ...]) -> list[tuple[ToolCall, ToolResult]]:
    calls: dict[str, ToolCall] = {}
    pairs: list[tuple[ToolCall, ToolResult]] = []
    for message in messages:
        calls |= {call.id: call for call in message.tool_calls}
        pairs += [(calls[one.tool_call_id], one) for one in message.results if one.tool_call_id in calls]
    return pairs


def _pair_view(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    return {
        "tool": call.name,
        "arguments": call.function.arguments,
        "content": result.content,
        "is_error": result.is_error,
        **({"media": [one.as_dict() for one in result.media]} if result.media else {}),
    }
