"""Encode a request as the body of Anthropic's Messages API. The API has no seed. For the choice, see `tool_choice`."""

from __future__ import annotations

from typing import Any

from ferrule.core.request import ToolCallRequest
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.anthropic.messages import messages_body, system_body
from ferrule.dialects.anthropic.passthrough import client_body_of, pass_on
from ferrule.dialects.anthropic.search_blocks import declaration
from ferrule.dialects.anthropic.tool_choice import choice_body, tool_body

SAMPLING = ("temperature", "top_p", "top_k")
DEFAULT_MAX_TOKENS = 4096
_COUNTED = frozenset(
    {
        "cache_control",
        "context_management",
        "messages",
        "model",
        "output_config",
        "system",
        "thinking",
        "tool_choice",
        "tools",
    }
)
"""The fields of a token count (`MessageCountTokensParams` of the SDK)."""


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
        "messages": messages_body(messages, reasoning=reasoning, searches=request.tool_search is not None),
        "tools": _tools(narrow, strict=strict) or None,
        "tool_choice": choice_body(narrow),
        "stop_sequences": list(request.stop) or None,
        **({name: getattr(request, name) for name in SAMPLING} if sampling else {}),
        "stream": stream,
    }
    if request.response_schema is not None:
        body["output_config"] = {"format": {"type": "json_schema", "schema": request.response_schema}}
    client = client_body_of(request)
    if client is not None:
        pass_on(body, request, client, reasoning=reasoning)
    return {key: value for key, value in body.items() if value is not None}


def _tools(request: ToolCallRequest, *, strict: bool) -> list[dict[str, Any]]:
    """Return the tools, with the search that the client declared: an engine that gets one carries it out."""
    search = request.tool_search
    tools = [tool_body(tool, strict=strict) for tool in request.tools]
    if search is None or not any(tool.name in search.deferred for tool in request.tools):
        return tools
    later = [{**tool, "defer_loading": True} if tool["name"] in search.deferred else tool for tool in tools]
    return [declaration(search), *later]


def count_request_body(
    request: ToolCallRequest, *, model: str, reasoning: bool = False, strict: bool = False
) -> dict[str, Any]:
    """Return the body of a token count: what is read and not what is generated."""
    body = request_body(request, model=model, stream=False, reasoning=reasoning, strict=strict)
    return {name: value for name, value in body.items() if name in _COUNTED}


def request_headers(request: ToolCallRequest) -> dict[str, str]:
    """Return the headers that belong to the body: the client's own betas, without which its fields are refused."""
    client = client_body_of(request)
    return dict(client.headers) if client is not None else {}
