"""Decode a client's body into a request. Unsupported features of the API are refused with their path, never dropped.

A field that nobody reads is reported, or refused if it must not be left out: see `ignored_fields`.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.json_text import canonical
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.engine_options import read_chat_options
from ferrule.dialects.field import Field
from ferrule.dialects.ignored_fields import CHAT, ignored_fields, tracked
from ferrule.dialects.openai_chat.media import KINDS, read_media
from ferrule.dialects.openai_chat.parameters import read_parameters
from ferrule.dialects.openai_chat.tool_choice import read_choice, read_function, read_function_call, read_tool
from ferrule.dialects.tool_definitions import read_policy, read_tools

_ROLES = {
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """Read a request. Raises `DefinitionError` for an invalid body, with the path and what to send instead."""
    root = tracked(body)
    if root["n"].or_else(Field.integer, 1) != 1:
        raise root["n"].refusal("only 1 is supported", "Leave n out, and send the request again for another answer.")
    messages = _read_messages(root["messages"])
    uses_functions = root["functions"].is_given and not root["tools"].is_given
    if uses_functions:
        tools = read_tools(root["functions"], read_function)
        choice = read_function_call(root["function_call"])
    else:
        tools = read_tools(root["tools"], read_tool)
        choice = read_choice(root["tool_choice"])
    root["tool_choice"].build(lambda: choice.select_tools(tools))
    # The older fields support only one call.
    parallel = False if uses_functions else root["parallel_tool_calls"].or_else(Field.boolean, True)
    fields: dict[str, Any] = {
        "messages": messages,
        "tools": tools,
        "tool_choice": choice,
        "tool_choice_policy": read_policy(root),
        "parallel_tool_calls": parallel,
        "response_schema": _read_schema(root),
        "model": root["model"].optional(Field.string),
        "engine_options": read_chat_options(body),
        **read_parameters(root),
    }
    return ToolCallRequest(**fields, ignored=ignored_fields(root, CHAT))


def uses_functions(body: dict[str, Any]) -> bool:
    """Whether the client uses the older API, and so reads `function_call` and not `tool_calls` in the answer."""
    return body.get("functions") is not None and body.get("tools") is None


def wants_usage(body: dict[str, Any]) -> bool:
    options = Field(body)["stream_options"]
    return options.is_given and options["include_usage"].or_else(Field.boolean, False)


def _read_schema(root: Field) -> dict[str, Any] | None:
    format, guided = root["response_format"], root["guided_json_schema"]
    response_schema: dict[str, Any] | None = None
    if format.is_given:
        match format["type"].string():
            case "text":
                pass
            case "json_object":
                response_schema = {"type": "object"}
            case "json_schema":
                response_schema = format["json_schema"]["schema"].or_else(Field.object, {"type": "object"})
            case _:
                raise format["type"].refusal("unknown format", "Use text, json_object or json_schema.")
    schema = guided.optional(Field.object)
    if (
        response_schema is not None
        and schema is not None
        and _canonical(format, response_schema) != _canonical(guided, schema)
    ):
        raise guided.refusal("differs from response_format", "Send only one of the two.")
    return response_schema if schema is None else schema


def _canonical(field: Field, schema: dict[str, Any]) -> str:
    # Refuses a number that no float can hold, such as 1e999.
    Field(schema, field.path).json()
    return canonical(schema)


def _read_messages(field: Field) -> tuple[ChatMessage, ...]:
    if not field.items():
        raise field.refusal("there is no message", "Send at least one, such as a user's.")
    names: dict[str, str] = {}
    messages: list[ChatMessage] = []
    for at, entry in enumerate(field.items()):
        message = _read_message(entry, names, at)
        names.update({call.id: call.name for call in message.tool_calls})
        messages.append(message)
    return tuple(messages)


def _read_message(field: Field, names: dict[str, str], at: int) -> ChatMessage:
    role = field["role"].one_of(_ROLES)
    if field["role"].value == "function":
        name = field["name"].string()
        call_id = next((id for id, call_name in reversed(names.items()) if call_name == name), name)
        return _tool_message(call_id, name, field["content"])
    if role is Role.TOOL:
        id = field["tool_call_id"].string()
        own_name = field["name"].or_else(Field.string, "")
        return _tool_message(id, names.get(id) or own_name, field["content"])
    if role is Role.USER:
        return ChatMessage(role, tuple(_read_parts(field["content"])))
    texts = tuple(Text(text) for text in _read_texts(field["content"]))
    if role is not Role.ASSISTANT:
        return ChatMessage(role, texts)
    text_parts: tuple[Part, ...] = () if texts == (Text(""),) else texts
    content, reasoning = field["reasoning_content"], field["reasoning"]
    thought = content.or_else(Field.string, "") or reasoning.or_else(Field.string, "")
    calls = [_read_call(entry) for entry in field["tool_calls"].items()]
    old = field["function_call"]
    if old.is_given:
        calls.append(ToolCall(f"call_{at}", _read_function_call(old)))
    return ChatMessage(role, ((Reasoning(thought),) if thought else ()) + text_parts + tuple(calls))


def _tool_message(id: str, name: str, content: Field) -> ChatMessage:
    parts = _read_parts(content)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    media = [part for part in parts if isinstance(part, Media)]
    return ChatMessage(Role.TOOL, (ToolResult(id, name, text, media=media),))


def _read_parts(field: Field) -> list[Text | Media]:
    """Read what a user or a tool may send: text, images, recordings and files."""
    if not isinstance(field.value, list):
        return [Text(text) for text in _read_texts(field)]
    return [
        read_media(part, kind) if (kind := part["type"].string()) in KINDS else Text(_read_part(part))
        for part in field.items()
    ]


def _read_texts(field: Field) -> list[str]:
    if not field.is_given:
        return []
    if isinstance(field.value, str):
        return [field.value]
    return [_read_part(part) for part in field.items()]


def _read_part(field: Field) -> str:
    match field["type"].string():
        case "text":
            return field["text"].string()
        case "refusal":
            return field["refusal"].string()
        case kind:
            raise field["type"].refusal(
                f"{kind[:60]!r} is not supported",
                f"Send text. A user's or a tool's message may also have {', '.join(KINDS)}.",
            )


def _read_call(field: Field) -> ToolCall:
    if field["type"].or_else(Field.string, "function") != "function":
        raise field["type"].refusal("unknown type of call", "Send function calls.")
    return ToolCall(field["id"].string(), _read_function_call(field["function"]))


def _read_function_call(field: Field) -> FunctionCall:
    return FunctionCall(field["name"].string(), field["arguments"].string())
