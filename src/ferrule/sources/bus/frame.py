"""The messages on the bus: requests, and the frames that answer them. Bytes and headers only; no connection, no clock.

An answer is a JSON object and needs no header, so that any NATS client can read it. Headers mark every other frame, and
an error also carries the headers of the NATS micro protocol. Decoding raises only `BusError`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from ferrule.core.context import Progress
from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.outcome import Answered
from ferrule.errors import BusError, DefinitionError

TOKEN_HEADER, MINOR_HEADER = "Ferrule-Token", "Ferrule-Minor"
STREAM_HEADER = "Ferrule-Stream"
"""Set on a request whose answer is wanted piece by piece."""
_INDEX_HEADER = "Ferrule-Index"
_FRAME_HEADER = "Ferrule-Frame"
_ERROR_HEADER, _ERROR_STATUS_HEADER = "Nats-Service-Error", "Nats-Service-Error-Code"
_STATUS_HEADER, _NO_RESPONDERS = "Status", "503"
_MAX_BRACKETS: Final = 256
_JSON_WHITESPACE: Final = " \t\r\n"
"""The whitespace that JSON allows around a value."""
_Decode: TypeAlias = Callable[[str], tuple[Any, int]]
Headers: TypeAlias = dict[str, str]
EncodedFrame: TypeAlias = tuple[Headers | None, bytes]
"""Headers and body of a message."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """The worker rejected the call, so it did not run. Status 429 means that the worker is busy: try again."""

    code: str
    reason: str
    status: int


BUSY: Final = Rejection("busy", "the worker has as many calls as it takes", 429)
NOT_SERVED: Final = Rejection("not_delivered", "the worker that was drawn does not serve this version", 404)
DEADLINE_PASSED: Final = Rejection("timeout", "the deadline had passed before the call began", 408)


@dataclass(frozen=True, slots=True)
class NoResponders:
    """NATS reports that nobody subscribes to the subject."""


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The tool is still running. `progress` is what the tool reported, if anything."""

    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class StreamItem:
    """A piece of an answer, counted from 0. A piece that is missing would go unnoticed without its number."""

    index: int
    value: Any


@dataclass(frozen=True, slots=True)
class UnknownOutcome:
    """The worker does not know whether the call took effect."""

    reason: str
    code: str = "unknown"


Frame: TypeAlias = Answered | Rejection | NoResponders | Heartbeat | StreamItem | UnknownOutcome


def request_body(arguments: Mapping[str, Any]) -> bytes:
    return b'{"input": %b}' % json_bytes(arguments)


def read_request(body: bytes) -> dict[str, Any]:
    """Decode the arguments of a request. A number that is too large for a float is refused."""
    arguments = _object(body, _decode_finite).get("input")
    if not isinstance(arguments, dict):
        raise BusError("a request is an object with an object 'input'", code="bad_request")
    return cast("dict[str, Any]", arguments)


def is_plain_json(body: bytes) -> bool:
    """Whether the decoded arguments can certainly be encoded again: no deep nesting and no lone surrogates.

    This check is fast and may say no without need. A lone surrogate can only be written as an escape, and nesting
    cannot be deeper than the number of brackets.
    """
    return b"\\u" not in body and body.count(b"[") + body.count(b"{") <= _MAX_BRACKETS


def read_minor(headers: Mapping[str, str] | None) -> int:
    """The minimum minor version that the caller needs."""
    text = headers.get(MINOR_HEADER) if headers else None
    return 0 if text is None else _number(text)


def encode_frame(frame: Frame) -> EncodedFrame:
    """Encode a frame as headers and body."""
    match frame:
        case Answered(content, False, media=()):
            return None, b'{"content": %b}' % json_bytes(content)
        case Answered(content, False, media=media):
            return None, json_bytes({"content": content, "media": [one.as_dict() for one in media]})
        case Answered(content, _, code):
            headers = {_ERROR_HEADER: code or "tool_failed", _ERROR_STATUS_HEADER: "500"}
            return _one_line(headers), json_bytes({"content": content, "is_error": True, "code": code})
        case Rejection(code, reason, status):
            return _one_line(
                {_FRAME_HEADER: "refused", _ERROR_HEADER: code, _ERROR_STATUS_HEADER: str(status)}
            ), reason.encode("utf-8", "replace")
        case Heartbeat(update):
            progress = update and {"done": update.done, "total": update.total, "message": update.message}
            return {_FRAME_HEADER: "beat"}, json_bytes(progress) if progress else b""
        case StreamItem(index, value):
            return {_FRAME_HEADER: "item", _INDEX_HEADER: str(index)}, json_bytes(value)
        case UnknownOutcome(reason, code):
            return _one_line({_FRAME_HEADER: "lost", _ERROR_HEADER: code, _ERROR_STATUS_HEADER: "500"}), reason.encode(
                "utf-8", "replace"
            )
        case NoResponders():
            return {_STATUS_HEADER: _NO_RESPONDERS}, b""


