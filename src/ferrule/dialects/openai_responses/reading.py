"""A client's body as a request. What the API allows and Ferrule cannot do is refused with its path, never dropped.

Items that belong to one turn of the assistant (reasoning, text, calls) become one message, in their order. A response
that is stored is the server's to look up: a body that still names one is refused.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.definition import read_tools
from ferrule.dialects.field import Field
from ferrule.dialects.openai_responses.choice import read_choice, read_tool
from ferrule.dialects.policy import read_policy

_ROLES = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_STORED = ("previous_response_id", "conversation", "prompt")
_TEXT_KINDS = ("input_text", "output_text", "text", "summary_text", "reasoning_text")


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """`DefinitionError` says where the body is wrong and what to send instead."""
    root = Field(body)
    for name in _STORED:
        if root[name].is_given:
            raise root[name].refusal("nothing is stored here under that name", "Send the whole conversation as input.")
    tools = read_tools(root["tools"], read_tool)
    choice = read_choice(root["tool_choice"])
    root["tool_choice"].made(lambda: choice.offered(tools))
    return ToolCallRequest(
        messages=_read_messages(root),
        tools=tools,
        tool_choice=choice,
        tool_choice_policy=read_policy(root),
        parallel_tool_calls=root["parallel_tool_calls"].or_else(Field.boolean, True),
        response_schema=_read_schema(root["text"]),
        model=root["model"].optional(Field.string),
        max_tokens=root["max_output_tokens"].optional(Field.integer),
        temperature=root["temperature"].optional(Field.number),
        top_p=root["top_p"].optional(Field.number),
    )


def _read_schema(config: Field) -> dict[str, Any] | None:
    if not config.is_given or not config["format"].is_given:
        return None
    format = config["format"]
    match format["type"].string():
        case "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            return format["schema"].object()
        case _:
            raise format["type"].refusal("is not known here", "Use text, json_object or json_schema.")


def _read_messages(root: Field) -> tuple[ChatMessage, ...]:
    messages = [ChatMessage.system(text)] if (text := root["instructions"].optional(Field.string)) is not None else []
    input = root["input"]
    if isinstance(input.value, str):
        return (*messages, ChatMessage.user(input.value))
    if not input.items():
        raise input.refusal("there is no input", "Send a string or a list with at least one item.")
    names: dict[str, str] = {}
    turn: list[Part] = []
    for item in input.items():
        role, parts = _read_item(item, names)
        names.update({part.id: part.name for part in parts if isinstance(part, ToolCall)})
        if role is Role.ASSISTANT:
            turn += parts
            continue
        if turn:
            messages.append(ChatMessage(Role.ASSISTANT, tuple(turn)))
            turn = []
        messages.append(ChatMessage(role, tuple(parts)))
    return (*messages, ChatMessage(Role.ASSISTANT, tuple(turn))) if turn else tuple(messages)


def _read_item(item: Field, names: dict[str, str]) -> tuple[Role, list[Part]]:
    match item["type"].or_else(Field.string, "message"):
        case "message":
            return item["role"].one_of(_ROLES), [Text(text) for text in _read_texts(item["content"])]
        case "reasoning":
            # The text itself where there is one, else what was told of it.
            thoughts = _read_texts(item["content"]) or _read_texts(item["summary"])
            return Role.ASSISTANT, [Reasoning("".join(thoughts))] if thoughts else []
        case "function_call":
            function = FunctionCall(item["name"].string(), item["arguments"].string())
            return Role.ASSISTANT, [ToolCall(item["call_id"].string(), function)]
        case "function_call_output":
            id = item["call_id"].string()
            if not item["output"].is_given:
                raise item["output"].refusal("is missing", "Send the result as a string or as a list of input_text.")
            return Role.TOOL, [ToolResult(id, names.get(id, ""), "".join(_read_texts(item["output"])))]
        case kind:
            hint = "Send messages, reasoning, function_call and function_call_output."
            raise item["type"].refusal(f"{kind[:60]!r} is not taken here", hint)


def _read_texts(field: Field) -> list[str]:
    if isinstance(field.value, str):
        return [field.value]
    return [_read_part(part) for part in field.items()]


def _read_part(part: Field) -> str:
    kind = part["type"].string()
    if kind == "refusal":
        return part["refusal"].string()
    if kind not in _TEXT_KINDS:
        raise part["type"].refusal(f"{kind[:60]!r} is not taken here", "Send text; images, audio and files are not.")
    return part["text"].string()
