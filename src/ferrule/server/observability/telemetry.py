"""Watch: what whoever runs a gateway can see of it. Counts, logs and spans of every request and every answer."""

from __future__ import annotations

from collections.abc import Awaitable, Container
from dataclasses import dataclass, field
from typing import TypeVar

from ferrule.errors import EngineError, FerruleError, LedgerError
from ferrule.server.observability.answer_record import OK, REPAIRED, Noted
from ferrule.server.observability.logs import Log, Value
from ferrule.server.observability.metrics import Counts
from ferrule.server.observability.metrics_shared import Shared
from ferrule.server.observability.request_record import CURRENT, Seen
from ferrule.server.observability.spans import Spans
from ferrule.server.observability.stack_trace import kinds, places
from ferrule.server.process.drain import Drain

_UNLOGGED = ("/healthz", "/readyz", "/metrics")
"""Asked every few seconds; logged only when the answer is not the usual one."""
_MOST_CALLS = 32
_Given = TypeVar("_Given")


@dataclass(slots=True)
class Watch:
    """`requests` and `answers` are those under way."""

    log: Log = field(default_factory=Log)
    spans: Spans = field(default_factory=Spans.found)
    counts: Counts = field(default_factory=Counts)
    drain: Drain = field(default_factory=Drain)
    shared: Shared | None = None
    requests: set[Seen] = field(default_factory=set[Seen])
    answers: set[Noted] = field(default_factory=set[Noted])

    def counted(self) -> Counts:
        """As of now: what was counted, and the events of answers that are not over. A copy."""
        counts = Counts()
        counts.merge(self.counts)
        for noted in self.answers:
            counts.add("ferrule_events", noted.model, by=noted.events)
        return counts

    def begun(self, seen: Seen) -> None:
        self.requests.add(seen)
        self.drain.under_way.add(seen)

    def served(self, seen: Seen) -> None:
        """A request is over, whichever way."""
        seen.is_over = True
        self.requests.discard(seen)
        self.drain.under_way.discard(seen)
        self.counts.add("ferrule_requests", seen.api, seen.last.model if seen.last else "", seen.outcome)
        if seen.api in _UNLOGGED and seen.outcome == OK:
            return
        told: dict[str, Value] = {"id": seen.id, "api": seen.api, "principal": seen.principal, "status": seen.status}
        if seen.last:
            told |= _facts(seen.last)
        outcome = seen.outcome if seen.outcome != OK or not seen.last else seen.last.outcome
        self.log.tell("request", **told, outcome=outcome, total_ms=seen.seconds * 1000)

    def answer(self, model: str, engine: str, own: Container[str], conversation: str = "") -> Noted:
        """To be entered around an answer, and told of each of its events."""
        seen = CURRENT.get()
        noted = Noted(self, model, engine, own, seen, conversation)
        self.answers.add(noted)
        self.drain.under_way.add(noted)
        if seen is not None:
            seen.open_answers += 1
        return noted

    async def engaged(self, work: Awaitable[_Given]) -> _Given:
        """What the work gives. Meanwhile its connection is not quiet, also where nothing is being answered just now."""
        seen = CURRENT.get()
        if seen is None:
            return await work
        seen.open_answers += 1
        try:
            return await work
        finally:
            seen.open_answers -= 1

    def answered(self, noted: Noted) -> None:
        self.answers.discard(noted)
        self.drain.under_way.discard(noted)
        counts, model = self.counts, noted.model
        counts.add("ferrule_events", model, by=noted.events)
        counts.add("ferrule_tokens", model, "prompt", by=noted.prompt_tokens)
        counts.add("ferrule_tokens", model, "completion", by=noted.completion_tokens)
        counts.observe("ferrule_answer_seconds", noted.ended - noted.began, model)
        if noted.events:
            counts.observe("ferrule_first_event_seconds", noted.first - noted.began, model)
        seen = noted.seen
        if seen is not None and seen.takes(noted):
            return
        total = (noted.ended - noted.began) * 1000
        id = seen.id if seen else ""
        self.log.tell("answer", id=id, **_facts(noted), outcome=noted.outcome, total_ms=total)

    def called(self, model: str, tool: str, how: str, *, is_complete: bool) -> None:
        self.counts.add("ferrule_calls", tool, how, "complete" if is_complete else "incomplete")
        if how == REPAIRED:
            self.counts.add("ferrule_repairs", model)

    def tool_ran(self, tool: str, seconds: float, outcome: str) -> None:
        self.counts.observe("ferrule_tool_seconds", seconds, tool, outcome)

    def leave_asked(self, tool: str) -> None:
        self.counts.add("ferrule_approvals_asked", tool)

    def engine_failed(self, model: str, engine: str, error: EngineError, *, is_stood_in_for: bool) -> None:
        code = type(error).code
        self.counts.add("ferrule_engine_errors", engine, code)
        if is_stood_in_for:
            self.counts.add("ferrule_failovers", model)
        self.log.tell("failover" if is_stood_in_for else "engine_failed", model=model, engine=engine, outcome=code)

    def ledger_failed(self, error: LedgerError) -> None:
        self.counts.add("ferrule_ledger_errors", type(error).code)

    def failed(self, error: FerruleError) -> None:
        """An error that a client is told. Those of the ledger are counted for themselves."""
        if isinstance(error, LedgerError):
            self.ledger_failed(error)

    def held_back(self, tool: str) -> None:
        """A tool is not what was agreed to, or cannot be offered as it is."""
        self.log.tell("quarantine", tool=tool)

    def unexpected(self, error: Exception, request_id: str) -> FerruleError:
        """The stack goes to the log, and the client is told where to ask."""
        self.counts.add("ferrule_unexpected_errors")
        self.log.tell("unexpected", id=request_id, kinds=kinds(error), stack=places(error))
        named = f" with request {request_id}" if request_id else ""
        return FerruleError(f"something went wrong here{named}", hint="Whoever runs this gateway finds it in the log.")


def _facts(noted: Noted) -> dict[str, Value]:
    facts: dict[str, Value] = {
        "model": noted.model,
        "finish": noted.finish,
        "prompt_tokens": noted.prompt_tokens,
        "completion_tokens": noted.completion_tokens,
        "events": noted.events,
    }
    if noted.events:
        facts["first_ms"] = (noted.first - noted.began) * 1000
    if noted.calls:
        facts["calls"] = noted.calls[:_MOST_CALLS]
    if len(noted.calls) > _MOST_CALLS:
        facts["more_calls"] = len(noted.calls) - _MOST_CALLS
    return facts
