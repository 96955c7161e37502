"""Parse a section of calls: its opening, one call after another, its close; and recover from malformed calls.

An opening that does not lead to a call is rewound and emitted as text. A call that breaks after its name is known is
closed as incomplete, and parsing resumes at the next marker, so that one malformed call does not affect the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ferrule.core.event import Diagnostic
from ferrule.core.ids import IdPolicy
from ferrule.wire.call_reader import CallReader
from ferrule.wire.node import Calls
from ferrule.wire.open_call import Emit, OpenCall
from ferrule.wire.parse_plan import LiteralAction, ParsePlan, closers, first
from ferrule.wire.tape import DepthError, MisfitError, Tape, Walk
from ferrule.wire.tool_offer import ToolOffer


@dataclass(slots=True)
class Outcome:
    """The result of an attempt to parse calls. `leftover` was consumed while looking for more calls."""

    accepted: bool
    leftover: str = ""
    is_prose: bool = True
    problem: str = ""


class _NotACallError(Exception):
    """Internal: what follows the calls looked like another call but is text."""


class ItemReader:
    def __init__(
        self,
        tape: Tape,
        plan: ParsePlan,
        offer: ToolOffer,
        emit: Emit,
        account: Callable[[str, int], None],
        ids: IdPolicy,
        calls_before: int,
    ) -> None:
        self._tape, self._plan, self._emit, self._account = tape, plan, emit, account
        self._ids, self._calls_before = ids, calls_before
        self._reader = CallReader(tape, offer)
        self._index = 0

    def read(self, actions: Iterable[LiteralAction]) -> Walk[Outcome]:
        """Try each shape that begins with this literal, in order. The tape is held until one of them yields a name."""
        tape = self._tape
        tape.hold()
        best, problem, depth_problem, is_cut, is_bare = -1, "", "", False, True
        for action in actions:
            item = action.item
            if not isinstance(item, Calls):
                continue
            tape.rewind(action.skip)
            try:
                return Outcome(True, (yield from self._item(item)))
            except MisfitError as misfit:
                size = tape.held_size
                if size > best:
                    best, problem = size, misfit.problem
                depth_problem = depth_problem or _depth_problem(misfit)
                is_cut = is_cut or tape.is_cut
                is_bare = is_bare and item.only_offered
        is_prose = is_bare or not is_cut
        # An opening marker that the end of the text cut off is never prose, so the rest goes into the diagnostic.
        tape.rewind(best)
        if is_prose:
            self._report_depth(depth_problem)
        else:
            tape.at = len(tape.text)
        return Outcome(False, is_prose=is_prose, problem=problem)

    def _item(self, item: Calls) -> Walk[str]:
        """Parse all calls of an item; return the text consumed beyond them.

        Raises `MisfitError` only before the first call.
        """
        tape = self._tape
        if item.open is not None:
            size = yield from tape.peek(item.open.spellings)
            if size < 0 and not item.open.may_be_missing:
                raise MisfitError(f"expected {item.open.canonical!r}")
            tape.at += max(size, 0)
            yield from self._skip_space(item)
        yield from self._call(item, is_first=True)
        while True:
            before = tape.position
            follows, leftover = yield from self._what_follows(item)
            if not follows:
                return leftover
            tape.hold()
            try:
                yield from self._call(item, is_first=False)
            except _NotACallError:
                leftover += tape.held_text()
                tape.release()
                return leftover
            if tape.position == before:
                return ""

    def _call(self, item: Calls, *, is_first: bool) -> Walk[None]:
        tape = self._tape
        call = OpenCall(self._index, self._emit, self._make_id, tape.release)
        try:
            yield from self._reader.read(item, call)
        except MisfitError as misfit:
            if not call.started:
                if is_first:
                    raise
                if item.only_offered:
                    self._report_depth(_depth_problem(misfit))
                    raise _NotACallError from misfit
            yield from self._close_broken_call(item, call, misfit.problem)
            return
        call.end(complete=True)
        self._index += 1

    def _report_depth(self, problem: str) -> None:
        """Report text that stays text only because it is nested too deep. No character is part of the diagnostic."""
        if problem:
            self._emit(Diagnostic("nested_too_deep", problem))

    def _make_id(self, name: str, index: int) -> str:
        return self._ids.make(name, self._calls_before + index)

    def _close_broken_call(self, item: Calls, call: OpenCall, problem: str) -> Walk[None]:
        """Close a call that cannot be parsed further, and skip the rest of it."""
        tape = self._tape
        is_cut = tape.is_cut
        unread = "" if call.started else tape.held_text()
        self._account("call", tape.position - len(unread))
        tape.release()
        if call.started:
            call.end(complete=False)
            self._index += 1
        unread += yield from self._skip(item)
        self._account("diagnostic", tape.position)
        index = call.index if call.started else None
        self._emit(Diagnostic("cut_off" if is_cut else "malformed_call", problem, unread, index))

    def _skip(self, item: Calls) -> Walk[str]:
        """Consume the text up to the next marker, including the malformed call's own closing marker."""
        tape, stops = self._tape, self._plan.resync[id(item)]
        pieces: list[str] = []
        while True:
            hit = stops.scan(tape.text, tape.at, tape.ended)
            pieces.append(tape.text[tape.at : hit.at])
            tape.at = hit.at
            if hit.literal:
                if hit.literal in closers(item.call):
                    pieces.append(hit.literal)
                    tape.at += len(hit.literal)
                return "".join(pieces)
            if tape.ended:
                return "".join(pieces)
            yield

    def _what_follows(self, item: Calls) -> Walk[tuple[bool, str]]:
        """Whether another call follows, and the text consumed to find out. Consumes the item's close if present."""
        if item.close is not None and (yield from self._take(item.close.spellings)):
            return False, ""
        if not item.is_loose:
            return (yield from self._exactly_follows(item)), ""
        read = yield from self._tape.space()
        if item.close is not None and (yield from self._take(tuple(s.lstrip() for s in item.close.spellings))):
            return False, ""
        sep = tuple(s.strip() for s in item.sep.spellings)
        if sep[0]:
            size = yield from self._tape.peek(sep)
            if size < 0:
                return self._report_missing_close(item), read
            read += self._tape.text[self._tape.at : self._tape.at + size]
            self._tape.at += size
            read += yield from self._tape.space()
        starts = first(item.call)
        if starts is None:
            # A call that begins with its name has no opening literal. Only a missing close tells that one more follows.
            more = item.close is not None and (yield from self._tape.name_follows())
        else:
            more = (yield from self._tape.peek(starts)) >= 0
        return more or self._report_missing_close(item), read

    def _exactly_follows(self, item: Calls) -> Walk[bool]:
        starts = first(item.call) or ("",)
        for sep in item.sep.spellings:
            if (yield from self._tape.peek(tuple(sep + start for start in starts))) >= 0:
                self._tape.at += len(sep)
                return True
        return self._report_missing_close(item)

    def _report_missing_close(self, item: Calls) -> bool:
        """Report that the section ends without its closing marker. Always False: no further call follows."""
        if item.close is not None:
            self._emit(Diagnostic("missing_mark", f"{item.close.canonical!r} is missing"))
        return False

    def _take(self, spellings: tuple[str, ...]) -> Walk[bool]:
        size = yield from self._tape.peek(spellings)
        self._tape.at += max(size, 0)
        return size >= 0

    def _skip_space(self, item: Calls) -> Walk[None]:
        if item.is_loose:
            yield from self._tape.space()


def _depth_problem(misfit: MisfitError) -> str:
    return misfit.problem if isinstance(misfit, DepthError) else ""
