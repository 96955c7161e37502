"""Encode a request as the body of the Responses API. The API has no seed, top_k or stop sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any

from ferrule.core.call import TOOL_SEARCH, FunctionCall, ToolCall, ToolResult
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Reasoning, Role, Text
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.engine_options import add_responses_options
from ferrule.dialects.openai_responses.declared_tools import DeclaredTools, tools_body
from ferrule.dialects.openai_responses.media import media_part, part_body
from ferrule.dialects.openai_responses.tool_choice import choice_body
from ferrule.dialects.result_text import result_text

# Encode a conversation as input items, in the order of its parts.
#
# Reasoning of earlier turns is sent only on request. A result is text; if it is an error, the text says so.


def items_body(
    messages: Iterable[ChatMessage], *, reasoning: bool, search: DeclaredTools | None = None
) -> list[dict[str, Any]]:
    """Return the items. `search`: the API itself makes the searches among them, and gets them as its items."""
    thoughts = count()
    return [item for message in messages for item in _items(message, thoughts, reasoning, search)]


def _items(
    message: ChatMessage, thoughts: Iterator[int], reasoning: bool, search: DeclaredTools | None
) -> Iterator[dict[str, Any]]:
    parts = message.parts
    if message.media:
        content = [part_body(part) for part in parts if isinstance(part, Text | Media)]
        yield {"type": "message", "role": message.role.value, "content": content}
        parts = tuple(part for part in parts if not isinstance(part, Text | Media))
    texts: list[str] = []
    for part in parts:
        if isinstance(part, Text):
            texts.append(part.text)
            continue
        if texts:
            yield _message(message.role, texts)
            texts = []
        match part:
            case Reasoning(text) if reasoning and text:
                # The API requires an id. Any will do, since nothing is stored.
                content = [{"type": "reasoning_text", "text": text}]
                yield {"type": "reasoning", "id": f"rs_{next(thoughts)}", "summary": [], "content": content}
            case ToolCall() if search and part.type == TOOL_SEARCH:
                yield search.call_item(part)
            case ToolResult(id) if search and search.has_made(id):
                yield search.output_item(part)
            case ToolCall(id, FunctionCall(name, arguments)) if part.complete and search:
                yield {"type": "function_call", "call_id": id, **search.called(name), "arguments": arguments}
            case ToolCall(id, FunctionCall(name, arguments)) if part.complete:
                yield {"type": "function_call", "call_id": id, "name": name, "arguments": arguments}
            case ToolResult(id):
                yield {"type": "function_call_output", "call_id": id, "output": _output(part)}
            case _:
                pass
    if texts:
        yield _message(message.role, texts)


def _output(result: ToolResult) -> str | list[dict[str, Any]]:
    text = result_text(result)
    if not result.media:
        return text
    return [*([{"type": "input_text", "text": text}] if text else []), *map(media_part, result.media)]


def _message(role: Role, texts: list[str]) -> dict[str, Any]:
    if len(texts) == 1:
        return {"type": "message", "role": role.value, "content": texts[0]}
    kind: dict[str, Any] = (
        {"type": "output_text", "annotations": []} if role is Role.ASSISTANT else {"type": "input_text"}
    )
    return {"type": "message", "role": role.value, "content": [{**kind, "text": text} for text in texts]}


_PARAMETERS = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}


def request_body(
    request: ToolCallRequest, *, model: str, stream: bool, reasoning: bool = False, strict: bool = False
) -> dict[str, Any]:
    """Return the body. `reasoning` includes that of earlier turns; `strict` asks the engine to enforce the schemas.

    Pass `narrow_tools(request)` for an engine that does not support `allowed_tools`.
    """
    instructions = _instructions(request)
    messages = request.messages if instructions is None else request.messages[1:]
    search = DeclaredTools.of(request)
    body: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "input": items_body(messages, reasoning=reasoning, search=search),
        "tools": tools_body(request.tools, search, strict=strict) or None,
        "parallel_tool_calls": False if request.tools and not request.parallel_tool_calls else None,
        **{theirs: getattr(request, ours) for ours, theirs in _PARAMETERS.items()},
        "stream": stream,
        # The engine need not store anything: every request contains the whole conversation.
        "store": False,
    }
    if request.choice != ToolChoice.auto():
        request.choice.select_tools(request.tools)
        body["tool_choice"] = choice_body(search.choice(request.choice) if search else request.choice)
    if request.response_schema is not None:
        format = {"type": "json_schema", "name": "response", "schema": request.response_schema, "strict": True}
        body["text"] = {"format": format}
    add_responses_options(body, request.engine_options)
    return {key: value for key, value in body.items() if value is not None}


def _instructions(request: ToolCallRequest) -> str | None:
    """Return the first message, if it is a system message with one text."""
    match request.messages[:1]:
        case (first,) if first.role is Role.SYSTEM and len(first.parts) == 1 and isinstance(first.parts[0], Text):
            return first.parts[0].text
        case _:
            return None
