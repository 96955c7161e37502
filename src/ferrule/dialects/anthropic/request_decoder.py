"""Decode a client's body into a request, for both versions of the API.

Unknown fields are ignored, because Claude Code sends some. A tool result that is not text is read as its JSON. Images
and documents are refused.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.anthropic.tool_choice import read_choice, read_tool
from ferrule.dialects.field import Field
from ferrule.dialects.tool_definitions import read_policy, read_tools

_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_TEXT_ONLY = "Send text; images and documents are not supported."


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """Read a request. Raises `DefinitionError` for an invalid body. `max_tokens` is optional, for token counts."""
    root = Field(body)
    tools = read_tools(root["tools"], read_tool)
    choice, parallel = read_choice(root["tool_choice"])
    root["tool_choice"].build(lambda: choice.select_tools(tools))
    return ToolCallRequest(
        messages=_read_messages(root),
        tools=tools,
        tool_choice=choice,
        tool_choice_policy=read_policy(root),
        parallel_tool_calls=parallel,
        response_schema=_read_schema(root["output_config"]),
        model=root["model"].optional(Field.string),
        max_tokens=root["max_tokens"].optional(Field.positive),
        temperature=root["temperature"].optional(Field.number),
        top_p=root["top_p"].optional(Field.number),
        top_k=root["top_k"].optional(Field.integer),
        stop=tuple(entry.string() for entry in root["stop_sequences"].items()),
    )


def _read_schema(config: Field) -> dict[str, Any] | None:
    if not config.is_given or not config["format"].is_given:
        return None
    format = config["format"]
    if format["type"].string() != "json_schema":
        raise format["type"].refusal("unknown format", "Use json_schema.")
    return format["schema"].object()


def _read_messages(root: Field) -> tuple[ChatMessage, ...]:
    system = tuple(Text(text) for text in _read_texts(root["system"]))
    entries = root["messages"].items()
    if not entries:
        raise root["messages"].refusal("there is no message", "Send at least one, such as a user's.")
    names: dict[str, str] = {}
    messages = [ChatMessage(Role.SYSTEM, system)] if system else []
    for entry in entries:
        role = entry["role"].one_of(_ROLES)
        parts = [part for block in _blocks(entry["content"]) for part in _read_block(block, role, names)]
        names.update({part.id: part.name for part in parts if isinstance(part, ToolCall)})
        messages += _messages(role, parts)
    return tuple(messages)


def _messages(role: Role, parts: list[Part]) -> list[ChatMessage]:
    """Return the messages of a turn. Each tool result becomes a message of its own, in order."""
    turns: list[ChatMessage] = []
    run: list[Part] = []
    for part in parts:
        if isinstance(part, ToolResult):
            turns += [ChatMessage(role, tuple(run))] if run else []
            turns.append(ChatMessage(Role.TOOL, (part,)))
            run = []
        else:
            run.append(part)
    return [*turns, ChatMessage(role, tuple(run))] if run or not turns else turns


def _blocks(content: Field) -> list[Field]:
    if isinstance(content.value, str):
        return [Field({"type": "text", "text": content.value}, content.path)]
    if not content.is_given:
        raise content.refusal("is missing", "Send a string or a list of blocks.")
    return content.items()


def _read_block(block: Field, role: Role, names: dict[str, str]) -> list[Part]:
    match (role, block["type"].string()):
        case (_, "text"):
            return [Text(block["text"].string())]
        case (Role.ASSISTANT, "thinking"):
            return [Reasoning(block["thinking"].string())]
        case (Role.ASSISTANT, "redacted_thinking"):
            # Encrypted: only Anthropic's own models can read it.
            return []
        case (Role.ASSISTANT, "tool_use"):
            block["input"].object()
            return [ToolCall(block["id"].string(), FunctionCall(block["name"].string(), block["input"].json()))]
        case (Role.USER, "tool_result"):
            return [_read_result(block, names)]
        case (_, kind):
            raise block["type"].refusal(f"{kind[:60]!r} is not supported from the {role}", _TEXT_ONLY)


def _read_result(block: Field, names: dict[str, str]) -> ToolResult:
    id, content = block["tool_use_id"].string(), block["content"]
    text = content.value if isinstance(content.value, str) else "".join(_result_text(part) for part in content.items())
    return ToolResult(id, names.get(id, ""), text, block["is_error"].or_else(Field.boolean, False))


def _result_text(part: Field) -> str:
    match part["type"].string():
        case "text":
            return part["text"].string()
        case "image" | "document":
            raise part["type"].refusal("is not supported", _TEXT_ONLY)
        case _:
            return part.json()


def _read_texts(field: Field) -> list[str]:
    if isinstance(field.value, str):
        return [field.value]
    return [block["text"].string() for block in field.items()]
