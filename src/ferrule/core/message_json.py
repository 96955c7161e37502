"""Messages as JSON and back, without loss: for saved conversations, and for other processes.

This is Ferrule's own format, which preserves the order of parts; the formats of the APIs are in `dialects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.errors import DefinitionError


def messages_as_json(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role.value, "parts": [_part(part) for part in message.parts]} for message in messages]


def messages_from_json(data: Iterable[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    try:
        return tuple(ChatMessage(Role(one["role"]), tuple(_read(part) for part in one["parts"])) for one in data)
    except (KeyError, TypeError, ValueError) as damage:
        raise DefinitionError(
            f"not saved messages: {damage!r}", hint="Pass what `save` returned, unchanged."
        ) from damage


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"kind": "text", "text": text}
        case Reasoning(text):
            return {"kind": "reasoning", "text": text}
        case ToolCall():
            identity = {"id": part.id, "name": part.name, "arguments": part.function.arguments}
            return {"kind": "call", **identity, "complete": part.complete}
        case ToolResult(call_id, name, content, is_error):
            return {"kind": "result", "id": call_id, "name": name, "content": content, "is_error": is_error}


def _read(data: Mapping[str, Any]) -> Part:
    match data["kind"]:
        case "text":
            return Text(data["text"])
        case "reasoning":
            return Reasoning(data["text"])
        case "call":
            return ToolCall(data["id"], FunctionCall(data["name"], data["arguments"]), complete=data["complete"])
        case "result":
            return ToolResult(data["id"], data["name"], data["content"], data["is_error"])
        case kind:
            raise ValueError(f"unknown kind of part {kind!r}")
