"""Sequence: events put so that an API which speaks of one thing at a time can say them safely.

Calls come one after another, numbered from 0 as they started; what arrives beside an open call waits for its end. The
closing braces of a call's arguments are kept back until the call is known to be complete: a client that joins what it
was sent can never read a whole object out of a call that must not be run. What cannot go on to be JSON is kept back
too, because Anthropic's client raises at the first such piece.
"""

from __future__ import annotations

import re
import string
from collections import deque

from ferrule.core.call import FunctionCall
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event, Finish, FinishReason
from ferrule.core.receipt import Receipt
from ferrule.dialects.extension import Extension
from ferrule.schema.reader import Reader

_CLOSERS = "} \t\r\n"
_CONTROL = re.compile(r"([\x00-\x1f])")
_WORD = string.ascii_letters + string.digits + "+-._"


class Sequence:
    """`feed` gives events without diagnostics; those, and what else has no place in an API, are in `extension`."""

    __slots__ = ("_call", "_complete", "_diagnostics", "_incomplete", "_queue", "_receipts", "_started")

    def __init__(self) -> None:
        self._call: _Call | None = None
        self._queue: deque[Event] = deque()
        self._started = 0
        self._complete = 0
        self._receipts: dict[str, Receipt] = {}
        self._incomplete: dict[str, FunctionCall] = {}
        self._diagnostics: list[Diagnostic] = []

    @property
    def extension(self) -> Extension:
        """What is to be told at the end: diagnostics, and the calls that were not complete."""
        return Extension(self._receipts, self._incomplete, tuple(self._diagnostics))

    def feed(self, event: Event) -> list[Event]:
        out: list[Event] = []
        if isinstance(event, Finish):
            out += self.close()
        self._take(event, out)
        return out

    def close(self) -> list[Event]:
        """Ends what is open: a call without an end was cut off."""
        out: list[Event] = []
        while self._call is not None:
            self._end(self._call, CallEnd(self._call.given, complete=False), out)
        return out

    def _take(self, event: Event, out: list[Event]) -> None:
        match event:
            case Diagnostic():
                self._diagnostics.append(event)
            case Finish(reason, usage):
                out.append(Finish(self._reason(reason), usage))
            case ArgumentsDelta(index, json) if self._call and self._call.given == index:
                free = self._call.freed(json)
                if free:
                    out.append(ArgumentsDelta(self._call.number, free))
            case CallEnd(index) if self._call and self._call.given == index:
                self._end(self._call, event, out)
            case _ if self._call is not None:
                self._queue.append(event)
            case CallStart(index, id, name):
                self._call = _Call(index, self._started, id, name)
                self._started += 1
                out.append(CallStart(self._call.number, id, name))
            case _:
                out.append(event)

    def _end(self, call: _Call, event: CallEnd, out: list[Event]) -> None:
        if event.complete:
            self._complete += 1
            rest = "".join(call.held)
            if rest:
                out.append(ArgumentsDelta(call.number, rest))
        else:
            self._incomplete[call.id] = FunctionCall(call.name, "".join(call.json))
            if event.receipt:
                self._receipts[call.id] = event.receipt
        out.append(CallEnd(call.number, event.complete, event.receipt))
        self._call = None
        waiting, self._queue = self._queue, deque()
        for queued in waiting:
            self._take(queued, out)

    def _reason(self, reason: FinishReason) -> FinishReason:
        if reason is FinishReason.LENGTH:
            return reason
        return FinishReason.TOOL_CALLS if self._complete else FinishReason.STOP


class _Call:
    """`held` is what was not sent yet."""

    __slots__ = (
        "_is_object",
        "_is_shut",
        "_last",
        "_reader",
        "_unread",
        "given",
        "held",
        "id",
        "json",
        "name",
        "number",
    )

    def __init__(self, given: int, number: int, id: str, name: str) -> None:
        self.given = given
        self.number = number
        self.id = id
        self.name = name
        self.json: list[str] = []
        self.held: list[str] = []
        self._reader = Reader()
        self._unread = ""
        self._last = ""
        self._is_object = False
        self._is_shut = False

    def freed(self, json: str) -> str:
        """What may be sent now: the beginning of a JSON object, never the whole of one."""
        self.json.append(json)
        self.held.append(json)
        if self._is_shut:
            return ""
        is_bad = False
        for piece in _CONTROL.split(json):
            written = self._written(piece)
            # The reader forgives a raw control character in a string by escaping it; JSON does not.
            is_bad = is_bad or (written.startswith("\\") and piece < " ")
            self._last = written.rstrip(_CLOSERS)[-1:] or self._last
            self._is_object = self._is_object or written.startswith("{")
            is_bad = is_bad or self._reader.is_bad or (bool(written) and not self._is_object)
        self._is_shut = is_bad or self._reader.is_done
        return "" if is_bad or not self._is_object else self._split("".join(self.held))

    def _written(self, json: str) -> str:
        text = self._unread + json
        self._unread = text[self._reader.read(text, 0, False) :]
        return self._reader.take()

    def _split(self, held: str) -> str:
        free = held[: len(held) - len(self._unread)].rstrip(_CLOSERS)
        # The reader writes a number or a word only when it is over; until then it may still turn out to be no JSON.
        if free and free[-1] != self._last:
            free = free.rstrip(_WORD)
        self.held = [held[len(free) :]]
        return free
