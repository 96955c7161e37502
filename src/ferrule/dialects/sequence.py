"""EventSequence: orders events for APIs that stream one item at a time.

Calls come one after another, numbered from 0 in the order in which they started. Events that arrive while a call is
open wait for its end.

**A call that must not run is not begun.** Clients complete partial JSON: Anthropic's SDK, LangChain and several agents
make a whole call out of every call that was begun, also if it was cut off or refused. So nothing of a call comes out
before it is known to be complete: no start, no name, no arguments. A call that turns out incomplete is in `extension`
only.

With `is_live`, for clients that ask for it and read the end of a call, arguments come out as they arrive. Then the
closing braces are withheld until the call is known to be complete, so that a client that only joins the pieces never
reads a whole object out of a call that must not run. Text that cannot be a prefix of JSON is withheld too, because
Anthropic's client raises at the first such piece.
"""

from __future__ import annotations

import re
import string
from collections import deque

from ferrule.core.call import FunctionCall, Receipt
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason
from ferrule.dialects.extension import Extension
from ferrule.schema.reader import Reader

_CLOSERS = "} \t\r\n"
_CONTROL = re.compile(r"([\x00-\x1f])")
_WORD = string.ascii_letters + string.digits + "+-._"


class EventSequence:
    """`feed` returns ordered events without diagnostics. Diagnostics and incomplete calls are in `extension`."""

    __slots__ = ("_call", "_complete", "_diagnostics", "_incomplete", "_is_live", "_queue", "_receipts", "_started")

    def __init__(self, *, is_live: bool = False) -> None:
        self._is_live = is_live
        self._call: _Call | None = None
        self._queue: deque[Event] = deque()
        self._started = 0
        self._complete = 0
        self._receipts: dict[str, Receipt] = {}
        self._incomplete: dict[str, FunctionCall] = {}
        self._diagnostics: list[Diagnostic] = []

    @property
    def extension(self) -> Extension:
        """What to send at the end: diagnostics and incomplete calls."""
        return Extension(self._receipts, self._incomplete, tuple(self._diagnostics))

    @property
    def has_open_call(self) -> bool:
        """Whether a call has begun and not ended: what is fed meanwhile waits."""
        return self._call is not None

    def feed(self, event: Event) -> list[Event]:
        out: list[Event] = []
        if isinstance(event, Finish):
            out += self.close()
        self._handle(event, out)
        return out

    def close(self) -> list[Event]:
        """End the open call, which was cut off."""
        out: list[Event] = []
        while self._call is not None:
            self._end(self._call, CallEnd(self._call.engine_index, complete=False), out)
        return out

    def _handle(self, event: Event, out: list[Event]) -> None:
        match event:
            case Diagnostic():
                self._diagnostics.append(event)
            case Finish(reason, usage, stop):
                out.append(Finish(self._reason(reason), usage, stop))
            case ArgumentsDelta(index, json) if self._call and self._call.engine_index == index:
                free = self._call.release(json) if self._is_live else self._call.keep(json)
                if free:
                    out.append(ArgumentsDelta(self._call.index, free))
            case CallEnd(index) if self._call and self._call.engine_index == index:
                self._end(self._call, event, out)
            case _ if self._call is not None:
                self._queue.append(event)
            case CallStart(index, id, name):
                self._call = _Call(index, self._started, id, name)
                if self._is_live:
                    self._begin(self._call, out)
            case _:
                out.append(event)

    def _begin(self, call: _Call, out: list[Event]) -> None:
        self._started += 1
        out.append(CallStart(call.index, call.id, call.name))

    def _end(self, call: _Call, event: CallEnd, out: list[Event]) -> None:
        if event.complete:
            if not self._is_live:
                self._begin(call, out)
            self._complete += 1
            unsent = "".join(call.unsent)
            if unsent:
                out.append(ArgumentsDelta(call.index, unsent))
        else:
            self._incomplete[call.id] = FunctionCall(call.name, "".join(call.json))
            if event.receipt:
                self._receipts[call.id] = event.receipt
        if event.complete or self._is_live:
            out.append(CallEnd(call.index, event.complete, event.receipt))
        self._call = None
        queue, self._queue = self._queue, deque()
        for queued in queue:
            self._handle(queued, out)

    def _reason(self, reason: FinishReason) -> FinishReason:
        if reason is FinishReason.LENGTH:
            return reason
        return FinishReason.TOOL_CALLS if self._complete else FinishReason.STOP


class _Call:
    """An open call. `unsent` are the arguments that are withheld so far."""

    __slots__ = (
        "_is_object",
        "_is_shut",
        "_last",
        "_reader",
        "_unread",
        "engine_index",
        "id",
        "index",
        "json",
        "name",
        "unsent",
    )

    def __init__(self, engine_index: int, index: int, id: str, name: str) -> None:
        self.engine_index = engine_index
        self.index = index
        self.id = id
        self.name = name
        self.json: list[str] = []
        self.unsent: list[str] = []
        self._reader = Reader()
        self._unread = ""
        self._last = ""
        self._is_object = False
        self._is_shut = False

    def keep(self, json: str) -> str:
        """Keep arguments until the call ends; nothing may be sent."""
        self.json.append(json)
        self.unsent.append(json)
        return ""

    def release(self, json: str) -> str:
        """Return what may be sent now: a prefix of a JSON object, never a whole one."""
        self.json.append(json)
        self.unsent.append(json)
        if self._is_shut:
            return ""
        is_bad = False
        for piece in _CONTROL.split(json):
            output = self._read_json(piece)
            # The reader accepts a raw control character in a string and escapes it; JSON does not allow it.
            is_bad = is_bad or (output.startswith("\\") and piece < " ")
            self._last = output.rstrip(_CLOSERS)[-1:] or self._last
            self._is_object = self._is_object or output.startswith("{")
            is_bad = is_bad or self._reader.is_bad or (bool(output) and not self._is_object)
        self._is_shut = is_bad or self._reader.is_done
        return "" if is_bad or not self._is_object else self._split("".join(self.unsent))

    def _read_json(self, json: str) -> str:
        text = self._unread + json
        self._unread = text[self._reader.read(text, 0, False) :]
        return self._reader.take()

    def _split(self, unsent: str) -> str:
        free = unsent[: len(unsent) - len(self._unread)].rstrip(_CLOSERS)
        # The reader outputs a number or a word only when it has ended; until then it may still turn out to be invalid.
        if free and free[-1] != self._last:
            free = free.rstrip(_WORD)
        self.unsent = [unsent[len(free) :]]
        return free
