"""Encode a request as the body of OpenAI's chat API."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ferrule.core.call import ToolResult
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Role, Text
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.openai_chat.media import media_part
from ferrule.dialects.openai_chat.parameters import parameters_body
from ferrule.dialects.openai_chat.tool_choice import choice_body, tool_body
from ferrule.dialects.result_text import result_text
from ferrule.errors import DefinitionError

# Encode a conversation for OpenAI's chat API.
#
# The API has separate fields for text, reasoning and calls, so their order is lost. A result is text; there is no
# error flag, so the text says that it is an error. The images of results follow in a user message, as the API requires:
# the results of one turn must stay together, so the message comes after the last of them.


def messages_body(messages: Iterable[ChatMessage], *, reasoning: bool) -> list[dict[str, Any]]:
    bodies: list[dict[str, Any]] = []
    shown: list[ToolResult] = []
    for message in messages:
        if shown and message.role is not Role.TOOL:
            bodies.append(_media_message(shown))
            shown = []
        bodies += _bodies(message, reasoning)
        shown += [result for result in message.results if result.media]
    return [*bodies, _media_message(shown)] if shown else bodies


def _media_message(results: Iterable[ToolResult]) -> dict[str, Any]:
    content: list[dict[str, Any]] = []
    for result in results:
        label = f"The result of {result.name} ({result.tool_call_id}):" if result.name else f"{result.tool_call_id}:"
        content.append({"type": "text", "text": label})
        content += map(media_part, result.media)
    return {"role": "user", "content": content}


def _bodies(message: ChatMessage, reasoning: bool) -> Iterator[dict[str, Any]]:
    if message.role is Role.ASSISTANT:
        yield _assistant(message, reasoning)
        return
    for result in message.results:
        text = result_text(result) or (_IN_NEXT_MESSAGE if result.media else "")
        yield {"role": "tool", "tool_call_id": result.tool_call_id, "content": text}
    texts = _texts(message)
    if message.role is Role.TOOL and texts:
        raise DefinitionError("a tool message contains text besides its results", hint="Put the text into the result.")
    if message.role is not Role.TOOL:
        yield {"role": message.role.value, "content": _user_content(message) if message.media else _content(texts)}


_IN_NEXT_MESSAGE = "The result is in the next message."


def _user_content(message: ChatMessage) -> list[dict[str, Any]]:
    content: list[dict[str, Any]] = []
    for part in message.parts:
        if isinstance(part, Text):
            content.append({"type": "text", "text": part.text})
        elif isinstance(part, Media):
            content.append(media_part(part))
    return content


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
    body.update(request.engine_options)
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body
