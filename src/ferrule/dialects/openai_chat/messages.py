"""Encode a conversation for OpenAI's chat API.

The API has separate fields for text, reasoning and calls, so their order is lost. A result is text; there is no error
flag, so the text says that it is an error.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ferrule.core.message import ChatMessage, Role, Text
from ferrule.dialects.result_text import result_text
from ferrule.errors import DefinitionError


def messages_body(messages: Iterable[ChatMessage], *, reasoning: bool) -> list[dict[str, Any]]:
    return [body for message in messages for body in _bodies(message, reasoning)]


def _bodies(message: ChatMessage, reasoning: bool) -> Iterator[dict[str, Any]]:
    if message.role is Role.ASSISTANT:
        yield _assistant(message, reasoning)
        return
    for result in message.results:
        yield {"role": "tool", "tool_call_id": result.tool_call_id, "content": result_text(result)}
    texts = _texts(message)
    if message.role is Role.TOOL and texts:
        raise DefinitionError("a tool message contains text besides its results", hint="Put the text into the result.")
    if message.role is not Role.TOOL:
        yield {"role": message.role.value, "content": _content(texts)}


def _assistant(message: ChatMessage, reasoning: bool) -> dict[str, Any]:
    texts = _texts(message)
    body: dict[str, Any] = {"role": "assistant", "content": _content(texts) if texts else None}
    if reasoning and message.reasoning:
        body["reasoning_content"] = message.reasoning
    calls = [call.as_openai() for call in message.tool_calls if call.complete]
    if calls:
        body["tool_calls"] = calls
    elif not texts:
        # The API requires content even in an empty turn without calls.
        body["content"] = ""
    return body


def _texts(message: ChatMessage) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, Text)]


def _content(texts: list[str]) -> str | list[dict[str, Any]]:
    if len(texts) > 1:
        return [{"type": "text", "text": text} for text in texts]
    return texts[0] if texts else ""
