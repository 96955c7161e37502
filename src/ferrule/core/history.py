"""Repair a conversation before a model reads it: earlier calls that are not JSON, and text that is not Unicode.

Clients keep what a model wrote and send it again with every request: also a call whose arguments were cut off, or text
that was cut inside an emoji. No template can render such a call, and no tokenizer can encode such text. A refusal would
be repeated for ever, so the model reads something valid that says what was there:

| in the conversation | what the model reads |
|---|---|
| arguments that are not a JSON object, or that nest too deeply | `{"INVALID_JSON": "the text"}` |
| empty arguments | `{}` |
| a name that no tool can have | the name with `_` for each character that is not allowed |
| half of a surrogate pair | U+FFFD |

Agent frameworks use the same member for arguments that they cannot read. Nothing is changed for the client: its own
conversation stays as it is, and a diagnostic of the answer says what was repaired.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.event import Diagnostic
from ferrule.core.json_text import dumps, loads_strict
from ferrule.core.media import Media
from ferrule.core.message import ChatMessage, Part, Reasoning
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition, is_tool_name

CODE = "history_repaired"
INVALID_JSON = "INVALID_JSON"
"""The member under which a model reads arguments that are not a JSON object."""
MAX_DEPTH = 64
"""How deeply arguments may nest: templates and encoders use the stack for each level."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_ESCAPED = re.compile(r"\\u[dD][89a-fA-F]")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.\-]")
_MAX_NAME = 128
_MAX_NOTES = 16


def readable_request(request: ToolCallRequest) -> tuple[ToolCallRequest, tuple[Diagnostic, ...]]:
    """Return the request as a model can read it, and a diagnostic for each repair.

    Parts without a fault are returned as they are. Schemas are not repaired: admission refuses what has no encoding.
    """
    notes: dict[str, None] = {}
    messages = readable_messages(request.messages, notes)
    tools = tuple(_repair_tool(tool, notes) for tool in request.tools)
    if not notes:
        return request, ()
    diagnostics = [Diagnostic(CODE, note) for note in list(notes)[:_MAX_NOTES]]
    if len(notes) > _MAX_NOTES:
        diagnostics.append(Diagnostic(CODE, f"{len(notes) - _MAX_NOTES} more parts of the conversation were repaired"))
    return replace(request, messages=messages, tools=tools), tuple(diagnostics)


def readable_messages(messages: Iterable[ChatMessage], notes: dict[str, None] | None = None) -> tuple[ChatMessage, ...]:
    """Return the messages as a model can read them. What was repaired is added to the keys of `notes`."""
    repairs: dict[str, None] = {} if notes is None else notes
    return tuple(_repair_message(message, repairs) for message in messages)


def without_surrogates(text: str) -> str:
    """Return the text with U+FFFD for each half of a surrogate pair, which has no encoding."""
    if is_encodable(text):
        return text
    return _SURROGATE.sub("\ufffd", text)


def is_encodable(text: str) -> bool:
    """Whether a text has an encoding: whether it contains no half of a surrogate pair."""
    # Python knows whether a text is ASCII without looking at it.
    return text.isascii() or _SURROGATE.search(text) is None


def _repair_message(message: ChatMessage, notes: dict[str, None]) -> ChatMessage:
    parts = tuple(_repair_part(part, message.role.value, notes) for part in message.parts)
    is_changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
    return replace(message, parts=parts) if is_changed else message


def _repair_tool(tool: ToolDefinition, notes: dict[str, None]) -> ToolDefinition:
    if is_encodable(tool.description):
        return tool
    notes[f"the description of {tool.name} has half of a surrogate pair; the model reads U+FFFD there"] = None
    return replace(tool, description=without_surrogates(tool.description))


def _repair_part(part: Part, role: str, notes: dict[str, None]) -> Part:
    match part:
        case ToolCall():
            return _repair_call(part, notes) if part.complete else part
        case ToolResult():
            return _repair_result(part, notes)
        case Media():
            return _repair_media(part, notes)
        case Reasoning() if not is_encodable(part.signature + part.encrypted):
            notes[f"reasoning of the {role} has a signature that no provider can have made; it is left out"] = None
            return _repair_part(Reasoning(part.text), role, notes)
        case _ if is_encodable(part.text):
            return part
        case _:
            notes[f"a message of the {role} has half of a surrogate pair; the model reads U+FFFD there"] = None
            return replace(part, text=without_surrogates(part.text))


