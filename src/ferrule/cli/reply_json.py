"""Replies as JSON: the output of `parse` and the input of `render`. It knows nothing of formats."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import cast

from ferrule.cli.json_view import Verbatim
from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    ToolSearch,
    WireText,
)
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart
from ferrule.errors import DefinitionError
from ferrule.schema.notation import JSON
from ferrule.schema.value_text import loads_verbatim, write_value

_SHAPES = (
    'Write {"parts": [{"kind": "text" or "reasoning", "text"}, {"kind": "call", "name", "arguments"}]} '
    'or {"reasoning", "text", "calls": [{"name", "arguments"}]}.'
)
_EVENTS: dict[type[Event], str] = {
    TextDelta: "text",
    ReasoningDelta: "reasoning",
    CallStart: "call_start",
    ArgumentsDelta: "arguments",
    CallEnd: "call_end",
    Diagnostic: "diagnostic",
    Finish: "finish",
    RuleShown: "rule",
    WireText: "wire",
    ToolSearch: "tool_search",
}


def event_as_dict(event: Event) -> dict[str, object]:
    fields = asdict(event)
    # Which tools were loaded is for programs that count: JSON has no sets.
    fields.pop("loaded", None)
    return {"event": _EVENTS[event.__class__], **fields}


def reply_as_dict(reply: Reply) -> dict[str, object]:
    return {
        "parts": [_part_as_dict(part) for part in reply.parts],
        "finish_reason": reply.finish_reason.value,
        "diagnostics": [asdict(diagnostic) for diagnostic in reply.diagnostics],
    }


def _part_as_dict(part: ReplyPart) -> dict[str, object]:
    match part:
        case Text(text):
            return {"kind": "text", "text": text}
        case Reasoning(text):
            return {"kind": "reasoning", "text": text}
        case ToolCall(id, FunctionCall(name, arguments)):
            value = Verbatim(arguments) if _is_object(arguments) else arguments
            return {"kind": "call", "id": id, "name": name, "arguments": value, "complete": part.complete}


def _is_object(json_text: str) -> bool:
    try:
        return isinstance(loads_verbatim(json_text), dict)
    except ValueError:
        return False


@dataclass(frozen=True, slots=True)
class ReplyDocument:
    """A reply from JSON. `is_ordered` means that the JSON gives the order of the parts."""

    reply: Reply
    is_ordered: bool


def reply_from_json(text: str) -> ReplyDocument:
    """Read a reply. Diagnostics and the finish reason are ignored, because they have no text to render."""
    try:
        value = _object(loads_verbatim(text), "the reply")
        return ReplyDocument(Reply(tuple(_part(entry) for entry in _entries(value))), "parts" in value)
    except RecursionError as refusal:
        raise DefinitionError("the reply is nested too deeply") from refusal
    except ValueError as refusal:
        raise DefinitionError(f"the reply is not JSON ({refusal})", hint=_SHAPES) from refusal


def _entries(value: dict[str, object]) -> list[dict[str, object]]:
    if "parts" in value:
        return [_object(entry, "a part") for entry in _list(value["parts"], "parts")]
    if not value.keys() & {"text", "reasoning", "calls"}:
        raise DefinitionError("the reply has no parts, text, reasoning or calls", hint=_SHAPES)
    texts: list[dict[str, object]] = [
        {"kind": kind, "text": value[kind]} for kind in ("reasoning", "text") if value.get(kind)
    ]
    calls = [_object(entry, "a call") for entry in _list(value.get("calls") or [], "calls")]
    return [*texts, *({**call, "kind": "call"} for call in calls)]


def _part(entry: dict[str, object]) -> ReplyPart:
    match entry.get("kind"):
        case "text":
            return Text(_string(entry, "text"))
        case "reasoning":
            return Reasoning(_string(entry, "text"))
        case "call":
            id = _string(entry, "id") if entry.get("id") is not None else ""
            function = FunctionCall(_string(entry, "name"), _arguments(entry.get("arguments", {})))
            return ToolCall(id, function, complete=entry.get("complete", True) is True)
        case unknown:
            raise DefinitionError(f"a part has the unknown kind {unknown!r}", hint=_SHAPES)


def _string(entry: dict[str, object], key: str) -> str:
    value = entry.get(key)
    # Numbers are read as a subclass of str that keeps their spelling, so compare the class itself.
    if value.__class__ is not str:
        raise DefinitionError(f"the {key} of a {entry['kind']} part is not a string", hint=_SHAPES)
    return cast(str, value)


def _arguments(value: object) -> str:
    """Arguments may also be JSON text, as in the OpenAI API. A truncated call has them as text."""
    return value if isinstance(value, str) else write_value(value, JSON)


def _object(value: object, what: str) -> dict[str, object]:
    if not isinstance(value, dict):
        raise DefinitionError(f"{what} is not an object", hint=_SHAPES)
    return cast("dict[str, object]", value)


def _list(value: object, what: str) -> list[object]:
    if not isinstance(value, list):
        raise DefinitionError(f"{what} is not a list", hint=_SHAPES)
    return cast("list[object]", value)
