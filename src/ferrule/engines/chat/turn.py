"""ChatTurn: one answer of a provider on its way to the caller. Checks calls, holds back, refuses; sends nothing.

When a call may still be repaired its arguments are held back until it is known to be good, because what was handed on
cannot be taken back. Text, reasoning and the start of a call are handed on as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from ferrule.core.fault import Fault
from ferrule.engines.receipts import INVALID_ARGUMENTS, NOT_OFFERED, Seal
from ferrule.schema.checker import checker_for

# What decoders say of an answer that did not come to its end.
FAILURES = frozenset({"engine_error", "broken_off"})
_UNREADABLE = "bad_arguments"


@dataclass(frozen=True, slots=True)
class Attempt:
    """A call that is not good, and why."""

    index: int
    id: str
    name: str
    arguments: str
    faults: tuple[Fault, ...]

    @property
    def told(self) -> str:
        return "; ".join(map(str, self.faults))


@dataclass(slots=True)
class ChatTurn:
    """Feed it the decoder's events. `attempts` are the calls that wait to be repaired or refused."""

    seal: Seal
    can_repair: bool
    is_parallel: bool
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    finish: Finish | None = None
    failure: Diagnostic | None = None
    text: str = ""
    is_empty: bool = True
    """Nothing that a caller could act on has been handed on."""
    has_calls: bool = False
    """The model made a call, good or not."""
    handed_on: int = 0
    _starts: dict[int, CallStart] = field(default_factory=dict[int, CallStart])
    _unreadable: dict[int, Diagnostic] = field(default_factory=dict[int, Diagnostic])

    @property
    def is_cut_off(self) -> bool:
        return self.finish is None or self.finish.reason is FinishReason.LENGTH

    @property
    def usage(self) -> Usage | None:
        return self.finish.usage if self.finish else None

    def passed(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            match event:
                case Finish():
                    self.finish = event
                case Diagnostic() if event.code in FAILURES:
                    self.failure = self.failure or event
                case Diagnostic(index=int(index)) if event.code == _UNREADABLE:
                    self._unreadable[index] = event
                case CallEnd():
                    yield from self._ended(event)
                case ArgumentsDelta():
                    said = list(self.seal.passed([event]))
                    yield from () if self.can_repair else said
                case _:
                    self._note(event)
                    yield from self.seal.passed([event])

    def refused(self, attempt: Attempt, why: str = "") -> Iterator[Event]:
        """The end of a call that is not handed on; what the model wrote for it can still be seen."""
        code = NOT_OFFERED if attempt.faults[0].keyword == NOT_OFFERED else INVALID_ARGUMENTS
        yield from self._released(attempt.index)
        yield Diagnostic(code, attempt.told + why, index=attempt.index)
        yield from self.seal.passed([CallEnd(attempt.index, complete=False)])

    def replaced(self, attempt: Attempt, arguments: str, seal: Seal) -> Iterator[Event]:
        """The end of a call with other arguments than it came with, under the seal that vouches for them."""
        start = self._starts[attempt.index]
        written = [start, ArgumentsDelta(attempt.index, arguments), CallEnd(attempt.index)]
        yield from self._counted(event for event in seal.passed(written) if event is not start)

    def invalid_answer(self, schema: dict[str, Any] | None) -> list[Event]:
        """What is wrong with an answer that was to fit a schema."""
        if schema is None or self.has_calls:
            return []
        faults = checker_for(schema).faults_of_text(self.text)
        return [Diagnostic("invalid_answer", "; ".join(map(str, faults)))] if faults else []

    def _note(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self.text += text
            case CallStart(index):
                self._starts[index] = event
                self.has_calls = True
            case ReasoningDelta():
                pass
            case _:
                return
        self.is_empty = False

    def _ended(self, event: CallEnd) -> Iterator[Event]:
        index = event.index
        unreadable = self._unreadable.pop(index, None)
        if not self.is_parallel and index > 0:
            yield from self._released(index)
            yield Diagnostic("one_call_only", "a second call was made where one was allowed", index=index)
            yield from self.seal.passed([CallEnd(index, complete=False)])
        elif not event.complete and unreadable is None:
            # Whoever sent it says that it must not be run.
            yield from self._released(index)
            yield from self.seal.passed([event])
        else:
            yield from self._judged(index, unreadable)

    def _judged(self, index: int, unreadable: Diagnostic | None) -> Iterator[Event]:
        faults = self.seal.faults(index)
        if unreadable and not faults:
            # A schema that does not say "object" may admit what is no object; a call's arguments are always one.
            faults = (Fault("", "json", unreadable.message),)
        if not faults:
            yield from self._released(index)
            yield from self._counted(self.seal.passed([CallEnd(index)]))
            return
        start = self._starts[index]
        attempt = Attempt(index, start.id, start.name, self.seal.arguments(index), faults)
        if self.can_repair and faults[0].keyword != NOT_OFFERED:
            self.attempts.append(attempt)
        else:
            # Other arguments would not make a name that was not offered into one that was.
            yield from self.refused(attempt)

    def _released(self, index: int) -> Iterator[Event]:
        written = self.seal.arguments(index)
        if self.can_repair and written:
            yield ArgumentsDelta(index, written)

    def _counted(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            self.handed_on += isinstance(event, CallEnd) and event.complete
            yield event
