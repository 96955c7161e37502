"""The body of `llm.chat@2.0`: that of OpenAI's chat API. No connection, no engine.

The specification writes calls, tools and choices without OpenAI's `function` around them; both spellings are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, cast

from ferrule.core.json_text import dumps
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.lenient_json import mapping
from ferrule.dialects.openai_chat import request_encoder
from ferrule.dialects.openai_chat.request_decoder import read_request

WIRE = "shows_wire"


def encode_body(request: ToolCallRequest) -> dict[str, Any]:
    """Return the body of a request. The model is the worker's, so the body names one only if the request does."""
    body = request_encoder.request_body(request, model=request.model or "", stream=True, reasoning=True)
    for name in ("stream", "stream_options", *(() if request.model else ("model",))):
        del body[name]
    return {**body, WIRE: True} if request.shows_wire else body


def decode_body(body: Mapping[str, Any]) -> ToolCallRequest:
    """Read a body. Raises `DefinitionError` for an invalid one."""
    spelled = {key: _SPELLINGS[key](value) if key in _SPELLINGS else value for key, value in body.items()}
    request = read_request(spelled)
    return replace(request, shows_wire=True) if body.get(WIRE) is True else request


_Spell = Callable[[dict[str, Any]], dict[str, Any]]


def _entries(value: Any, spell: _Spell) -> Any:
    if not isinstance(value, list):
        return value
    return [spell(cast("dict[str, Any]", one)) if isinstance(one, dict) else one for one in cast("list[Any]", value)]


def _message(message: dict[str, Any]) -> dict[str, Any]:
    calls = message.get("tool_calls")
    return message if calls is None else {**message, "tool_calls": _entries(calls, _call)}


def _call(call: dict[str, Any]) -> dict[str, Any]:
    if "function" in call or "name" not in call:
        return call
    arguments = call.get("arguments", {})
    function = {"name": call["name"], "arguments": arguments if isinstance(arguments, str) else dumps(arguments)}
    return {"id": call.get("id"), "type": "function", "function": function}


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    if "function" in tool or "name" not in tool:
        return tool
    parameters = tool.get("parameters", tool.get("parameters_schema"))
    function = {"name": tool["name"], "description": tool.get("description"), "parameters": parameters}
    return {"type": "function", "function": function}


def _choice(choice: Any) -> Any:
    # `mapping` is empty for a text, and for OpenAI's own form `name` is one level deeper.
    name = mapping(choice).get("name")
    return choice if name is None else {"type": "function", "function": {"name": name}}


_SPELLINGS: Mapping[str, Callable[[Any], Any]] = {
    "messages": partial(_entries, spell=_message),
    "tools": partial(_entries, spell=_tool),
    "tool_choice": _choice,
}
