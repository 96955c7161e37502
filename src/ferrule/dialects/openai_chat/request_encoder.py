"""Encode a request as the body of OpenAI's chat API."""

from __future__ import annotations

from typing import Any

from ferrule.core.choice import ToolChoice
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_chat.messages import messages_body
from ferrule.dialects.openai_chat.parameters import parameters_body
from ferrule.dialects.openai_chat.tool_choice import choice_body, tool_body


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
