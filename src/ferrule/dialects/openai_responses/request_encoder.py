"""Encode a request as the body of the Responses API. The API has no seed, top_k or stop sequences."""

from __future__ import annotations

from typing import Any

from ferrule.core.choice import ToolChoice
from ferrule.core.message import Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.input_items import items_body
from ferrule.dialects.openai_responses.tool_choice import choice_body, tool_body

_PARAMETERS = {"max_tokens": "max_output_tokens", "temperature": "temperature", "top_p": "top_p"}


def request_body(
    request: ToolCallRequest, *, model: str, stream: bool, reasoning: bool = False, strict: bool = False
) -> dict[str, Any]:
    """Return the body. `reasoning` includes that of earlier turns; `strict` asks the engine to enforce the schemas.

    Pass `narrow_tools(request)` for an engine that does not support `allowed_tools`.
    """
    instructions = _instructions(request)
    messages = request.messages if instructions is None else request.messages[1:]
    body: dict[str, Any] = {
        "model": model,
        "instructions": instructions,
        "input": items_body(messages, reasoning=reasoning),
        "tools": [tool_body(tool, strict=strict) for tool in request.tools] or None,
        "parallel_tool_calls": False if request.tools and not request.parallel_tool_calls else None,
        **{theirs: getattr(request, ours) for ours, theirs in _PARAMETERS.items()},
        "stream": stream,
        # The engine need not store anything: every request contains the whole conversation.
        "store": False,
    }
    if request.choice != ToolChoice.auto():
        request.choice.select_tools(request.tools)
        body["tool_choice"] = choice_body(request.choice)
    if request.response_schema is not None:
        format = {"type": "json_schema", "name": "response", "schema": request.response_schema, "strict": True}
        body["text"] = {"format": format}
    return {key: value for key, value in body.items() if value is not None}


def _instructions(request: ToolCallRequest) -> str | None:
    """Return the first message, if it is a system message with one text."""
    match request.messages[:1]:
        case (first,) if first.role is Role.SYSTEM and len(first.parts) == 1 and isinstance(first.parts[0], Text):
            return first.parts[0].text
        case _:
            return None
