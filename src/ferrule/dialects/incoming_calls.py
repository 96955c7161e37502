"""IncomingCalls: assembles the calls that an engine's API sends in pieces. Independent of any API.

A call's events are emitted as soon as they are certain. When a call ends, its arguments must be one JSON object;
otherwise the call is incomplete and a diagnostic says why. Invalid arguments never silently become `{}`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ferrule.core.call import FunctionCall
from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Diagnostic, Event
from ferrule.core.ids import IdMaker
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.extension import Extension
from ferrule.errors import SchemaError
from ferrule.schema.checker import checker_for


class IncomingCalls:
    """A slot is a number that `open` returns. The index of an event counts only the calls that have started."""

    def __init__(self, tools: Iterable[ToolDefinition], make_id: IdMaker, emit: Callable[[Event], None]) -> None:
        self._tools = {tool.name: tool for tool in tools}
        self._make_id = make_id
        self._emit = emit
        self._calls: list[_Call] = []
        self._started = 0
        self._extension = Extension()

    @property
    def complete_count(self) -> int:
        """The number of complete calls."""
        return sum(call.is_complete for call in self._calls)

    def add_extension(self, extension: Extension) -> None:
        """Add what the sender's extension says about its calls."""
        receipts = {**self._extension.receipts, **extension.receipts}
        self._extension = Extension(receipts, {**self._extension.incomplete, **extension.incomplete})
        for diagnostic in extension.diagnostics:
            self._emit(diagnostic)

    def finish_name(self) -> None:
        """Start the last call if it has a name: other output follows, so the name is complete. Keeps the order."""
        if self._calls and self._calls[-1].name and not self._calls[-1].is_started:
            self._start(self._calls[-1])

    def open(self) -> int:
        self.finish_name()
        self._calls.append(_Call())
        return len(self._calls) - 1

    def id_of(self, slot: int) -> str:
        return self._calls[slot].id

    def identify(self, slot: int, id: str) -> None:
        """Set a call's id. The first one counts: some engines send a new id with each piece."""
        call = self._calls[slot]
        if id and not call.id and not call.is_started:
            call.id = id
            self._start_if_certain(call)

    def name(self, slot: int, piece: str) -> None:
        """Add a piece of the name, or the full name repeated."""
        call = self._calls[slot]
        if not piece or (call.is_started and piece == call.name):
            return
        if call.is_started:
            note = "a second name for a call that had started"
            self._emit(Diagnostic("late_name", note, piece, call.index))
            return
        is_repeated = piece == call.name and call.name + piece not in self._tools
        call.name += "" if is_repeated else piece
        self._start_if_certain(call)

    def arguments(self, slot: int, json: str) -> None:
        call = self._calls[slot]
        if not json:
            return
        if call.is_ended:
            note = "arguments came after the call had ended"
            self._emit(Diagnostic("late_arguments", note, json, call.index))
            return
        call.json.append(json)
        if call.name:
            if call.is_started:
                self._emit(ArgumentsDelta(call.index, json))
            else:
                self._start(call)

    def is_whole(self, slot: int) -> bool:
        """Whether the arguments so far are one complete JSON object."""
        return not _problem("".join(self._calls[slot].json))

    def end(self, slot: int, *, is_cut: bool = False) -> None:
        """End a call. `is_cut`: the whole answer was cut off, so missing arguments may have been on their way."""
        call = self._calls[slot]
        if call.is_ended:
            return
        text = "".join(call.json)
        call.is_ended = True
        if not call.name:
            self._emit(Diagnostic("nameless_call", "a call without a name was left out", text))
            return
        if not call.is_started:
            self._start(call)
        receipt = self._extension.receipts.get(call.id)
        if call.id in self._extension.incomplete:
            whole = self._extension.incomplete[call.id].arguments
            if whole.startswith(text) and len(whole) > len(text):
                self._emit(ArgumentsDelta(call.index, whole[len(text) :]))
            self._emit(CallEnd(call.index, complete=False, receipt=receipt))
            return
        if not text.strip() and not is_cut and self._accepts_no_arguments(call.name):
            note = "the engine sent no arguments; the tool takes none, so they are {}"
            self._emit(ArgumentsDelta(call.index, "{}"))
            self._emit(Diagnostic("empty_arguments", note, index=call.index))
            problem = ""
        else:
            problem = _problem(text)
        if problem:
            self._emit(Diagnostic("bad_arguments", f"the arguments of {call.name!r} {problem}", index=call.index))
        call.is_complete = not problem
        self._emit(CallEnd(call.index, call.is_complete, receipt))

    def end_all(self, *, is_cut: bool) -> None:
        for slot in range(len(self._calls)):
            self.end(slot, is_cut=is_cut)
        ids = {call.id for call in self._calls}
        for id, function in self._extension.incomplete.items():
            if id not in ids:
                self._add_incomplete(id, function)

    def _add_incomplete(self, id: str, function: FunctionCall) -> None:
        slot = self.open()
        self._calls[slot].id = id
        self._calls[slot].name = function.name
        self.end(slot)

    def _start_if_certain(self, call: _Call) -> None:
        """Start a call whose name is that of a tool and is not a prefix of another tool's name."""
        if call.is_started or not call.id or call.name not in self._tools:
            return
        if not any(name != call.name and name.startswith(call.name) for name in self._tools):
            self._start(call)

    def _start(self, call: _Call) -> None:
        call.is_started = True
        call.index = self._started
        self._started += 1
        call.id = call.id or self._make_id(call.name, call.index)
        self._emit(CallStart(call.index, call.id, call.name))
        if call.json:
            self._emit(ArgumentsDelta(call.index, "".join(call.json)))

    def _accepts_no_arguments(self, name: str) -> bool:
        tool = self._tools.get(name)
        if tool is None:
            return False
        try:
            return not checker_for(tool.parameters).faults({})
        except SchemaError:
            return False


class _Call:
    __slots__ = ("id", "index", "is_complete", "is_ended", "is_started", "json", "name")

    def __init__(self) -> None:
        self.id = ""
        self.name = ""
        self.index = 0
        self.json: list[str] = []
        self.is_started = False
        self.is_ended = False
        self.is_complete = False


def _problem(text: str) -> str:
    """Return why a text is not one JSON object, or "" if it is."""
    try:
        value = loads(text)
    except RecursionError:
        return "are nested too deeply"
    except ValueError as error:
        return f"are not JSON: {error!s:.120}"
    return "" if isinstance(value, dict) else "are not an object"