def _repair_result(result: ToolResult, notes: dict[str, None]) -> ToolResult:
    texts = (result.tool_call_id, result.name, result.text)
    media = tuple(_repair_media(one, notes) for one in result.media)
    if all(map(is_encodable, texts)):
        is_changed = any(new is not old for new, old in zip(media, result.media, strict=True))
        return ToolResult(*texts[:2], result.content, result.is_error, media=media) if is_changed else result
    notes[f"the result of {result.name!r:.140} has half of a surrogate pair; the model reads U+FFFD there"] = None
    id, name, text = map(without_surrogates, texts)
    return ToolResult(id, name, text, result.is_error, media=media)


def _repair_media(media: Media, notes: dict[str, None]) -> Media:
    if is_encodable(f"{media.name}{media.media_type}{media.url}{media.file_id}{media.detail}"):
        return media
    notes[f"the name of the {media.kind.value} has half of a surrogate pair; the model reads U+FFFD there"] = None
    # The data is base64, and so ASCII.
    return Media.from_dict({name: without_surrogates(value) for name, value in media.as_dict().items()})


def _repair_call(call: ToolCall, notes: dict[str, None]) -> ToolCall:
    name, arguments = call.name, call.function.arguments
    if not is_tool_name(name):
        name = _NOT_IN_NAMES.sub("_", name)[:_MAX_NAME]
        name = name if is_tool_name(name) else f"_{name}"[:_MAX_NAME]
        notes[f"an earlier call has the name {call.name!r:.140}, which no tool can have; the model reads {name}"] = None
    text, note = _repair_arguments(arguments)
    if note:
        notes[f"the arguments of an earlier call of {name} {note}"] = None
    id = without_surrogates(call.id)
    if id != call.id:
        notes[f"the id of an earlier call of {name} has half of a surrogate pair; the model reads U+FFFD there"] = None
    if (id, name, text) == (call.id, call.name, arguments):
        return call
    return replace(call, id=id, function=FunctionCall(name, text))


def _repair_arguments(text: str) -> tuple[str, str]:
    """Return arguments that can be rendered, and what was wrong with them; nothing if they are returned unchanged."""
    if not text.strip():
        return "{}", "are empty; the model reads {}"
    if not is_encodable(text):
        # Raw, not escaped: JSON text that has no encoding.
        text = without_surrogates(text)
        return _repair_arguments(text)[0], "have half of a surrogate pair; the model reads U+FFFD there"
    try:
        value = loads_strict(text)
    except (ValueError, RecursionError):
        return _wrapped(text), f"are not JSON; the model reads them as text, under {INVALID_JSON}"
    if type(value) is not dict:
        return _wrapped(text), f"are not an object; the model reads them as text, under {INVALID_JSON}"
    arguments = cast("dict[str, Any]", value)
    if text.count("{") + text.count("[") > MAX_DEPTH and _is_deeper(arguments, MAX_DEPTH):
        return _wrapped(text), f"nest more than {MAX_DEPTH} deep; the model reads them as text, under {INVALID_JSON}"
    if _ESCAPED.search(text) and not is_encodable(plain := dumps(arguments)):
        return without_surrogates(plain), "have half of a surrogate pair; the model reads U+FFFD there"
    return text, ""


def _wrapped(text: str) -> str:
    return dumps({INVALID_JSON: text})


def _is_deeper(value: object, depth: int) -> bool:
    """Whether a value nests more deeply, looked at level by level and without the stack."""
    level = [value]
    for _ in range(depth):
        level = [inner for outer in level for inner in _inner(outer)]
        if not level:
            return False
    return True


def _inner(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return cast("dict[str, Any]", value).values()
    return cast("list[Any]", value) if isinstance(value, list) else ()
