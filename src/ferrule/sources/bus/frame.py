"""What is said on the bus: requests, and the frames that answer them. Bytes and headers only: no connection, no clock.

An answer is a JSON object and needs no header, so that any NATS client can read it; what is not an answer is told by
headers, and an error carries those of the NATS micro protocol besides. Reading refuses with `BusError` only.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

from ferrule.core.context import Progress
from ferrule.core.json_text import dumps
from ferrule.core.outcome import Answered
from ferrule.errors import BusError

TOKEN, MINOR = "Ferrule-Token", "Ferrule-Minor"
_FRAME = "Ferrule-Frame"
_ERROR, _ERROR_STATUS = "Nats-Service-Error", "Nats-Service-Error-Code"
_SERVER_STATUS, _NOBODY = "Status", "503"
_SHALLOW: Final = 256
_BLANKS: Final = " \t\r\n"
"""What may stand around a JSON text."""
_Decode: TypeAlias = Callable[[str], tuple[Any, int]]
Headers: TypeAlias = dict[str, str]
Written: TypeAlias = tuple[Headers | None, bytes]
"""Headers and body, as they are sent."""


@dataclass(frozen=True, slots=True)
class Refused:
    """The call surely did not run. `status` is 429 where the worker is at its cap; drawing again may find another."""

    code: str
    reason: str
    status: int


BUSY: Final = Refused("busy", "the worker has as many calls as it takes", 429)
ABSENT: Final = Refused("not_delivered", "the worker that was drawn does not serve this version", 404)
LATE: Final = Refused("timeout", "the deadline had passed before the call began", 408)


@dataclass(frozen=True, slots=True)
class Nobody:
    """The server's own word: nobody has subscribed to this."""


@dataclass(frozen=True, slots=True)
class Beat:
    """The worker lives and the tool runs; `progress` is how far, where it told."""

    progress: Progress | None = None


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker itself does not know whether the call happened."""

    reason: str
    code: str = "unknown"


Frame: TypeAlias = Answered | Refused | Nobody | Beat | Lost


def request_body(arguments: Mapping[str, Any]) -> bytes:
    return b'{"input": %b}' % json_bytes(arguments)


def read_request(body: bytes) -> dict[str, Any]:
    """The arguments that a request brings. A number that is too great to be one is refused."""
    found = _object(body, _decode_finite).get("input")
    if not isinstance(found, dict):
        raise BusError("a request is an object with an object 'input'", code="bad_request")
    return cast("dict[str, Any]", found)


def is_surely_plain(body: bytes) -> bool:
    """Whether arguments read from it can surely be written again: nothing is deep, and no text has half a character.

    Half of a surrogate pair can be written as an escape only; nothing is deeper than there are brackets.
    """
    return b"\\u" not in body and body.count(b"[") + body.count(b"{") <= _SHALLOW


def read_minor(headers: Mapping[str, str] | None) -> int:
    """The least minor version that the caller needs."""
    text = headers.get(MINOR) if headers else None
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BusError("a minor version is a number", code="bad_request")
    return int(text)


def written(frame: Frame) -> Written:
    """A frame as it is sent."""
    match frame:
        case Answered(content, False):
            return None, b'{"content": %b}' % json_bytes(content)
        case Answered(content, _, code):
            headers = {_ERROR: code or "tool_failed", _ERROR_STATUS: "500"}
            return _one_line(headers), json_bytes({"content": content, "is_error": True, "code": code})
        case Refused(code, reason, status):
            return _one_line({_FRAME: "refused", _ERROR: code, _ERROR_STATUS: str(status)}), reason.encode(
                "utf-8", "replace"
            )
        case Beat(news):
            told = news and {"done": news.done, "total": news.total, "message": news.message}
            return {_FRAME: "beat"}, json_bytes(told) if told else b""
        case Lost(reason, code):
            return _one_line({_FRAME: "lost", _ERROR: code, _ERROR_STATUS: "500"}), reason.encode("utf-8", "replace")
        case Nobody():
            return {_SERVER_STATUS: _NOBODY}, b""


def read_frame(headers: Mapping[str, str] | None, body: bytes) -> Frame:
    """The frame that a reply is; `BusError` where it is none."""
    if headers is None:
        return _answer(body)
    match headers.get(_FRAME):
        case None if not body and headers.get(_SERVER_STATUS) == _NOBODY:
            return Nobody()
        case None:
            return _answer(body)
        case "beat":
            return Beat(_progress(body) if body else None)
        case "refused":
            return Refused(headers.get(_ERROR, "not_delivered"), _words(body), _status(headers))
        case "lost":
            return Lost(_words(body), headers.get(_ERROR, "unknown"))
        case other:
            raise BusError(f"{other!r:.40} is no kind of frame")


def json_bytes(value: object) -> bytes:
    try:
        return dumps(value).encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair has no UTF-8, but JSON has an escape for it.
        return json.dumps(value, allow_nan=False).encode("ascii")


def read_json(body: bytes) -> object:
    """The JSON value of a body; `BusError` for anything else."""
    return _read(body, _decode)


def _read(body: bytes, decode: _Decode) -> object:
    try:
        text = body.decode().strip(_BLANKS)
        found, end = decode(text)
    except (ValueError, RecursionError) as problem:
        raise BusError("the body is not JSON") from problem
    if end != len(text):
        raise BusError("the body is not JSON: something follows it")
    return found


def _answer(body: bytes) -> Answered:
    found = _object(body, _decode)
    is_error, code = found.get("is_error", False), found.get("code", "")
    if "content" not in found or not isinstance(is_error, bool) or not isinstance(code, str):
        raise BusError("an answer is an object with 'content'")
    return Answered(found["content"], is_error, code)


def _progress(body: bytes) -> Progress:
    found = _object(body, _decode)
    done, total, message = found.get("done"), found.get("total"), found.get("message", "")
    if not _is_number(done) or not (total is None or _is_number(total)) or not isinstance(message, str):
        raise BusError("progress is two numbers and a text")
    return Progress(cast("float", done), cast("float | None", total), message)


def _object(body: bytes, decode: _Decode) -> dict[str, Any]:
    found = _read(body, decode)
    if not isinstance(found, dict):
        raise BusError("the body is no JSON object")
    return cast("dict[str, Any]", found)


def _words(body: bytes) -> str:
    return body.decode("utf-8", "replace")[:1_000]


def _status(headers: Mapping[str, str]) -> int:
    text = headers.get(_ERROR_STATUS, "")
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


# Made once: `json.loads` makes a new decoder for every text that it is given a constant's reader with.
_decode = json.JSONDecoder(parse_constant=_refuse_constant).raw_decode
_decode_finite = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite).raw_decode
