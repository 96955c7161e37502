"""Server-sent events, in and out. Knows nothing of what the data means."""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.core.json_wire import json_bytes
from ferrule.dialects.line_splitter import MAX_LINE, LineSplitter, too_long
from ferrule.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class SseMessage:
    """One event. `event` is "" where it has no name; `id` is the last one that the stream gave, as browsers keep it."""

    event: str
    data: str
    id: str = ""


class SseDecoder:
    """Bytes in, messages out; any cut of the bytes gives the same messages."""

    __slots__ = ("_data", "_event", "_id", "_lines", "_max", "_size")

    def __init__(self, *, max_line: int = MAX_LINE, max_message: int = MAX_LINE) -> None:
        self._lines = LineSplitter(max_line)
        self._max = max_message
        self._event = ""
        self._id = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, data: bytes) -> list[SseMessage]:
        whole = self._whole(data)
        if whole is not None:
            return whole
        messages: list[SseMessage] = []
        for line in self._lines.feed(data):
            if line:
                self._field(line)
            else:
                messages.extend(self._dispatched())
        return messages

    def _whole(self, data: bytes) -> list[SseMessage] | None:
        """What nearly every piece of a model's stream is: whole messages of one line of data each."""
        if self._data or self._event or not data.endswith(b"\n\n") or b"\r" in data or not self._lines.is_between:
            return None
        blocks = data[:-2].split(b"\n\n")
        if any(b"\n" in block or not block.startswith(b"data: ") or len(block) > self._max for block in blocks):
            return None
        self._lines.has_begun()
        return [SseMessage("", block[6:].decode("utf-8", "replace"), self._id) for block in blocks]

    def close(self) -> list[SseMessage]:
        """The message that the stream ended in. Browsers drop it; some engines forget the last empty line."""
        rest = self._lines.close()
        if rest:
            self._field(rest)
        return self._dispatched()

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
                # A comment (its name is empty), a retry time or a field that nobody defined.
                return

    def _dispatched(self) -> list[SseMessage]:
        event, data = self._event, self._data
        self._event, self._data, self._size = "", [], 0
        return [SseMessage(event, "\n".join(data), self._id)] if data else []


def encode(data: str, event: str = "") -> bytes:
    """One message as bytes. A line break in the data, whichever it is, arrives as LF: the format has no other."""
    if "\r" in event or "\n" in event:
        raise DefinitionError("the name of an event holds a line break", hint="Name it with letters, dots and _.")
    lines = data.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    named = f"event: {event}\n" if event else ""
    text = named + "".join(f"data: {line}\n" for line in lines) + "\n"
    # Half of a surrogate pair has no UTF-8; inside JSON, the only place it comes from, its escape means the same.
    return text.encode("utf-8", "backslashreplace")


def encode_json(value: object, event: str = "") -> bytes:
    """A JSON value of texts and whole numbers as one message; `event` is a name of ours."""
    if event:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), json_bytes(value))
    return b"data: %b\n\n" % json_bytes(value)
