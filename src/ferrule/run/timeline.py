"""Timeline: what happened in a conversation, moment by moment, oldest first, for people to read. No ledger, no clock.

Made from what is written: the rows of the audit, the messages, the calls, the approvals. Where an older record lacks a
time or a count, the moment is there without it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage
from ferrule.core.outcome import Answered, Outcome
from ferrule.run.ledger.ledger import Approval, ApprovalState, AuditRecord, CallRecord, CallState
from ferrule.run.timeline_entry import Kind, Moment, size_of, title_of
from ferrule.run.timeline_labels import said_moments

_ENDS = frozenset({CallState.DONE.value, CallState.FAILED.value, CallState.UNKNOWN.value})
_FATES = _ENDS | {CallState.DENIED.value, CallState.REFUSED.value}
_LOST_ATTEMPT = "~"
_WAITS, _RAN_OUT = "waits for leave", "leave ran out"
_WORDS: Mapping[ApprovalState, str] = {
    ApprovalState.PENDING: _WAITS,
    ApprovalState.APPROVED: "approved",
    ApprovalState.REDEEMED: "approved",
    ApprovalState.DENIED: "denied",
    ApprovalState.REPLACED: _RAN_OUT,
}
# Whether somebody holds the conversation after such a row.
_HOLDS: Mapping[str, bool] = {"opened": True, "taken_over": True, "released": False}
# Rows that are about neither a call nor a reply, and that explain what a reader sees before and after them.
_OTHERS: Mapping[str, tuple[Kind, str, bool]] = {
    "response_asked_to_cancel": (Kind.CANCEL, "asked to stop", False),
    "response_failed": (Kind.FAILED, "the response failed", True),
}


def timeline_of(
    rows: Sequence[AuditRecord],
    messages: Sequence[ChatMessage],
    calls: Sequence[CallRecord],
    approvals: Sequence[Approval],
    *,
    now: float,
) -> tuple[Moment, ...]:
    """Everything that can be told; `now` says which leave has run out. Rows that somebody spoiled tell nothing."""
    rows = [row for row in rows if _is_readable(row.at, row.kind, row.call_id)]
    found = [
        *said_moments(rows, messages, {call.id for call in calls}),
        *(_approval(one, now) for one in approvals),
        *_calls(rows, calls),
        *_others(rows),
    ]
    return tuple(sorted(found, key=lambda one: (one.at, one.kind.rank)))


def _is_readable(at: object, *texts: object) -> bool:
    is_moment = isinstance(at, int | float) and isfinite(at)
    return is_moment and all(isinstance(text, str) for text in texts)


@dataclass(slots=True)
class _Life:
    """One call: when it came to which state, by whose epoch, and whether it tries again what failed before."""

    at: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    is_retry: bool = False

    @property
    def began(self) -> float | None:
        known = self.at.get(CallState.STARTED.value)
        return known and known[0]

    @property
    def seconds(self) -> float | None:
        """How long it ran. Of one whose owner died nobody knows: it was found dead later."""
        start = self.at.get(CallState.STARTED.value)
        end = next((known for state, known in self.at.items() if state in _ENDS), None)
        return end[0] - start[0] if start and end and start[1] == end[1] else None


def _calls(rows: Sequence[AuditRecord], calls: Sequence[CallRecord]) -> Iterator[Moment]:
    lives = _lives(rows, {call.id: call.tool for call in calls})
    for call in calls:
        life = lives[call.id]
        if life.began is not None:
            yield _run(call, life, life.began)
        elif call.state is CallState.REFUSED and CallState.REFUSED.value in life.at:
            at = life.at[CallState.REFUSED.value][0]
            yield Moment(at, Kind.REFUSED, _named(call), call_id=call.id, tool=call.tool, is_error=True)


def _lives(rows: Sequence[AuditRecord], tools: Mapping[str, str]) -> dict[str, _Life]:
    lives = {id: _Life() for id in tools}
    failed: dict[str, str] = {}
    """Of each tool whose last result was an error, the round in which it was."""
    for row in rows:
        life = lives.get(row.call_id)
        if life is None:
            continue
        tool, round = tools[row.call_id], row.call_id.rpartition(".")[0] or row.call_id
        life.at.setdefault(row.kind, (row.at, row.epoch))
        if row.kind == CallState.STARTED.value:
            # Calls of one round were written before any of them had failed.
            is_after = tool in failed and failed[tool] != round
            life.is_retry = is_after or row.call_id.endswith(_LOST_ATTEMPT)
        elif row.kind == CallState.DONE.value:
            failed.pop(tool, None)
        elif row.kind in _FATES:
            failed[tool] = round
    return lives


def _run(call: CallRecord, life: _Life, began: float) -> Moment:
    kind = Kind.RETRY if life.is_retry else Kind.TOOL
    return Moment(
        began,
        Kind.UNKNOWN if call.state is CallState.UNKNOWN else kind,
        _named(call),
        life.seconds,
        call_id=call.id,
        tool=call.tool,
        bytes=None if call.outcome is None else size_of(_told(call.outcome)),
        is_error=call.state in (CallState.FAILED, CallState.UNKNOWN),
    )


def _told(outcome: Outcome) -> str:
    if not isinstance(outcome, Answered):
        return outcome.reason
    return outcome.content if isinstance(outcome.content, str) else dumps(outcome.content)


def _named(call: CallRecord) -> str:
    return title_of(f"{call.tool} {call.arguments.decode('utf-8', 'backslashreplace')}")


def _approval(one: Approval, now: float) -> Moment:
    is_late = one.state is ApprovalState.PENDING and one.expires_at <= now
    words = _RAN_OUT if is_late else _WORDS[one.state]
    by = f" by {one.decided_by}" if one.decided_by else ""
    why = f": {one.why}" if one.why else ""
    return Moment(
        one.requested_at,
        Kind.APPROVAL,
        title_of(f"{one.tool} {words}{by}{why}"),
        None if one.decided_at is None else one.decided_at - one.requested_at,
        call_id=one.call_id,
        tool=one.tool,
        approval=one.id,
        bytes=len(one.arguments),
        is_error=one.state is ApprovalState.DENIED,
    )


def _others(rows: Sequence[AuditRecord]) -> Iterator[Moment]:
    is_held = False
    for row in rows:
        if row.kind == "taken_over" and is_held:
            yield Moment(row.at, Kind.TAKEN_OVER, "its process stopped, and another one went on", is_error=True)
        elif row.kind in _OTHERS:
            kind, words, is_error = _OTHERS[row.kind]
            by = f" by {row.by}" if kind is Kind.CANCEL else ""
            yield Moment(row.at, kind, title_of(f"{words}{by}"), is_error=is_error)
        is_held = _HOLDS.get(row.kind, is_held)
