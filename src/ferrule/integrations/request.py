"""Builds a `ToolCallRequest` from a framework's options, which are (nearly) those of OpenAI's chat API.

It depends on no framework. An option that no engine supports is refused with its path. Unknown options are ignored,
because frameworks send many.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.dialects.field import Field
from ferrule.dialects.openai_chat.parameters import read_parameters
from ferrule.dialects.openai_chat.tool_choice import read_choice, read_tool
from ferrule.dialects.tool_definitions import read_policy, read_tools

_CHOICES: dict[str | bool, ToolChoice] = {
    "auto": ToolChoice.auto(),
    "none": ToolChoice.none(),
    "any": ToolChoice.required(),
    "required": ToolChoice.required(),
    True: ToolChoice.required(),
    False: ToolChoice.none(),
}


def request_of(messages: Iterable[ChatMessage], words: Mapping[str, Any]) -> ToolCallRequest:
    """Build a request. Raises `DefinitionError` with the invalid option and a fix. None counts as left out."""
    request = Field(dict(words))
    return ToolCallRequest(
        messages=tuple(messages),
        tools=read_tools(request["tools"], read_tool),
        tool_choice=_choice(request["tool_choice"]),
        tool_choice_policy=read_policy(request),
        parallel_tool_calls=request["parallel_tool_calls"].or_else(Field.boolean, True),
        response_schema=_response_schema(request["response_format"]),
        **read_parameters(request),
    )


def _choice(field: Field) -> ToolChoice:
    """A mode, a value of OpenAI's API, or the name of a tool."""
    if isinstance(field.value, str | bool):
        return _CHOICES.get(field.value) or ToolChoice.one(str(field.value))
    return read_choice(field)


def _response_schema(format: Field) -> dict[str, Any] | None:
    if not format.is_given:
        return None
    match format["type"].string():
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            return format["json_schema"]["schema"].object()
        case _:
            raise format["type"].refusal("is not supported", "Use text, json_object or json_schema.")
