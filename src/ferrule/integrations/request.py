"""Asked: what a framework asks a model for, in the words of OpenAI's chat API or nearly, as a request of ours.

Knows no framework. What the words allow and no engine of ours does is refused with its path; words that nobody here
knows are passed over, for frameworks send many along.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ferrule.core.choice import ToolChoice
from ferrule.core.message import ChatMessage
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.choice_policy import read_policy
from ferrule.dialects.field import Field
from ferrule.dialects.openai_chat.parameters import read_parameters
from ferrule.dialects.openai_chat.tool_choice import read_choice, read_tool
from ferrule.dialects.tool_definitions import read_tools

_CHOICES: dict[str | bool, ToolChoice] = {
    "auto": ToolChoice.auto(),
    "none": ToolChoice.none(),
    "any": ToolChoice.required(),
    "required": ToolChoice.required(),
    True: ToolChoice.required(),
    False: ToolChoice.none(),
}


def request_of(messages: Iterable[ChatMessage], words: Mapping[str, Any]) -> ToolCallRequest:
    """`DefinitionError` says which word is wrong and what to send instead. None counts as left out."""
    asked = Field(dict(words))
    return ToolCallRequest(
        messages=tuple(messages),
        tools=read_tools(asked["tools"], read_tool),
        tool_choice=_choice(asked["tool_choice"]),
        tool_choice_policy=read_policy(asked),
        parallel_tool_calls=asked["parallel_tool_calls"].or_else(Field.boolean, True),
        response_schema=_response_schema(asked["response_format"]),
        **read_parameters(asked),
    )


def _choice(field: Field) -> ToolChoice:
    """A word, what OpenAI's API takes, or the name of a tool alone."""
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
            raise format["type"].refusal("is not known here", "Use text, json_object or json_schema.")
