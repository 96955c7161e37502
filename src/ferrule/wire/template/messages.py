"""A conversation as chat templates expect it: plain dictionaries in the OpenAI spelling, arguments as mappings.

What a tool gave back is somebody else's text: markup in it is broken, as it is by our own renderer. It knows nothing
of Jinja.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.message import ChatMessage
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutral


def messages_of(messages: Iterable[ChatMessage], format: Format) -> list[dict[str, Any]]:
    """The messages for a template of that format; each result has a message of its own. Calls cut off are left out."""
    return [spelled for message in messages for spelled in _spelled(message, format)]


def _spelled(message: ChatMessage, format: Format) -> list[dict[str, Any]]:
    told = [_result(result, format) for result in message.results]
    if told and len(told) == len(message.parts):
        return told
    spelled: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        spelled["reasoning_content"] = message.reasoning
    calls = [_call(call) for call in message.tool_calls if call.complete]
    if calls:
        spelled["tool_calls"] = calls
    return [*told, spelled]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(result: ToolResult, format: Format) -> dict[str, Any]:
    content = neutral(result.text, format)
    return {"role": "tool", "tool_call_id": result.tool_call_id, "name": result.name, "content": content}
