"""Encode frames as JSON objects and decode them, in both directions. Independent of any socket.

The JSON fields are the fields of the dataclasses. Null fields are left out. Every field of a client's frame must be
known, because a misspelled field would change what the client agrees to. Unknown fields of the gateway's frames are
ignored, so that older clients can read newer gateways.

The specification spells some fields differently. Its `tool_result` is read wherever it comes; the gateway's frames have
its spelling if the client asks for it:

| frame | Ferrule | the specification |
|---|---|---|
| `tool_call_delta` | `arguments` | `arguments_delta` |
| `tool_call` | `arguments` as text | `arguments` as an object |
| `tool_result`, both ways | `id`, `content` | `tool_call_id`, `body` |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from dataclasses import Field as DataclassField
from typing import Any, TypeVar, cast

from ferrule.core.call import Receipt
from ferrule.core.event import Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.media import MEDIA_FIELDS, Media
from ferrule.dialects.extension import receipt_from
from ferrule.dialects.field import Field
from ferrule.dialects.frames.client_frames import CLIENT_FRAMES, AskFrame, ClientFrame
from ferrule.dialects.frames.server_frames import (
    SERVER_FRAMES,
    CallDeltaFrame,
    CallFrame,
    ServerFrame,
    ToolInfo,
    ToolResultFrame,
)
from ferrule.errors import DefinitionError

APIS = ("openai", "anthropic")
SPELLINGS = (_OWN, _SPECIFIED) = ("ferrule", "specification")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class NumberedFrame:
    """A frame with its turn and its sequence number, which counts from 1.

    A frame that belongs to no turn has an empty `turn` and is counted separately, per connection.
    """

    turn: str
    seq: int
    frame: ServerFrame


def encode_frame(numbered: NumberedFrame, spelling: str = _OWN) -> dict[str, Any]:
    """Return a server frame as a JSON object."""
    frame = numbered.frame
    fields = _fields_of(frame)
    if spelling == _SPECIFIED:
        fields = _as_specified(frame, fields)
    return {"type": _TYPES[type(frame)], "turn": numbered.turn, "seq": numbered.seq, **fields}


def encode_frame_text(numbered: NumberedFrame, spelling: str = _OWN) -> str:
    """Return a server frame as JSON text.

    A lone surrogate has no UTF-8 encoding; its JSON escape means the same.
    """
    text = dumps(encode_frame(numbered, spelling))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def decode_frame(data: Mapping[str, Any]) -> NumberedFrame:
    """Decode a server frame, as a client does."""
    field = Field(data)
    kind = field["type"].one_of(SERVER_FRAMES)
    return NumberedFrame(field["turn"].string(), field["seq"].integer(), _read(field, kind))


def encode_client_frame(frame: ClientFrame) -> dict[str, Any]:
    """Return a client frame as a JSON object."""
    return {"type": _INCOMING_TYPES[type(frame)], **_fields_of(frame)}


def decode_client_frame(text: str) -> ClientFrame:
    """Decode a client frame. Raises `DefinitionError` for an invalid one."""
    try:
        data = loads(text)
    except (ValueError, RecursionError) as damage:
        raise DefinitionError("the frame is not JSON", hint="Send JSON objects, each in one frame.") from damage
    if not isinstance(data, dict):
        raise DefinitionError("the frame is not a JSON object", hint="Send JSON objects, each in one frame.")
    field = Field(_from_specification(cast("dict[str, Any]", data)))
    kind = field["type"].one_of(CLIENT_FRAMES)
    allowed = ("type", *_NAMES[kind])
    unknown = [name for name in field.object() if name not in allowed]
    if unknown:
        raise DefinitionError(f"{unknown[0][:60]!r} is an unknown field", hint=f"Known fields: {', '.join(allowed)}.")
    frame = _read(field, kind)
    if isinstance(frame, AskFrame) and frame.api not in APIS:
        raise field["api"].refusal(f"unknown API {frame.api[:60]!r}", f"Use one of: {', '.join(APIS)}.")
    if isinstance(frame, AskFrame) and frame.spelling not in SPELLINGS:
        hint = f"Use one of: {', '.join(SPELLINGS)}."
        raise field["spelling"].refusal(f"unknown spelling {frame.spelling[:60]!r}", hint)
    return frame


def _as_specified(frame: ServerFrame, fields: dict[str, Any]) -> dict[str, Any]:
    match frame:
        case CallDeltaFrame(_, _, arguments):
            return {**_without(fields, "arguments"), "arguments_delta": arguments}
        case CallFrame(arguments=arguments):
            return {**fields, "arguments": loads(arguments)}
        case ToolResultFrame(id, _, content):
            return {**_without(fields, "id", "content"), "tool_call_id": id, "body": content}
        case _:
            return fields


def _from_specification(data: dict[str, Any]) -> dict[str, Any]:
    if data.get("type") != "tool_result" or "tool_call_id" not in data:
        return data
    fields = {"id": data["tool_call_id"], "content": data.get("body")}
    return {"turn": "", **_without(data, "tool_call_id", "body"), **fields}


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def ref_of(text: str) -> str:
    """Return the `ref` of a frame, "" if there is none. The frame may be invalid: its error still needs the `ref`."""
    try:
        data = loads(text)
    except (ValueError, RecursionError):
        return ""
    ref = cast("dict[str, Any]", data).get("ref") if isinstance(data, dict) else None
    return ref if isinstance(ref, str) else ""


def _usage(field: Field) -> Usage:
    cached = field["cached_tokens"].or_else(Field.integer, 0)
    return Usage(field["prompt_tokens"].integer(), field["completion_tokens"].integer(), cached)


def _receipt(field: Field) -> Receipt | None:
    return receipt_from(field.object())


def _tool_info(field: Field) -> ToolInfo:
    return _read(field, ToolInfo)


def _strings(field: Field) -> tuple[str, ...]:
    return tuple(one.string() for one in field.items())


def _any_value(field: Field) -> Any:
    return field.value


def _media(field: Field) -> tuple[Media, ...]:
    return tuple(_one_media(one) for one in field.items())


def _one_media(field: Field) -> Media:
    fields = {name: field[name].string() for name in ("media", *MEDIA_FIELDS) if field[name].is_given}
    field["media"].string()
    return field.build(lambda: Media.from_dict(fields))


def _list(values: tuple[Any, ...]) -> list[Any]:
    return [value.as_dict() if isinstance(value, Media) else value for value in values]


# How a field is decoded, by its type annotation. Null values never get here.
_READERS: Mapping[str, Callable[[Field], Any]] = {
    "str": Field.string,
    "int": Field.integer,
    "float": Field.number,
    "float | None": Field.number,
    "bool": Field.boolean,
    "Any": _any_value,
    "tuple[str, ...]": _strings,
    "tuple[str, ...] | None": _strings,
    "dict[str, Any]": Field.object,
    "dict[str, Any] | None": Field.object,
    "Receipt | None": _receipt,
    "Usage | None": _usage,
    "ToolInfo": _tool_info,
    "tuple[Media, ...] | None": _media,
}
_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    Receipt: Receipt.as_dict,
    Usage: asdict,
    ToolInfo: asdict,
    tuple: _list,
}
_KINDS: tuple[type, ...] = (*SERVER_FRAMES.values(), *CLIENT_FRAMES.values(), ToolInfo)
_FIELDS: Mapping[type, tuple[DataclassField[Any], ...]] = {kind: fields(kind) for kind in _KINDS}
_NAMES: Mapping[type, tuple[str, ...]] = {
    kind: tuple(one.name for one in kind_fields) for kind, kind_fields in _FIELDS.items()
}
_TYPES: Mapping[type, str] = {kind: name for name, kind in SERVER_FRAMES.items()}
_INCOMING_TYPES: Mapping[type, str] = {kind: name for name, kind in CLIENT_FRAMES.items()}


def _fields_of(frame: object) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name in _NAMES[type(frame)]:
        value: Any = getattr(frame, name)
        if value is not None:
            write = _WRITERS.get(value.__class__)
            values[name] = value if write is None else write(value)
    return values


def _read(field: Field, kind: type[T]) -> T:
    values: dict[str, Any] = {}
    for one in _FIELDS[kind]:
        value = field[one.name]
        if value.is_given:
            values[one.name] = _READERS[str(one.type)](value)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise value.refusal("is missing", "Send it.")
    return kind(**values)
