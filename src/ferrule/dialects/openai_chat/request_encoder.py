"""Encode a request as the body of OpenAI's chat API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.openai_chat.parameters import parameters_body
from ferrule.dialects.openai_chat.tool_choice import choice_body, tool_body
from ferrule.dialects.result_text import result_text
from ferrule.errors import DefinitionError

# Encode a conversation for OpenAI's chat API.
#
# The API has separate fields for text, reasoning and calls, so their order is lost. A result is text; there is no
# error flag, so the text says that it is an error.


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


def request_body(
    request: ToolCallRequest,
    *,
    model: str,
    stream: bool,
    reasoning: bool = False,
    strict: bool = False,
    max_tokens_field: str = "max_completion_tokens",
) -> dict[str, Any]:
    """Return the body. `reasoning` includes that of earlier turns; `strict` asks the engine to enforce the schemas.

    `max_tokens_field` is the name of the token limit, for engines that know only the older one. Pass
    `narrow_tools(request)` for an engine that does not support `allowed_tools`.
    """
    body: dict[str, Any] = {"model": model, "messages": messages_body(request.messages, reasoning=reasoning)}
    if request.tools:
        body["tools"] = [tool_body(tool, strict=strict) for tool in request.tools]
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if request.choice != ToolChoice.auto():
        request.choice.select_tools(request.tools)
        body["tool_choice"] = choice_body(request.choice)
    if request.response_schema is not None:
        json_schema = {"name": "response", "schema": request.response_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": json_schema}
    body.update(parameters_body(request, max_tokens_field))
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body
