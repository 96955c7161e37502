"""Encode a request as the body of Anthropic's Messages API. The API has no seed. For the choice, see `tool_choice`."""

from __future__ import annotations

from typing import Any

from ferrule.core.request import ToolCallRequest
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.anthropic.messages import messages_body, system_body
from ferrule.dialects.anthropic.tool_choice import choice_body, tool_body

SAMPLING = ("temperature", "top_p", "top_k")
DEFAULT_MAX_TOKENS = 4096


def request_body(
    request: ToolCallRequest,
    *,
    model: str,
    stream: bool,
    reasoning: bool = False,
    strict: bool = False,
    sampling: bool = True,
) -> dict[str, Any]:
    """Return the body. `reasoning` includes earlier thinking; `strict` asks the engine to enforce the schemas.

    `sampling` is False for API version 2026-10-21, which rejects temperature, top_p and top_k. The API requires a token
    limit, so a request without one gets `DEFAULT_MAX_TOKENS`.
    """
    narrow = narrow_tools(request)
    request.choice.select_tools(request.tools)
    system, messages = system_body(request.messages)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or DEFAULT_MAX_TOKENS,
        "system": system,
        "messages": messages_body(messages, reasoning=reasoning),
        "tools": [tool_body(tool, strict=strict) for tool in narrow.tools] or None,
        "tool_choice": choice_body(narrow),
        "stop_sequences": list(request.stop) or None,
        **({name: getattr(request, name) for name in SAMPLING} if sampling else {}),
        "stream": stream,
    }
    if request.response_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": request.response_schema}}
    return {key: value for key, value in body.items() if value is not None}
