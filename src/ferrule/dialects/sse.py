"""Decode and encode server-sent events. Independent of what the data means."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ferrule.core.json_text import json_bytes
from ferrule.dialects.line_splitter import MAX_LINE, LineSplitter, too_long
from ferrule.errors import DefinitionError

# Line ends in Unicode, but not in this format. Some clients (`str.splitlines`, httpx's `iter_lines`) break at them and
# lose the message; their escapes mean the same in JSON.
_LINE_SEPARATORS = tuple((char.encode(), b"\\u%04x" % ord(char)) for char in "\x85\u2028\u2029")

DONE = b"data: [DONE]\n\n"
"""The last message of OpenAI's streams, which is not JSON."""

# Two line ends in a row, each CRLF, LF or CR. Atomic, so that CRLF is never read as two.
_MESSAGE_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r)")
_LONGEST_END = 4


@dataclass(frozen=True, slots=True)
class SseMessage:
    """One event. `event` is "" if it has no name; `id` is the last one in the stream, as in browsers."""

    event: str
    data: str
    id: str = ""


class SseDecoder:
    """Decodes bytes into messages. How the bytes are split does not matter."""

    __slots__ = ("_data", "_event", "_id", "_lines", "_max", "_size")

    def __init__(self, *, max_line: int = MAX_LINE, max_message: int = MAX_LINE) -> None:
        self._lines = LineSplitter(max_line)
        self._max = max_message
        self._event = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[SseMessage]:
        messages_at_once = self._whole_messages(data)
        if messages_at_once is not None:
            return messages_at_once
        messages: list[SseMessage] = []
        for line in self._lines.feed(data):
            if line:
                self._field(line)
            else:
                messages.extend(self._take_message())
        return messages

    def only_data(self, data: bytes) -> str | None:
        """Read one complete message of one `data:` line, which nearly every piece of a model's stream is.

        None if these bytes are anything else. Then nothing was read: `feed` reads them.
        """
        if (
            data.count(b"\n") != 2
            or not data.startswith(b"data: ")
            or not data.endswith(b"\n\n")
            or len(data) > self._max
            or self._data
            or self._event
            or b"\r" in data
            or not self._lines.is_at_line_start
        ):
            return None
        self._lines.skip_byte_order_mark()
        return data[6:-2].decode("utf-8", "replace")

    def _whole_messages(self, data: bytes) -> list[SseMessage] | None:
        """Fast path for nearly every piece of a model's stream: complete messages of one `data:` line each."""
        if self._data or self._event or not data.endswith(b"\n\n") or b"\r" in data or not self._lines.is_at_line_start:
            return None
        blocks = data[:-2].split(b"\n\n")
        if any(b"\n" in block or not block.startswith(b"data: ") or len(block) > self._max for block in blocks):
            return None
        self._lines.skip_byte_order_mark()
        return [SseMessage("", block[6:].decode("utf-8", "replace"), self._id) for block in blocks]

    def close(self) -> list[SseMessage]:
        """Return an unterminated last message. Browsers drop it, but some engines leave out the last empty line."""
        rest = self._lines.close()
        if rest:
            self._field(rest)
        return self._take_message()

    def _field(self, line: str) -> None:
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._size += len(value) + 1
                if self._size > self._max:
                    raise too_long("a message", self._max)
                self._data.append(value)
            case "event":
                self._event = value
            case "id" if "\0" not in value:
                self._id = value
            case _:
                # A comment (its name is empty), a retry time or an unknown field.
                return

    def _take_message(self) -> list[SseMessage]:
        event, data = self._event, self._data
        self._event, self._data, self._size = "", [], 0
        return [SseMessage(event, "\n".join(data), self._id)] if data else []


class SseSplitter:
    """Splits bytes after each event and changes none of them: joined, the parts are the bytes that were fed.

    For a stream that is passed on, where `SseDecoder` says what the parts mean.
    """

    __slots__ = ("_max", "_rest", "_searched")

    def __init__(self, *, max_message: int = MAX_LINE) -> None:
        self._rest = bytearray()
        self._searched = 0
        self._max = max_message

    def feed(self, data: bytes) -> list[bytes]:
        """Return the events that are complete now, each with the empty line that ends it."""
        self._rest += data
        parts: list[bytes] = []
        start = 0
        for end in _MESSAGE_END.finditer(self._rest, self._searched):
            parts.append(bytes(self._rest[start : end.end()]))
            start = end.end()
        del self._rest[:start]
        if len(self._rest) > self._max:
            raise too_long("a message", self._max)
        # Only an end that is itself cut in two has to be looked at again.
        self._searched = max(len(self._rest) - _LONGEST_END, 0)
        return parts

    def close(self) -> bytes:
        """Return what came after the last empty line."""
        rest = bytes(self._rest)
        self._rest.clear()
        self._searched = 0
        return rest


def encode(data: str, event: str = "") -> bytes:
    """Encode one message. Every line break in the data arrives as LF: the format has no other."""
    if "\r" in event or "\n" in event:
        raise DefinitionError("the name of an event contains a line break", hint="Name it with letters, dots and _.")
    # JSON is one line, unless somebody has laid it out.
    is_one_line = "\n" not in data and "\r" not in data
    lines = [data] if is_one_line else data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    name_line = f"event: {event}\n" if event else ""
    text = name_line + "".join(f"data: {line}\n" for line in lines) + "\n"
    # A lone surrogate has no UTF-8 encoding. It only comes from JSON, where its escape means the same.
    return text.encode("utf-8", "backslashreplace")


def encode_json(value: object, event: str = "") -> bytes:
    """Encode a JSON value of strings and integers as one message. `event` must be a trusted name."""
    data = json_line(value)
    return b"event: %b\ndata: %b\n\n" % (event.encode(), data) if event else b"data: %b\n\n" % data


def json_line(value: object) -> bytes:
    """Return a JSON value of strings and integers on one line, as clients understand lines."""
    return _one_line(json_bytes(value))


def encode_json_text(text: str, event: str = "") -> bytes:
    """Encode a JSON text as one message."""
    return _one_line(encode(text, event))


def _one_line(data: bytes) -> bytes:
    """Escape the characters in JSON that some clients take as line ends."""
    if data.isascii():
        return data
    for separator, escape in _LINE_SEPARATORS:
        if separator in data:
            data = data.replace(separator, escape)
    return data
