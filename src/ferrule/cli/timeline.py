"""Timeline: the calls of a conversation over time, drawn to scale as text. It knows no ledger and no terminal.

The times come from the audit log. A call waits for approval, runs and ends, or its outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ferrule.run.ledger.ledger import AuditRecord, CallRecord, CallState

WIDTH = 24
_WAITS, _RUNS, _LOST, _IDLE = "░", "█", "?", " "
_ENDS = frozenset(
    state.value for state in (CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.DENIED, CallState.REFUSED)
)
LEGEND = f"{_WAITS} waiting for approval   {_RUNS} running   {_LOST} outcome unknown"


@dataclass(slots=True)
class Span:
    """One call: the times of its states, and who decided on it."""

    tool: str = ""
    side_effects: bool = False
    at: dict[str, float] = field(default_factory=dict[str, float])
    decided_by: str = ""

    @property
    def end(self) -> str:
        """The final state, or the current one."""
        return next((state for state in self.at if state in _ENDS), [*self.at][-1] if self.at else "")

    def seconds(self, since: str, until: str) -> float | None:
        if since not in self.at or until not in self.at:
            return None
        return self.at[until] - self.at[since]


@dataclass(frozen=True, slots=True)
class Timeline:
    began: float
    ended: float
    owners: int
    """How many processes have had the lease of the conversation, one after the other."""
    spans: dict[str, Span]

    @staticmethod
    def of(rows: Sequence[AuditRecord], calls: Iterable[CallRecord]) -> Timeline:
        spans = {call.id: Span(call.tool, call.side_effects) for call in calls}
        for row in rows:
            span = spans.get(row.call_id)
            if span is None:
                continue
            span.at.setdefault(row.kind, row.at)
            if row.kind in (CallState.APPROVED.value, CallState.DENIED.value):
                span.decided_by = row.by
        ordered = sorted(spans.items(), key=lambda pair: min(pair[1].at.values(), default=0.0))
        times = [row.at for row in rows]
        owners = len({row.epoch for row in rows})
        return Timeline(min(times, default=0.0), max(times, default=0.0), owners, dict(ordered))

    @property
    def seconds(self) -> float:
        return self.ended - self.began

    @property
    def scale(self) -> str:
        return f"0 to {self.seconds:.2f} s"

    def bar(self, span: Span) -> str:
        """Draw a call, to the scale of the whole conversation."""
        begins = {
            self._column(at): mark
            for state, mark in ((CallState.AWAITING_APPROVAL, _WAITS), (CallState.STARTED, _RUNS))
            if (at := span.at.get(state.value)) is not None
        }
        last = span.at.get(span.end, self.ended)
        mark, drawn = _IDLE, ""
        for column in range(self._column(last) + 1):
            mark = begins.get(column, mark)
            drawn += mark
        return drawn[:-1] + _LOST if span.end == CallState.UNKNOWN.value else drawn

    def describe(self, span: Span) -> str:
        """Describe a call: its final state, how long it ran, and who decided on it after how long."""
        ran = span.seconds(CallState.STARTED.value, span.end)
        words = [span.end if ran is None else f"{span.end} in {ran:.3f} s"]
        for state in (CallState.APPROVED.value, CallState.DENIED.value):
            waited = span.seconds(CallState.AWAITING_APPROVAL.value, state)
            if waited is not None:
                words.append(f"{state} by {span.decided_by} after {waited:.1f} s")
        return ", ".join(dict.fromkeys(words))

    def _column(self, at: float) -> int:
        share = (at - self.began) / self.seconds if self.seconds else 0.0
        return min(WIDTH - 1, max(0, int(share * WIDTH)))
