"""A request as the body that an engine with OpenAI's chat API takes."""

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
    """`reasoning` sends what the model thought in earlier turns back to it; `strict` asks the engine to hold arguments
    to the schemas; an engine that knows only the older name for the token limit is told by `max_tokens_field`.

    An engine that has no `allowed_tools` is given `narrowed(request)`.
    """
    body: dict[str, Any] = {"model": model, "messages": messages_body(request.messages, reasoning=reasoning)}
    if request.tools:
        body["tools"] = [tool_body(tool, strict=strict) for tool in request.tools]
        if not request.parallel_tool_calls:
            body["parallel_tool_calls"] = False
    if request.choice != ToolChoice.auto():
        request.choice.offered(request.tools)
        body["tool_choice"] = choice_body(request.choice)
    if request.response_schema is not None:
        named = {"name": "response", "schema": request.response_schema, "strict": True}
        body["response_format"] = {"type": "json_schema", "json_schema": named}
    body.update(parameters_body(request, max_tokens_field))
    body["stream"] = stream
    if stream:
        body["stream_options"] = {"include_usage": True}
    return body
