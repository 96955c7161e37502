"""Messages as JSON and back, with nothing lost: what is saved, and what goes to another process.

This is Ferrule's own spelling, which keeps the order of parts; the APIs' spellings are in `dialects`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.errors import DefinitionError


def messages_as_json(messages: Iterable[ChatMessage]) -> list[dict[str, Any]]:
    return [{"role": message.role.value, "parts": [_part(part) for part in message.parts]} for message in messages]


def messages_from_json(held: Iterable[Mapping[str, Any]]) -> tuple[ChatMessage, ...]:
    try:
        return tuple(ChatMessage(Role(one["role"]), tuple(_read(part) for part in one["parts"])) for one in held)
    except (KeyError, TypeError, ValueError) as damage:
        raise DefinitionError(
            f"these are no saved messages: {damage!r}", hint="Give what `save` gave, unchanged."
        ) from damage


def _part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"kind": "text", "text": text}
        case Reasoning(text):
            return {"kind": "reasoning", "text": text}
        case ToolCall():
            named = {"id": part.id, "name": part.name, "arguments": part.function.arguments}
            return {"kind": "call", **named, "complete": part.complete}
        case ToolResult(call_id, name, content, is_error):
            return {"kind": "result", "id": call_id, "name": name, "content": content, "is_error": is_error}


def _read(held: Mapping[str, Any]) -> Part:
    match held["kind"]:
        case "text":
            return Text(held["text"])
        case "reasoning":
            return Reasoning(held["text"])
        case "call":
            return ToolCall(held["id"], FunctionCall(held["name"], held["arguments"]), complete=held["complete"])
        case "result":
            return ToolResult(held["id"], held["name"], held["content"], held["is_error"])
        case kind:
            raise ValueError(f"unknown kind of part {kind!r}")
