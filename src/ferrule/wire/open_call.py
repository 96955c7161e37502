"""OpenCall: a call while it is being parsed. It emits each event as soon as it is certain, and not before."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event
from ferrule.core.ids import IdMaker
from ferrule.schema.reader import Reader
from ferrule.wire.tape import DepthError, MisfitError, Tape, Walk

Emit = Callable[[Event], None]


class OpenCall:
    """One call under construction. Arguments that arrive before the name, or before an expected id, are buffered."""

    __slots__ = (
        "_emit",
        "_make_id",
        "_notes",
        "_on_start",
        "_pending",
        "id",
        "index",
        "name",
        "started",
        "waits_for_id",
    )

    def __init__(self, index: int, emit: Emit, make_id: IdMaker, on_start: Callable[[], None]) -> None:
        self.index = index
        self.name = ""
        self.id = ""
        self.started = False
        self.waits_for_id = False
        self._emit = emit
        self._make_id = make_id
        self._on_start = on_start
        self._pending: list[str] = []
        self._notes: list[Diagnostic] = []

    def set_name(self, name: str) -> None:
        self.name = name
        if self.id or not self.waits_for_id:
            self._start()

    def set_id(self, id: str) -> None:
        self.id = id
        if self.name:
            self._start()

    def add_json(self, text: str) -> None:
        """Add more of the arguments' JSON text."""
        if not text:
            return
        if self.started:
            self._emit(ArgumentsDelta(self.index, text))
        else:
            self._pending.append(text)

    def note(self, code: str, message: str, text: str = "") -> None:
        """Add a diagnostic about this call. It is only emitted if the text turns out to be a call."""
        note = Diagnostic(code, message, text, self.index)
        if self.started:
            self._emit(note)
        else:
            self._notes.append(note)

    def end(self, *, complete: bool) -> None:
        if self.name:
            self._start()
        if self.started:
            self._emit(CallEnd(self.index, complete))

    def _start(self) -> None:
        if self.started:
            return
        self.started = True
        self._on_start()
        self._emit(CallStart(self.index, self.id or self._make_id(self.name, self.index), self.name))
        if self._pending:
            self._emit(ArgumentsDelta(self.index, "".join(self._pending)))
            self._pending.clear()
        for note in self._notes:
            self._emit(note)
        self._notes.clear()


REPEATED_KEY = "repeated_key"
# A duplicate among the arguments themselves is an error, because the schema lists them. In objects inside an argument,
# which may be free-form, the first value wins and the duplicate is reported.
ARGUMENTS_DEPTH = 1


def repeated_keys_message(keys: Iterable[str]) -> str:
    names = ", ".join(f'"{key}"' for key in dict.fromkeys(keys))
    return f"duplicate key {names} in one object; the first value is used"


def read_value(tape: Tape, reader: Reader, call: OpenCall | None) -> Walk[None]:
    """Run a reader to the end of its value. With a call, its output goes to the call as it arrives."""
    while True:
        tape.at = reader.read(tape.text, tape.at, tape.ended)
        if call is not None:
            call.add_json(reader.take())
        if reader.is_done:
            if call is not None and reader.duplicate_keys:
                call.note(REPEATED_KEY, repeated_keys_message(reader.duplicate_keys))
            return
        if reader.is_bad:
            raise (DepthError if reader.is_too_deep else MisfitError)(reader.problem)
        if tape.ended:
            raise MisfitError("the text ends in a value")
        yield
