"""Decode a client's body into a request, for both versions of the API.

A field that nobody reads is reported, or refused if it must not be left out: see `ignored_fields`. Images and documents
are parts of a user's message and of a tool result. References to tools in a tool result load these tools, and are read
as a sentence about them; anything else in a result is read as its JSON. The searches of an earlier answer
(`server_tool_use` and `tool_search_tool_result`) become searches among the messages, if the request declares the search
still; otherwise what they found is loaded.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.client_body import ClientBody
from ferrule.core.event import ToolSearch
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning, Role, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool_search import read_search
from ferrule.dialects.anthropic.media import KINDS, read_media
from ferrule.dialects.anthropic.passthrough import API
from ferrule.dialects.anthropic.published_tools import TOOL_SEARCH
from ferrule.dialects.anthropic.search_blocks import search_id
from ferrule.dialects.anthropic.tool_choice import read_choice
from ferrule.dialects.anthropic.tool_list import ToolList
from ferrule.dialects.field import Field
from ferrule.dialects.ignored_fields import MESSAGES, ignored_fields, tracked
from ferrule.dialects.tool_definitions import read_policy

_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_REFERENCE = "tool_reference"
_HINT = "Send text. A user's message may also have image, document and tool_result."


def read_request(body: dict[str, Any]) -> ToolCallRequest:
    """Read a request. Raises `DefinitionError` for an invalid body. `max_tokens` is optional, for token counts."""
    root = tracked(body)
    tools = ToolList.read(root["tools"])
    # Messages load deferred tools.
    messages = _read_messages(root, tools)
    choice, parallel = read_choice(root["tool_choice"])
    (root["tool_choice"] if root["tool_choice"].is_given else root["tools"]).build(lambda: tools.check_choice(choice))
    fields: dict[str, Any] = {
        "messages": messages,
        "tools": tools.offered,
        "tool_choice": choice,
        "tool_choice_policy": read_policy(root),
        "parallel_tool_calls": parallel,
        "response_schema": _read_schema(root["output_config"]),
        "model": root["model"].optional(Field.string),
        "max_tokens": root["max_tokens"].optional(Field.positive),
        "temperature": root["temperature"].optional(Field.number),
        "top_p": root["top_p"].optional(Field.number),
        "top_k": root["top_k"].optional(Field.integer),
        "stop": tuple(entry.string() for entry in root["stop_sequences"].items()),
        "tool_search": tools.search,
        "client_body": ClientBody(API, body, messages, tools.offered),
    }
    return ToolCallRequest(**fields, ignored=ignored_fields(root, MESSAGES))


def _read_schema(config: Field) -> dict[str, Any] | None:
    if not config.is_given or not config["format"].is_given:
        return None
    format = config["format"]
    if format["type"].string() != "json_schema":
        raise format["type"].refusal("unknown format", "Use json_schema.")
    return format["schema"].object()


def _read_messages(root: Field, tools: ToolList) -> tuple[ChatMessage, ...]:
    system = tuple(Text(text) for text in _read_texts(root["system"]))
    entries = root["messages"].items()
    if not entries:
        raise root["messages"].refusal("there is no message", "Send at least one, such as a user's.")
    names: dict[str, str] = {}
    messages = [ChatMessage(Role.SYSTEM, system)] if system else []
    for entry in entries:
        role = entry["role"].one_of(_ROLES)
        parts: list[Part] = []
        searches = _Searches(tools)
        for block in _blocks(entry["content"]):
            if role is Role.ASSISTANT and searches.read(block, len(parts)):
                continue
            parts += _read_block(block, role, names, tools)
        for part in parts:
            if isinstance(part, ToolCall):
                names[part.id] = part.name
                tools.load_called(part.name)
        messages += searches.messages(parts) if searches.answered else _messages(role, parts)
    return tuple(messages)


@dataclass(slots=True)
class _Searches:
    """The searches in one message of the assistant."""

    tools: ToolList
    answered: list[tuple[int, ToolSearch]] = field(default_factory=list[tuple[int, ToolSearch]])
    """Each with its place: the number of parts before it."""
    _open: dict[str, tuple[int, Field]] = field(default_factory=dict[str, tuple[int, Field]])

    def read(self, block: Field, place: int) -> bool:
        """Read a block of a search. Returns False for any other."""
        match block["type"].value:
            case "server_tool_use" if block["name"].value in TOOL_SEARCH:
                block["input"].object()
                self._open[block["id"].string()] = (place, block)
            case "tool_search_tool_result":
                self._answer(block)
            case _:
                return False
        return True

    def _answer(self, block: Field) -> None:
        id, content = block["tool_use_id"].string(), block["content"]
        if content["type"].string() == "tool_search_tool_result_error":
            error = content["error_code"].string()
            content["error_message"].optional(Field.string)
            found: tuple[str, ...] = ()
        else:
            error = ""
            entries = content["tool_references"].items()
            found = tuple(entry["tool_name"].string() for entry in entries if entry["type"].string() == _REFERENCE)
        name = self.tools.search_name
        if not name:
            self.tools.load(found)
        elif id in self._open:
            place, call = self._open.pop(id)
            query = call["input"]["query"].value
            search = read_search(
                name, search_id(id), call["input"].json(), query if isinstance(query, str) else "", found, error
            )
            self.answered.append((place, search))

    def messages(self, parts: list[Part]) -> list[ChatMessage]:
        reply = Reply(cast("tuple[ReplyPart, ...]", tuple(parts)), searches=tuple(self.answered))
        return [message for message in reply.as_messages() if message.parts]


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


def _read_block(block: Field, role: Role, names: dict[str, str], tools: ToolList) -> list[Part]:
    match (role, block["type"].string()):
        case (_, "text"):
            return [Text(block["text"].string())]
        case (Role.ASSISTANT, "thinking"):
            return [Reasoning(block["thinking"].string(), block["signature"].or_else(Field.string, ""))]
        case (Role.ASSISTANT, "redacted_thinking"):
            # Only Anthropic's own models can read it.
            block["type"].leave_out("redacted_thinking")
            return [Reasoning("", encrypted=block["data"].string())]
        case (Role.ASSISTANT, "tool_use"):
            block["input"].object()
            return [ToolCall(block["id"].string(), FunctionCall(block["name"].string(), block["input"].json()))]
        case (Role.USER, kind) if kind in KINDS:
            return [*read_media(block, kind)]
        case (Role.USER, "tool_result"):
            return [_read_result(block, names, tools)]
        case (Role.SYSTEM, "tool_addition" | "tool_removal"):
            return [Text(tools.change(block))]
        case (_, kind):
            raise block["type"].refusal(f"{kind[:60]!r} is not supported from the {role}", _HINT)


def _read_result(block: Field, names: dict[str, str], tools: ToolList) -> ToolResult:
    id, content = block["tool_use_id"].string(), block["content"]
    if isinstance(content.value, str):
        parts: list[Text | Media] = [Text(content.value)]
        loaded = ""
    else:
        entries = content.items()
        loaded = tools.load(part["tool_name"].string() for part in entries if part["type"].value == _REFERENCE)
        others = [entry for entry in entries if entry["type"].value != _REFERENCE]
        parts = [part for entry in others for part in _read_result_part(entry)]
    text = "".join(part.text for part in parts if isinstance(part, Text))
    text = "\n".join(one for one in (text, loaded) if one)
    media = [part for part in parts if isinstance(part, Media)]
    is_error = block["is_error"].or_else(Field.boolean, False)
    return ToolResult(id, names.get(id, ""), text, is_error, media=media)


def _read_result_part(part: Field) -> list[Text | Media]:
    match part["type"].string():
        case "text":
            return [Text(part["text"].string())]
        case kind if kind in KINDS:
            return read_media(part, kind)
        case _:
            return [Text(part.json())]


def _read_texts(field: Field) -> list[str]:
    if isinstance(field.value, str):
        return [field.value]
    return [block["text"].string() for block in field.items()]
