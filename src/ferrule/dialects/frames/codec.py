"""Frames as JSON objects and back, both directions, from the fields of their values. Knows no socket.

A field that is null is left out. Of a client's frame every field must be known, since a misspelled one would change
what is agreed to; of the gateway's frames unknown fields are passed over, so that older clients read newer gateways.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, asdict, dataclass, fields
from typing import Any, TypeVar, cast

from ferrule.core.event import Usage
from ferrule.core.json_text import dumps, loads
from ferrule.core.receipt import Receipt
from ferrule.dialects.extension import receipt_from
from ferrule.dialects.field import Field as Place
from ferrule.dialects.frames.client_frames import INCOMING, Ask, Incoming
from ferrule.dialects.frames.server_frames import OUTGOING, Outgoing, ToolFacts
from ferrule.errors import DefinitionError

APIS = ("openai", "anthropic")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Numbered:
    """A frame in its turn: `seq` counts from 1. What belongs to no turn has an empty one, and its own count."""

    turn: str
    seq: int
    frame: Outgoing


def encode(numbered: Numbered) -> dict[str, Any]:
    """The gateway's frame as a JSON object."""
    frame = numbered.frame
    return {"type": _TYPES[type(frame)], "turn": numbered.turn, "seq": numbered.seq, **_written(frame)}


def encode_text(numbered: Numbered) -> str:
    """The frame as text. Half of a surrogate pair has no UTF-8; its escape in JSON means the same."""
    text = dumps(encode(numbered))
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def decode(told: Mapping[str, Any]) -> Numbered:
    """The gateway's frame, read by a client."""
    place = Place(told)
    kind = place["type"].one_of(OUTGOING)
    return Numbered(place["turn"].string(), place["seq"].integer(), _read(place, kind))


def encode_incoming(frame: Incoming) -> dict[str, Any]:
    """A client's frame as a JSON object."""
    return {"type": _INCOMING_TYPES[type(frame)], **_written(frame)}


def decode_incoming(text: str) -> Incoming:
    """A client's frame; `DefinitionError` says what is wrong with it."""
    try:
        told = loads(text)
    except (ValueError, RecursionError) as damage:
        raise DefinitionError("the frame is not JSON", hint="Send JSON objects, each in one frame.") from damage
    if not isinstance(told, dict):
        raise DefinitionError("the frame is not a JSON object", hint="Send JSON objects, each in one frame.")
    place = Place(cast("dict[str, Any]", told))
    kind = place["type"].one_of(INCOMING)
    known = ("type", *_NAMES[kind])
    unknown = [name for name in place.object() if name not in known]
    if unknown:
        raise DefinitionError(f"{unknown[0][:60]!r} is not known here", hint=f"There are: {', '.join(known)}.")
    frame = _read(place, kind)
    if isinstance(frame, Ask) and frame.api not in APIS:
        raise place["api"].refusal(f"{frame.api[:60]!r} is not known here", f"Use one of: {', '.join(APIS)}.")
    return frame


def ref_of(text: str) -> str:
    """The `ref` of a frame that may be nonsense, so that even its refusal can be told whose it is."""
    try:
        told = loads(text)
    except (ValueError, RecursionError):
        return ""
    ref = cast("dict[str, Any]", told).get("ref") if isinstance(told, dict) else None
    return ref if isinstance(ref, str) else ""


def _usage(place: Place) -> Usage:
    return Usage(place["prompt_tokens"].integer(), place["completion_tokens"].integer())


def _receipt(place: Place) -> Receipt | None:
    return receipt_from(place.object())


def _facts(place: Place) -> ToolFacts:
    return _read(place, ToolFacts)


def _strings(place: Place) -> tuple[str, ...]:
    return tuple(one.string() for one in place.items())


def _value(place: Place) -> Any:
    return place.value


# How a field is read, by its type as it is written in the value. Null has been dealt with before.
_READERS: Mapping[str, Callable[[Place], Any]] = {
    "str": Place.string,
    "int": Place.integer,
    "float": Place.number,
    "float | None": Place.number,
    "bool": Place.boolean,
    "Any": _value,
    "tuple[str, ...]": _strings,
    "dict[str, Any]": Place.object,
    "dict[str, Any] | None": Place.object,
    "Receipt | None": _receipt,
    "Usage | None": _usage,
    "ToolFacts": _facts,
}
_WRITERS: Mapping[type, Callable[[Any], Any]] = {
    Receipt: Receipt.as_dict,
    Usage: asdict,
    ToolFacts: asdict,
    tuple: list,
}
_KINDS: tuple[type, ...] = (*OUTGOING.values(), *INCOMING.values(), ToolFacts)
_FIELDS: Mapping[type, tuple[Field[Any], ...]] = {kind: fields(kind) for kind in _KINDS}
_NAMES: Mapping[type, tuple[str, ...]] = {kind: tuple(one.name for one in held) for kind, held in _FIELDS.items()}
_TYPES: Mapping[type, str] = {kind: name for name, kind in OUTGOING.items()}
_INCOMING_TYPES: Mapping[type, str] = {kind: name for name, kind in INCOMING.items()}


def _written(frame: object) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in _NAMES[type(frame)]:
        value: Any = getattr(frame, name)
        if value is not None:
            write = _WRITERS.get(value.__class__)
            told[name] = value if write is None else write(value)
    return told


def _read(place: Place, kind: type[T]) -> T:
    given: dict[str, Any] = {}
    for one in _FIELDS[kind]:
        held = place[one.name]
        if held.is_given:
            given[one.name] = _READERS[str(one.type)](held)
        elif one.default is MISSING and one.default_factory is MISSING:
            raise held.refusal("is missing", "Send it.")
    return kind(**given)
