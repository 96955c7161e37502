"""A request as the body that an engine with Anthropic's Messages API takes.

The API has no seed. How each choice is said, `choice` tells.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.request import ToolCallRequest
from ferrule.dialects.allowed_tools import narrowed
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
    """`sampling` is False for API version 2026-10-21, which refuses temperature, top_p and top_k; `reasoning` sends
    earlier thinking back; `strict` asks the engine to hold arguments to the schemas. The token limit must be sent, so
    a request without one gets `DEFAULT_MAX_TOKENS`.
    """
    narrow = narrowed(request)
    request.choice.offered(request.tools)
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
