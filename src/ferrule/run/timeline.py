"""Timeline: what happened in a conversation, oldest first, for people to read. No ledger and no clock.

It is built from the audit rows, the messages, the calls and the approvals. Where an older record has no time or count,
the entry has none either.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage
from ferrule.core.outcome import Answered, Outcome
from ferrule.run.ledger.ledger import Approval, ApprovalState, AuditRecord, CallRecord, CallState
from ferrule.run.timeline_entry import EntryKind, TimelineEntry, size_of, title_of
from ferrule.run.timeline_labels import message_entries

_RUN_ENDS = frozenset({CallState.DONE.value, CallState.FAILED.value, CallState.UNKNOWN.value})
_FINAL_STATES = _RUN_ENDS | {CallState.DENIED.value, CallState.REFUSED.value}
_RETRY_SUFFIX = "~"
_WAITING, _EXPIRED = "waiting for approval", "approval expired"
_LABELS: Mapping[ApprovalState, str] = {
    ApprovalState.PENDING: _WAITING,
    ApprovalState.APPROVED: "approved",
    ApprovalState.REDEEMED: "approved",
    ApprovalState.DENIED: "denied",
    ApprovalState.REPLACED: _EXPIRED,
}
# Whether a process owns the conversation after such a row.
_IS_OWNED_AFTER: Mapping[str, bool] = {"opened": True, "taken_over": True, "released": False}
# Rows that are about neither a call nor a reply, but explain the entries before and after them.
_OTHER_ROWS: Mapping[str, tuple[EntryKind, str, bool]] = {
    "response_asked_to_cancel": (EntryKind.CANCEL, "asked to stop", False),
    "response_failed": (EntryKind.FAILED, "the response failed", True),
}


def timeline_of(
    rows: Sequence[AuditRecord],
    messages: Sequence[ChatMessage],
    calls: Sequence[CallRecord],
    approvals: Sequence[Approval],
    *,
    now: float,
) -> tuple[TimelineEntry, ...]:
    """Build the timeline. `now` decides which approvals have expired. Damaged rows are left out."""
    rows = [row for row in rows if _is_readable(row.at, row.kind, row.call_id)]
    entries = [
        *message_entries(rows, messages, {call.id for call in calls}),
        *(_approval(one, now) for one in approvals),
        *_calls(rows, calls),
        *_other_entries(rows),
    ]
    return tuple(sorted(entries, key=lambda one: (one.at, one.kind.rank)))


def _is_readable(at: object, *texts: object) -> bool:
    is_time = isinstance(at, int | float) and isfinite(at)
    return is_time and all(isinstance(text, str) for text in texts)


@dataclass(slots=True)
class _CallHistory:
    """One call: when it reached each state and in which epoch, and whether it is a retry after an error."""

    at: dict[str, tuple[float, int]] = field(default_factory=dict[str, tuple[float, int]])
    is_retry: bool = False

    @property
    def began(self) -> float | None:
        start = self.at.get(CallState.STARTED.value)
        return start and start[0]

    @property
    def seconds(self) -> float | None:
        """How long it ran. Unknown if its owner died: the end was recorded later, by another owner."""
        start = self.at.get(CallState.STARTED.value)
        end = next((reached for state, reached in self.at.items() if state in _RUN_ENDS), None)
        return end[0] - start[0] if start and end and start[1] == end[1] else None


def _calls(rows: Sequence[AuditRecord], calls: Sequence[CallRecord]) -> Iterator[TimelineEntry]:
    histories = _histories(rows, {call.id: call.tool for call in calls})
    for call in calls:
        history = histories[call.id]
        if history.began is not None:
            yield _run(call, history, history.began)
        elif call.state is CallState.REFUSED and CallState.REFUSED.value in history.at:
            at = history.at[CallState.REFUSED.value][0]
            yield TimelineEntry(
                at, EntryKind.REFUSED, _call_title(call), call_id=call.id, tool=call.tool, is_error=True
            )


def _histories(rows: Sequence[AuditRecord], tools: Mapping[str, str]) -> dict[str, _CallHistory]:
    histories = {id: _CallHistory() for id in tools}
    failed: dict[str, str] = {}
    """The round of the last result of each tool, where that result was an error."""
    for row in rows:
        history = histories.get(row.call_id)
        if history is None:
            continue
        tool, round = tools[row.call_id], row.call_id.rpartition(".")[0] or row.call_id
        history.at.setdefault(row.kind, (row.at, row.epoch))
        if row.kind == CallState.STARTED.value:
            # The calls of one round were written before any of them failed, so they are no retries of each other.
            is_after = tool in failed and failed[tool] != round
            history.is_retry = is_after or row.call_id.endswith(_RETRY_SUFFIX)
        elif row.kind == CallState.DONE.value:
            failed.pop(tool, None)
        elif row.kind in _FINAL_STATES:
            failed[tool] = round
    return histories


def _run(call: CallRecord, history: _CallHistory, began: float) -> TimelineEntry:
    kind = EntryKind.RETRY if history.is_retry else EntryKind.TOOL
    return TimelineEntry(
        began,
        EntryKind.UNKNOWN if call.state is CallState.UNKNOWN else kind,
        _call_title(call),
        history.seconds,
        call_id=call.id,
        tool=call.tool,
        bytes=None if call.outcome is None else size_of(_text_of(call.outcome)),
        is_error=call.state in (CallState.FAILED, CallState.UNKNOWN),
    )


def _text_of(outcome: Outcome) -> str:
    if not isinstance(outcome, Answered):
        return outcome.reason
    return outcome.content if isinstance(outcome.content, str) else dumps(outcome.content)


def _call_title(call: CallRecord) -> str:
    return title_of(f"{call.tool} {call.arguments.decode('utf-8', 'backslashreplace')}")


def _approval(approval: Approval, now: float) -> TimelineEntry:
    is_late = approval.state is ApprovalState.PENDING and approval.expires_at <= now
    label = _EXPIRED if is_late else _LABELS[approval.state]
    by = f" by {approval.decided_by}" if approval.decided_by else ""
    why = f": {approval.why}" if approval.why else ""
    return TimelineEntry(
        approval.requested_at,
        EntryKind.APPROVAL,
        title_of(f"{approval.tool} {label}{by}{why}"),
        None if approval.decided_at is None else approval.decided_at - approval.requested_at,
        call_id=approval.call_id,
        tool=approval.tool,
        approval=approval.id,
        bytes=len(approval.arguments),
        is_error=approval.state is ApprovalState.DENIED,
    )


def _other_entries(rows: Sequence[AuditRecord]) -> Iterator[TimelineEntry]:
    is_owned = False
    for row in rows:
        if row.kind == "taken_over" and is_owned:
            yield TimelineEntry(
                row.at, EntryKind.TAKEN_OVER, "its process stopped, and another one continued", is_error=True
            )
        elif row.kind in _OTHER_ROWS:
            kind, label, is_error = _OTHER_ROWS[row.kind]
            by = f" by {row.by}" if kind is EntryKind.CANCEL else ""
            yield TimelineEntry(row.at, kind, title_of(f"{label}{by}"), is_error=is_error)
        is_owned = _IS_OWNED_AFTER.get(row.kind, is_owned)
