"""Encode a request as the body of Ollama's /api/chat.

| choice | encoded as |
|---|---|
| auto | `tools` |
| auto, only some | `tools` with only those |
| none | no `tools` |
| required, or one tool | a `format` that allows only such a call, and the tools in the system message |

Ollama has no field for one call at a time; a forced call is always one. An answer that is constrained to a schema
cannot make a call, so if a request has both tools and a schema, the schema wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.media import Media, MediaKind
from ferrule.core.message import ChatMessage, Role
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.ollama.forced_call import description, format_for
from ferrule.dialects.result_text import result_text
from ferrule.errors import DefinitionError

_OPTIONS = {
    "max_tokens": "num_predict",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
}


def request_body(
    request: ToolCallRequest, *, model: str, stream: bool, think: bool | str | None = None, reasoning: bool = False
) -> dict[str, Any]:
    """Return the body. `think` turns thinking on or off or sets its level; `reasoning` sends that of earlier turns."""
    forced = format_for(request)
    messages = _with_system(request.messages, description(request)) if forced else request.messages
    offers = forced is None and request.choice.mode is not ChoiceMode.NONE
    options = {theirs: getattr(request, ours) for ours, theirs in _OPTIONS.items()}
    options = {name: value for name, value in options.items() if value is not None}
    if request.stop:
        options["stop"] = list(request.stop)
    body: dict[str, Any] = {
        "model": model,
        "messages": [body for message in messages for body in _bodies(message, reasoning)],
        "tools": [tool.as_function() for tool in narrow_tools(request).tools] if offers else None,
        "format": forced or request.response_schema,
        "options": options,
        "think": think,
        "stream": stream,
    }
    return {key: value for key, value in body.items() if value is not None and value not in ([], {})}


def _with_system(messages: tuple[ChatMessage, ...], text: str) -> tuple[ChatMessage, ...]:
    """Append the text to the system message: many templates support only one."""
    if messages and messages[0].role is Role.SYSTEM:
        return (ChatMessage.system(f"{messages[0].content}\n\n{text}"), *messages[1:])
    return (ChatMessage.system(text), *messages)


def _bodies(message: ChatMessage, reasoning: bool) -> Iterable[dict[str, Any]]:
    for result in message.results:
        tool_name = {"tool_name": result.name} if result.name else {}
        yield {
            **{"role": "tool", "content": result_text(result), **tool_name, "tool_call_id": result.tool_call_id},
            **_images(result.media),
        }
    if message.role is Role.TOOL:
        return
    body: dict[str, Any] = {"role": message.role.value, "content": message.content, **_images(message.media)}
    if reasoning and message.reasoning:
        body["thinking"] = message.reasoning
    calls = [_call(call) for call in message.tool_calls if call.complete]
    yield {**body, "tool_calls": calls} if calls else body


def takes_media(media: Media) -> bool:
    """Whether the API has a field for it: images as base64, and nothing else."""
    return media.kind is MediaKind.IMAGE and bool(media.data)


def _images(media: Iterable[Media]) -> dict[str, list[str]]:
    images = [one.data for one in media]
    return {"images": images} if images else {}


def _call(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = call.arguments
    except ValueError as error:
        raise DefinitionError(
            f"the arguments of an earlier call of {call.name!r} are not a JSON object",
            hint="Leave the call out of the conversation, or mark it as not complete.",
        ) from error
    return {"id": call.id, "function": {"name": call.name, "arguments": arguments}}
