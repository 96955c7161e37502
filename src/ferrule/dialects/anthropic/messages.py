"""Encode a conversation for Anthropic: blocks in order, results inside the user's turn that follows the calls.

Reasoning with a signature, or encrypted, is sent back byte for byte. Reasoning without one is sent only on request:
Anthropic's own service refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.dialects.anthropic.media import media_block
from ferrule.dialects.anthropic.search_blocks import result_block, search_at, use_block
from ferrule.errors import DefinitionError


def system_body(messages: tuple[ChatMessage, ...]) -> tuple[Any, tuple[ChatMessage, ...]]:
    """Return the content of the field `system`, which precedes the conversation, and the remaining messages."""
    count = next((at for at, message in enumerate(messages) if message.role is not Role.SYSTEM), len(messages))
    texts = [part.text for message in messages[:count] for part in message.parts if isinstance(part, Text)]
    return _content(texts) if texts else None, messages[count:]


def messages_body(messages: Iterable[ChatMessage], *, reasoning: bool, searches: bool = False) -> list[dict[str, Any]]:
    """Return the messages. `searches`: the API itself makes the searches among them, and gets them as its blocks."""
    if not searches:
        return _bodies_of(messages, reasoning)
    own, start = tuple(messages), 0
    bodies: list[dict[str, Any]] = []
    for at in range(len(own)):
        search = search_at(own, at)
        if search is None:
            continue
        bodies += _bodies_of(own[start:at], reasoning)
        written = [one for part in own[at].parts[:-1] if _is_sent(part, reasoning) for one in blocks(part)]
        bodies.append({"role": "assistant", "content": [*written, use_block(search), result_block(search)]})
        start = at + 2
    return [*bodies, *_bodies_of(own[start:], reasoning)]


def _bodies_of(messages: Iterable[ChatMessage], reasoning: bool) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    # The results of one turn's calls must be together in the next message.
    for is_tool, group in groupby(messages, key=lambda message: message.role is Role.TOOL):
        if is_tool:
            results = [one for message in group for part in message.parts for one in blocks(part)]
            bodies.append({"role": "user", "content": results})
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
    content = [one for part in message.parts if _is_sent(part, reasoning) for one in blocks(part)]
    return [{"role": message.role.value, "content": content}] if content else []


def _is_sent(part: Part, reasoning: bool) -> bool:
    match part:
        case Text(text):
            # The API rejects an empty block.
            return bool(text)
        case Reasoning():
            return reasoning or bool(part.signature or part.encrypted)
        case ToolCall():
            return part.complete
        case ToolResult() | Media():
            return True


def blocks(part: Part) -> list[dict[str, Any]]:
    """Return the blocks of a part: one, or two for reasoning of which some is encrypted."""
    match part:
        case Text(text):
            return [{"type": "text", "text": text}]
        case Reasoning(text, signature, encrypted):
            redacted = [{"type": "redacted_thinking", "data": encrypted}] if encrypted else []
            if redacted and not (text or signature):
                return redacted
            return [{"type": "thinking", "thinking": text, "signature": signature}, *redacted]
        case ToolCall():
            return [{"type": "tool_use", "id": part.id, "name": part.name, "input": _input(part)}]
        case ToolResult(id):
            failed = {"is_error": True} if part.is_error else {}
            return [{"type": "tool_result", "tool_use_id": id, "content": _result_content(part), **failed}]
        case Media():
            return [media_block(part)]


def _result_content(result: ToolResult) -> str | list[dict[str, Any]]:
    if not result.media:
        return result.text
    # The API rejects an empty block.
    text = [{"type": "text", "text": result.text}] if result.text else []
    return [*text, *map(media_block, result.media)]


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
