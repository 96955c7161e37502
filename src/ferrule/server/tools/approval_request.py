"""What a call that waits for approval was asked for: the last user turn, and the calls before it in the conversation.

It is for the person who decides, so every hidden character is spelled out, and every text is cut to a bounded length.
System messages and the model's reasoning are not part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.json_text import dumps
from ferrule.core.media import media_line
from ferrule.core.message import ChatMessage, Role, messages_from_json
from ferrule.core.visible_text import visible, visible_prose
from ferrule.errors import DefinitionError
from ferrule.run.ledger.ledger import Approval, ConversationRecord
from ferrule.server.gateway import Gateway

MAX_TURN_CHARS = 4_000
MAX_VALUE_CHARS = 500
MAX_CALLS = 20


async def request_view(gateway: Gateway, approval: Approval) -> dict[str, Any] | None:
    """Return what the user asked, and the calls that have run before; None if the conversation has no messages."""
    record = await gateway.ledger.load(approval.conversation)
    messages = _messages(record) if record is not None else ()
    asked = next((message.content for message in reversed(messages) if message.role is Role.USER), None)
    calls = list(_calls_with_results(messages))
    if asked is None and not calls:
        return None
    return {
        "asked": None if asked is None else _cut(visible_prose(asked[: MAX_TURN_CHARS + 1]), MAX_TURN_CHARS),
        "asked_chars": 0 if asked is None else len(asked),
        "calls": [_call_view(call, result) for call, result in calls[-MAX_CALLS:]],
        "earlier_calls": max(0, len(calls) - MAX_CALLS),
    }


def _messages(record: ConversationRecord) -> tuple[ChatMessage, ...]:
    state = cast("dict[str, Any]", record.state or {})
    loop = cast("dict[str, Any]", state.get("loop") or {})
    try:
        return messages_from_json([*state.get("messages", ()), *loop.get("added", ())])
    except DefinitionError:
        # A damaged record has nothing to show here. What will run is shown from the approval itself.
        return ()


def _calls_with_results(messages: Sequence[ChatMessage]) -> Sequence[tuple[ToolCall, ToolResult]]:
    """Return the calls that have a result, in order. Ids may repeat, so a call's result is the next one of its id."""
    pairs: list[tuple[ToolCall, ToolResult]] = []
    open_calls: dict[str, ToolCall] = {}
    for message in messages:
        open_calls |= {call.id: call for call in message.tool_calls}
        for result in message.results:
            call = open_calls.pop(result.tool_call_id, None)
            if call is not None:
                pairs.append((call, result))
    return pairs


def _call_view(call: ToolCall, result: ToolResult) -> dict[str, Any]:
    text = result.content if isinstance(result.content, str) else dumps(result.content)
    text = "\n".join(filter(None, (text, *map(media_line, result.media))))
    return {
        "tool": visible(call.name),
        "arguments": _cut(visible(call.function.arguments[: MAX_VALUE_CHARS + 1]), MAX_VALUE_CHARS),
        "result": _cut(visible_prose(text[: MAX_VALUE_CHARS + 1]), MAX_VALUE_CHARS),
        "is_error": result.is_error,
    }


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"
