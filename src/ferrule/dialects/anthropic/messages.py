"""Encode a conversation for Anthropic: blocks in order, results inside the user's turn that follows the calls.

Reasoning of earlier turns is sent only on request: Anthropic's own service refuses thinking without its signature, and
Ferrule does not store signatures.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.errors import DefinitionError


def system_body(messages: tuple[ChatMessage, ...]) -> tuple[Any, tuple[ChatMessage, ...]]:
    """Return the content of the field `system`, which precedes the conversation, and the remaining messages."""
    count = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    texts = [part.text for message in messages[:count] for part in message.parts if isinstance(part, Text)]
    return _content(texts) if texts else None, messages[count:]


def messages_body(messages: Iterable[ChatMessage], *, reasoning: bool) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    # The results of one turn's calls must be together in the next message.
    for is_tool, group in groupby(messages, key=lambda message: message.role is Role.TOOL):
        if is_tool:
            blocks = [block(part) for message in group for part in message.parts]
            bodies.append({"role": "user", "content": blocks})
        else:
            bodies += [body for message in group for body in _bodies(message, reasoning)]
    return bodies


def _bodies(message: ChatMessage, reasoning: bool) -> list[dict[str, Any]]:
    if message.role is not Role.ASSISTANT and all(isinstance(part, Text) for part in message.parts):
        return [
            {
                "role": message.role.value,
                "content": _content([message.content] if not message.parts[1:] else _texts(message)),
            }
        ]
    blocks = [block(part) for part in message.parts if _is_sent(part, reasoning)]
    return [{"role": message.role.value, "content": blocks}] if blocks else []


def _is_sent(part: Part, reasoning: bool) -> bool:
    match part:
        case Text(text):
            # The API rejects an empty block.
            return bool(text)
        case Reasoning():
            return reasoning
        case ToolCall():
            return part.complete
        case ToolResult():
            return True


def block(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Reasoning(text):
            return {"type": "thinking", "thinking": text, "signature": ""}
        case ToolCall():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)}
        case ToolResult(id):
            failed = {"is_error": True} if part.is_error else {}
            return {"type": "tool_result", "tool_use_id": id, "content": part.text, **failed}


def _input(call: ToolCall) -> dict[str, Any]:
    try:
        return call.arguments
    except ValueError as error:
        raise DefinitionError(
            f"the arguments of an earlier call of {call.name!r} are not a JSON object",
            hint="Leave the call out of the conversation, or mark it as not complete.",
        ) from error


def _texts(message: ChatMessage) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text)]


def _content(texts: list[str]) -> str | list[dict[str, Any]]:
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": text} for text in texts]
