"""A conversation as chat templates expect it: dictionaries in OpenAI's message format, with arguments as mappings.

Tool results are untrusted text: markup in them is neutralized, as in our own renderer. Independent of Jinja.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.message import ChatMessage
from ferrule.wire.format import Format
from ferrule.wire.neutral_text import neutralize


def messages_of(messages: Iterable[ChatMessage], format: Format) -> list[dict[str, Any]]:
    """The messages for a template of that format. Each result is a separate message; incomplete calls are omitted."""
    return [entry for message in messages for entry in _template_messages(message, format)]


def _template_messages(message: ChatMessage, format: Format) -> list[dict[str, Any]]:
    results = [_result(result, format) for result in message.results]
    if results and len(results) == len(message.parts):
        return results
    entry: dict[str, Any] = {"role": message.role.value, "content": message.content}
    if message.reasoning:
        entry["reasoning_content"] = message.reasoning
    calls = [_call(call) for call in message.tool_calls if call.complete]
    if calls:
        entry["tool_calls"] = calls
    return [*results, entry]


def _call(call: ToolCall) -> dict[str, Any]:
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def _result(result: ToolResult, format: Format) -> dict[str, Any]:
    content = neutralize(result.text, format)
    return {"role": "tool", "tool_call_id": result.tool_call_id, "name": result.name, "content": content}
