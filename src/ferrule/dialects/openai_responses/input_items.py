"""Encode a conversation as input items, in the order of its parts.

Reasoning of earlier turns is sent only on request. A result is text; if it is an error, the text says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.dialects.result_text import result_text


def items_body(messages: Iterable[ChatMessage], *, reasoning: bool) -> list[dict[str, Any]]:
    thoughts = count()
    return [item for message in messages for item in _items(message, thoughts, reasoning)]


def _items(message: ChatMessage, thoughts: Iterator[int], reasoning: bool) -> Iterator[dict[str, Any]]:
    texts: list[str] = []
    for part in message.parts:
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if texts:
            yield _message(message.role, texts)
            texts = []
        match part:
            case Reasoning(text) if reasoning:
                # The API requires an id. Any will do, since nothing is stored.
                content = [{"type": "reasoning_text", "text": text}]
                yield {"type": "reasoning", "id": f"rs_{next(thoughts)}", "summary": [], "content": content}
            case ToolCall(id, FunctionCall(name, arguments)) if part.complete:
                yield {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
            case ToolResult(id):
                yield {"type": "function_call_output", "call_id": id, "output": result_text(part)}
            case _:
                pass
    if texts:
        yield _message(message.role, texts)


def _message(role: Role, texts: list[str]) -> dict[str, Any]:
    if len(texts) == 1:
        return {"type": "message", "role": role.value, "content": texts[0]}
    kind: dict[str, Any] = (
        {"type": "output_text", "annotations": []} if role is Role.ASSISTANT else {"type": "input_text"}
    )
    return {"type": "message", "role": role.value, "content": [{**kind, "text": text} for text in texts]}
