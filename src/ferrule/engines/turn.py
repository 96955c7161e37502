"""CheckedTurn: processes the events of one answer. Checks, buffers and refuses calls; sends no requests.

While a call may still be repaired, its arguments are buffered until it is known to be valid, because events cannot be
taken back. If it names a tool that was not offered, its start is withheld too, because a repair may replace the name.
Text, reasoning, the start of any other call, and the arguments of a call that a grammar enforces completely are
forwarded as they arrive.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

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
from ferrule.engines.receipts import ReceiptWriter
from ferrule.engines.repair import Attempt, Repair
from ferrule.schema.checker import checker_for
from ferrule.wire.drift import DriftReader, unread_call

# The diagnostics of decoders for an answer that did not end properly.
FAILURES = frozenset({"engine_error", "broken_off"})
_UNREADABLE = "bad_arguments"


@dataclass(slots=True)
class CheckedTurn:
    """Feed it the decoder's events. `attempts` are the invalid calls, to be repaired or refused."""

    receipts: ReceiptWriter
    can_repair: bool
    is_parallel: bool
    drift: DriftReader | None = None
    attempts: list[Attempt] = field(default_factory=list[Attempt])
    finish: Finish | None = None
    failure: Diagnostic | None = None
    is_empty: bool = True
    """Whether no event that a caller could act on has been forwarded."""
    has_calls: bool = False
    """Whether the model made a call, valid or not."""
    completed_calls: int = 0
    refusals: list[str] = field(default_factory=list[str])
    """What is wrong with each call that was refused."""
    _texts: list[str] = field(default_factory=list[str])
    """The visible text, in the pieces in which it came: to join them for each event would cost more with every one."""
    _starts: dict[int, CallStart] = field(default_factory=dict[int, CallStart])
    _buffered: set[int] = field(default_factory=set[int])
    """Calls whose arguments are buffered, because they may still be repaired."""
    _withheld: set[int] = field(default_factory=set[int])
    """Buffered calls whose start was not forwarded either."""
    _unreadable: dict[int, Diagnostic] = field(default_factory=dict[int, Diagnostic])

    @property
    def text(self) -> str:
        """The visible text so far."""
        return "".join(self._texts)

    @property
    def is_cut_off(self) -> bool:
        return self.finish is None or self.finish.reason is FinishReason.LENGTH

    def is_cut_call(self, attempt: Attempt) -> bool:
        """Whether the token limit ended the answer inside this call. A failure is another reason."""
        is_limit = self.finish is not None and self.finish.reason is FinishReason.LENGTH and self.failure is None
        return is_limit and attempt.is_partial

    @property
    def usage(self) -> Usage | None:
        return self.finish.usage if self.finish else None

    def process(self, events: Sequence[Event]) -> Iterator[Event]:
        for event in events:
            if event.__class__ is TextDelta:
                # Nearly every event: no call is concerned.
                self._texts.append(cast("TextDelta", event).text)
                self.is_empty = False
                yield event
                continue
            match event:
                case Finish():
                    self.finish = event
                case Diagnostic() if event.code in FAILURES:
                    self.failure = self.failure or event
                case Diagnostic(index=int(index)) if event.code == _UNREADABLE:
                    self._unreadable[index] = event
                case CallEnd():
                    yield from self._end_call(event)
                case ArgumentsDelta(index):
                    forwarded = list(self.receipts.add_receipts([event]))
                    yield from () if index in self._buffered or index in self._withheld else forwarded
                case CallStart(index):
                    self._record(event)
                    forwarded = list(self.receipts.add_receipts([event]))
                    yield from () if index in self._withheld else forwarded
                case _:
                    self._record(event)
                    yield from self.receipts.add_receipts([event])

    def resolve(self, attempt: Attempt, repair: Repair, receipts: ReceiptWriter) -> Iterator[Event]:
        """End an invalid call with the result of its repair. A repaired call gets its receipt from `receipts`."""
        if repair.call is not None:
            start = replace(self._starts[attempt.index], name=repair.call.name)
            call = [start, ArgumentsDelta(attempt.index, repair.call.arguments), CallEnd(attempt.index)]
            forwards_start = attempt.index in self._withheld
            events = receipts.add_receipts(call)
            yield from self._count_completed(event for event in events if forwards_start or event is not start)
        elif repair.text and not self.completed_calls:
            text = f"\n\n{repair.text}" if self.text else repair.text
            yield from self._refuse(attempt, "call_withdrawn", "; the model answered without it")
            self._texts.append(text)
            yield TextDelta(text)
        else:
            yield from self._refuse(attempt, attempt.code, repair.reason)

    def _refuse(self, attempt: Attempt, code: str, why: str = "") -> Iterator[Event]:
        """End an invalid call as not complete; its arguments are still forwarded so that they can be inspected."""
        self.refusals.append(attempt.message + why)
        if self.drift and attempt.index in self.drift.printed:
            # The model printed it, so it stays the text that it was.
            text = self.drift.printed[attempt.index]
            self._texts.append(text)
            self.is_empty = False
            yield from (unread_call(attempt.message + why), TextDelta(text))
            return
        yield from self._release(attempt.index)
        yield Diagnostic(code, attempt.message + why, index=attempt.index)
        yield from self.receipts.add_receipts([CallEnd(attempt.index, complete=False)])

    def invalid_answer(self, schema: dict[str, Any] | None) -> list[Event]:
        """Return a diagnostic if the answer's text does not match its schema."""
        if schema is None or self.has_calls:
            return []
        faults = checker_for(schema).faults_of_text(self.text)
        return [Diagnostic("invalid_answer", "; ".join(map(str, faults)))] if faults else []

    def _record(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._texts.append(text)
            case CallStart(index, _, name):
                self._starts[index] = event
                self.has_calls = True
                if self.drift and index in self.drift.printed:
                    self._withheld.add(index)
                    if self.can_repair:
                        self._buffered.add(index)
                    return
                if self.can_repair and not self.receipts.is_certain(name):
                    self._buffered.add(index)
                    is_open = self.receipts.tools and name not in self.receipts.tools
                    if is_open or self.receipts.may_repeat(name):
                        self._withheld.add(index)
                        return
            case ReasoningDelta():
                pass
            case _:
                return
        self.is_empty = False

    def _end_call(self, event: CallEnd) -> Iterator[Event]:
        index = event.index
        unreadable = self._unreadable.pop(index, None)
        is_printed = self.drift is not None and index in self.drift.printed
        if not self.is_parallel and index > 0 and is_printed:
            self._buffered.discard(index)
            yield from self._check_call(index, unreadable)
        elif not self.is_parallel and index > 0:
            yield from self._release(index)
            yield Diagnostic("one_call_only", "the model made a second call, but only one was allowed", index=index)
            yield from self.receipts.add_receipts([CallEnd(index, complete=False)])
        elif not event.complete and unreadable is None:
            # The provider itself says that the call is not complete.
            yield from self._release(index)
            yield from self.receipts.add_receipts([event])
        else:
            yield from self._check_call(index, unreadable)

    def _check_call(self, index: int, unreadable: Diagnostic | None) -> Iterator[Event]:
        faults = self.receipts.faults(index)
        if unreadable and not faults:
            # A schema without type "object" may allow other values, but a call's arguments are always an object.
            faults = (Fault("", "json", unreadable.message),)
        if not faults:
            yield from self._release(index)
            self.completed_calls += 1
            yield self.receipts.accept(index)
            return
        start = self._starts[index]
        attempt = Attempt(index, start.id, start.name, self.receipts.arguments(index), faults)
        if index in self._buffered and (index in self._withheld or not attempt.is_unknown):
            self.attempts.append(attempt)
        else:
            # Where nothing is offered, there is nothing to call instead.
            yield from self._refuse(attempt, attempt.code)

    def _release(self, index: int) -> Iterator[Event]:
        """Forward what was withheld of a call."""
        if index in self._withheld:
            self._withheld.remove(index)
            self.is_empty = False
            yield self._starts[index]
        arguments = self.receipts.arguments(index)
        if index in self._buffered and arguments:
            yield ArgumentsDelta(index, arguments)

    def _count_completed(self, events: Iterator[Event]) -> Iterator[Event]:
        for event in events:
            self.completed_calls += isinstance(event, CallEnd) and event.complete
            yield event