def count_items(encoded: EncodedFrame, items: int) -> EncodedFrame:
    """Return a final frame that says how many pieces came before it. Without that, a lost last piece goes unnoticed."""
    headers, body = encoded
    return {**(headers or {}), _INDEX_HEADER: str(items)}, body


def counted_items(headers: Mapping[str, str] | None) -> int | None:
    """How many pieces came before a final frame; None if it does not say so."""
    text = headers.get(_INDEX_HEADER) if headers else None
    return None if text is None else _number(text)


def read_frame(headers: Mapping[str, str] | None, body: bytes) -> Frame:
    """Decode a reply into a frame. Raises `BusError` if it is not one."""
    if headers is None:
        return _answer(body)
    match headers.get(_FRAME_HEADER):
        case None if not body and headers.get(_STATUS_HEADER) == _NO_RESPONDERS:
            return NoResponders()
        case None:
            return _answer(body)
        case "beat":
            return Heartbeat(_progress(body) if body else None)
        case "item":
            return StreamItem(_number(headers.get(_INDEX_HEADER, "")), read_json(body))
        case "refused":
            return Rejection(headers.get(_ERROR_HEADER, "not_delivered"), _text_of(body), _status(headers))
        case "lost":
            return UnknownOutcome(_text_of(body), headers.get(_ERROR_HEADER, "unknown"))
        case other:
            raise BusError(f"unknown frame type {other!r:.40}")


def json_bytes(value: object) -> bytes:
    try:
        return dumps(value).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8, but JSON has an escape for it.
        return json.dumps(value, allow_nan=False).encode("ascii")


def read_json(body: bytes) -> object:
    """Decode the JSON value of a body. Raises `BusError` for anything else."""
    return _read(body, _decode)


def _read(body: bytes, decode: _Decode) -> object:
    try:
        text = body.decode().strip(_JSON_WHITESPACE)
        value, end = decode(text)
    except (ValueError, RecursionError) as problem:
        raise BusError("the body is not JSON") from problem
    if end != len(text):
        raise BusError("the body is not JSON: something follows it")
    return value


def _answer(body: bytes) -> Answered:
    document = _object(body, _decode)
    is_error, code = document.get("is_error", False), document.get("code", "")
    if "content" not in document or not isinstance(is_error, bool) or not isinstance(code, str):
        raise BusError("an answer is an object with 'content'")
    return Answered(document["content"], is_error, code, _media(document.get("media", [])))


def _media(value: object) -> tuple[Media, ...]:
    if not isinstance(value, list):
        raise BusError("'media' is a list")
    try:
        return tuple(map(Media.from_dict, cast("list[dict[str, Any]]", value)))
    except (AttributeError, KeyError, TypeError, DefinitionError) as damage:
        raise BusError(f"'media' contains what is no image, recording or file: {damage!s:.200}") from damage


def _progress(body: bytes) -> Progress:
    document = _object(body, _decode)
    done, total, message = document.get("done"), document.get("total"), document.get("message", "")
    if not _is_number(done) or not (total is None or _is_number(total)) or not isinstance(message, str):
        raise BusError("progress is two numbers and a text")
    return Progress(cast("float", done), cast("float | None", total), message)


def _object(body: bytes, decode: _Decode) -> dict[str, Any]:
    value = _read(body, decode)
    if not isinstance(value, dict):
        raise BusError("the body is not a JSON object")
    return cast("dict[str, Any]", value)


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BusError("a minor version and an index are numbers", code="bad_request")
    return int(text)


def _text_of(body: bytes) -> str:
    return body.decode("utf-8", "replace")[:1_000]


def _status(headers: Mapping[str, str]) -> int:
    text = headers.get(_ERROR_STATUS_HEADER, "")
    return int(text) if len(text) == 3 and text.isascii() and text.isdigit() else 500


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one_line(headers: Headers) -> Headers:
    return {name: " ".join(text.encode("ascii", "replace").decode().split())[:200] for name, text in headers.items()}


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"{digits:.20} is too great")
    return number


# Created once: `json.loads` creates a new decoder for every call with `parse_constant`.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_decode_finite = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).raw_decode
