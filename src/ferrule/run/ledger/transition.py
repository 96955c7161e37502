"""Transition: one change of a conversation while it is put together. It reads, computes, and becomes one step.

The logic of the ledger is generators that yield statements, which only read, and receive their results; so it exists
once for all databases and does no IO itself. What they write is collected here, each row as it will be, and written at
the end by one step (`step`). A row that is read again is read as it will be.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from ferrule.core.outcome import Unknown
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.audit_chain import hash_of_fields
from ferrule.run.ledger.claim import encode_json, sha256
from ferrule.run.ledger.held_conversations import NOTHING_KNOWN, HeldConversations, Known
from ferrule.run.ledger.ledger import CALL_TRANSITIONS, Approval, CallRecord, ConversationRecord, ResponseRecord
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.step import Step, Values, Version
from ferrule.run.ledger.title import title_of_messages
from ferrule.run.ledger.transaction import Transaction, approval_of, call_of, execute, response_of
from ferrule.run.ledger.writes import WRITES, Kind
from ferrule.run.machine import outcome_as_dict
from ferrule.run.timeline_entry import title_of

T = TypeVar("T")
_REMOVED = "Use a new id. This one stays taken for as long as its audit log is kept."
_MAX_TRIES = 200
"""More steps than this have come between the reading and the writing of one: something is wrong."""


@dataclass(slots=True)
class Transition:
    """`record` is the conversation as it will be; its audit rows are counted when the `step` is made.

    Without `before` it is new. `known` is what this process wrote last, as it is.
    """

    record: ConversationRecord
    now: float
    before: Version | None = None
    state_text: str | None = None
    known: Known = NOTHING_KNOWN
    _has_new_lease: bool = False
    _calls: dict[str, tuple[CallRecord | None, CallRecord]] = field(
        default_factory=dict[str, tuple[CallRecord | None, CallRecord]]
    )
    """Each call that is written: as it was read, None if it is new, and as it will be."""
    _approvals: dict[str, tuple[Approval | None, Approval]] = field(
        default_factory=dict[str, tuple[Approval | None, Approval]]
    )
    _responses: dict[str, tuple[ResponseRecord | None, ResponseRecord]] = field(
        default_factory=dict[str, tuple[ResponseRecord | None, ResponseRecord]]
    )
    _last_events: dict[str, int] = field(default_factory=dict[str, int])
    _rows: dict[Kind, list[Values]] = field(default_factory=dict[Kind, list[Values]])
    _chain: tuple[int, str, float] | None = None
    """The number, the hash and the time of the last audit row, once there is one."""

    @staticmethod
    def of(
        record: ConversationRecord, now: float, known: Known = NOTHING_KNOWN, *, is_owners: bool = True
    ) -> Transition:
        """Return a change of this conversation, by its owner or by anyone else.

        Only the owner knows of its lease what is not read: anyone else must not write back one that has changed since.
        """
        lease_until = None if is_owners else record.lease_until
        return Transition(record, float(now), Version(record.epoch, record.seq, lease_until), known=known)

    def write(self, kind: Kind, *values: object) -> None:
        self._rows.setdefault(kind, []).append(values)

    # --- The conversation ---

    def hand_over(self, owner: str, lease_until: float) -> None:
        """Give the conversation to another owner, in a new epoch."""
        assert self.before is not None
        self.before = replace(self.before, lease_until=self.record.lease_until)
        self.record = replace(self.record, owner=owner, epoch=self.record.epoch + 1, lease_until=lease_until)

    def set_lease(self, until: float) -> None:
        self._has_new_lease = self._has_new_lease or until != self.record.lease_until
        self.record = replace(self.record, lease_until=until)

    def save(self, update: StateUpdate) -> None:
        """Save a state, with an audit row that names everything in it by its hash."""
        record = self.record
        if update.first > record.messages:
            raise LedgerError(
                f"{record.id!r} has {record.messages} messages; number {update.first} does not follow",
                code="message_gap",
            )
        texts = [encode_json(message) for message in update.messages]
        for number, text in enumerate(texts, update.first):
            self.write(Kind.MESSAGE, record.born, record.id, number, text)
        self.state_text = encode_json(update.rest)
        title = title_of_messages(update.messages) if not update.first else ""
        self.record = replace(record, version=record.version + 1, messages=update.count, title=title or record.title)
        detail: dict[str, object] = {
            "version": self.record.version,
            "state_sha256": sha256(self.state_text.encode()),
            "messages": update.count,
        }
        if texts:
            detail["messages_sha256"] = sha256("\n".join(texts).encode())
        self.audit("saved", detail)

    def audit(
        self, kind: str, detail: Mapping[str, object], *, call_id: str = "", approval: str = "", by: str = ""
    ) -> None:
        """Append a row to the conversation's hash chain."""
        record, now = self.record, self.now
        last, previous, _ = self._chain or (record.seq, record.head, now)
        row = (record.id, last + 1, now, kind, call_id, approval, by or record.owner, record.epoch, encode_json(detail))
        head = hash_of_fields(previous, *row)
        self.write(Kind.AUDIT, *row, previous, head, record.born)
        self._chain = (last + 1, head, now)

    # --- Calls, approvals, responses: read as they will be ---

    def call(self, call_id: str) -> Transaction[CallRecord | None]:
        if call_id in self._calls:
            return self._calls[call_id][1]
        if call_id in self.known.calls:
            return self.known.calls[call_id]
        rows = (yield from execute("call", self.record.id, call_id)).rows
        return call_of(rows[0]) if rows else None

    def require_call(self, call_id: str) -> Transaction[CallRecord]:
        call = yield from self.call(call_id)
        if call is None:
            raise LedgerError(f"there is no call {call_id!r} in {self.record.id!r}", code="unknown_call")
        return call

    def add_call(self, call: CallRecord) -> None:
        self._calls[call.id] = (None, call)
        if not self.record.title and not self.record.messages:
            self.record = replace(self.record, title=title_of(call.tool))

    def change_call(self, was: CallRecord, call: CallRecord) -> None:
        first, _ = self._calls.get(call.id, (was, was))
        self._calls[call.id] = (first, call)

    def approval(self, id: str) -> Transaction[Approval | None]:
        if id in self._approvals:
            return self._approvals[id][1]
        rows = (yield from execute("approval", id)).rows
        return approval_of(rows[0]) if rows else None

    def is_new_approval(self, id: str) -> bool:
        return id in self._approvals and self._approvals[id][0] is None

    def add_approval(self, approval: Approval) -> None:
        self._approvals[approval.id] = (None, approval)

    def change_approval(self, was: Approval, approval: Approval) -> None:
        first, _ = self._approvals.get(approval.id, (was, was))
        self._approvals[approval.id] = (first, approval)

    def response(self, id: str) -> Transaction[ResponseRecord | None]:
        if id in self._responses:
            return self._responses[id][1]
        if id in self.known.responses:
            return self.known.responses[id]
        rows = (yield from execute("response", id)).rows
        if not rows:
            return None
        read = response_of(rows[0])
        self._responses[id] = (read, read)
        return read

    def last_event(self, response: str) -> Transaction[int]:
        """Return the number of the last event of a response; -1 if it has none."""
        if response in self._last_events:
            return self._last_events[response]
        if response in self.known.last_events:
            return self.known.last_events[response]
        ((last,),) = (yield from execute("last_event", response, response)).rows
        self._last_events[response] = last
        return last

    def add_events(self, response: str, first: int, events: Sequence[str]) -> None:
        """Append events, each of which is one line of text."""
        data = "\n".join(events)
        if data.count("\n") != len(events) - 1:
            raise LedgerError("an event is JSON without line breaks", code="bad_event")
        self.write(Kind.EVENT, self.record.born, response, first, len(events), data)
        self._last_events[response] = first + len(events) - 1

    def add_response(self, response: ResponseRecord) -> None:
        self._responses[response.id] = (None, replace(response, request_text=encode_json(response.request)))

    def change_response(self, was: ResponseRecord, response: ResponseRecord) -> None:
        first, _ = self._responses.get(response.id, (was, was))
        self._responses[response.id] = (first, response)

    # --- The end ---

    def step(self) -> Step | None:
        """Return what is to be written; None if nothing changes."""
        for was, call in self._calls.values():
            if was is None:
                self.write(Kind.CALL, *_call_row(call))
                continue
            guard = (call.conversation, call.id, was.state.value)
            if was.binding == call.binding:
                self.write(Kind.CALL_STATE, *_call_state(call), *guard)
            else:
                self.write(Kind.CALL_CHANGE, *_call_change(call), *guard)
        for was, approval in self._approvals.values():
            if was is None:
                self.write(Kind.APPROVAL, *_approval_row(approval))
            else:
                guard = (approval.id, was.state.value, was.binding)
                self.write(Kind.APPROVAL_CHANGE, *_approval_change(approval), *guard)
        for was, response in self._responses.values():
            state = (response.status.value, response.reach, int(response.is_cancelled))
            if was is None:
                self.write(Kind.RESPONSE, *_response_row(response))
            elif was is not response:
                self.write(Kind.RESPONSE_CHANGE, *state, response.id, was.status.value)
        if not self._rows and not self._has_new_lease:
            return None
        rows = {kind: last_of_each(kind, values) for kind, values in self._rows.items()}
        if self._chain is not None:
            seq, head, at = self._chain
            self.record = replace(self.record, seq=seq, head=head, changed_at=at)
        state_text = "null" if self.before is None and self.state_text is None else self.state_text
        return Step(self.before, self.record, state_text, rows)

    @property
    def known_after(self) -> Known:
        """What was known or is written and has not ended, as it is after the step."""
        calls = {**self.known.calls, **{id: call for id, (_, call) in self._calls.items()}}
        responses = {**self.known.responses, **{id: response for id, (_, response) in self._responses.items()}}
        return Known(
            {id: call for id, call in calls.items() if CALL_TRANSITIONS[call.state]},
            {id: response for id, response in responses.items() if not response.is_ended},
            {**self.known.last_events, **self._last_events},
        )


def last_of_each(kind: Kind, rows: list[Values]) -> tuple[Values, ...]:
    """Return the rows to write. One that replaces an earlier one of the same step is written instead of it."""
    write = WRITES[kind]
    if write.replaces is None:
        return tuple(rows)
    places = [number for number, name in enumerate(write.columns) if name in write.key]
    return tuple({tuple(row[place] for place in places): row for row in rows}.values())


Body: TypeAlias = "Callable[[Transition], Transaction[T]]"


def change(held: HeldConversations, conversation: str, epoch: int | None, now: float, body: Body[T]) -> Transaction[T]:
    """Run a transition for the owner of this epoch, or with None for anyone, until it is written or refused."""
    for _ in range(_MAX_TRIES):
        known = held.get(conversation, epoch)
        record = known or (yield from find_owned(conversation, epoch))
        known_rows = held.known(conversation) if known is not None else NOTHING_KNOWN
        transition = Transition.of(record, now, known_rows, is_owners=epoch is not None)
        try:
            result = yield from body(transition)
        except LedgerError:
            if known is None:
                raise
            # The process may no longer own it, and that would be the right error.
            held.drop(conversation)
            continue
        step = transition.step()
        if step is None and known is not None:
            # Nothing is written that would be compared: an owner that was replaced is still refused.
            held.drop(conversation)
            continue
        if step is None:
            return result
        if (yield step).count:
            if epoch is not None:
                held.put(transition.record, transition.known_after)
            return result
        held.drop(conversation)
    raise conflict_error(conversation)


def conflict_error(conversation: str) -> LedgerError:
    return LedgerError(f"{conversation!r} is changed all the time by others", code="ledger_conflict", hint="Try again.")


def find_record(conversation: str) -> Transaction[ConversationRecord]:
    """Read a conversation without its state."""
    record = yield from _read_record(conversation)
    if record.is_removed:
        raise LedgerError(f"the conversation {conversation!r} was removed", code="conversation_removed", hint=_REMOVED)
    return record


def find_owned(conversation: str, epoch: int | None) -> Transaction[ConversationRecord]:
    """Read a conversation for the owner of this epoch. Raises `FencedError` for any other epoch."""
    record = yield from _read_record(conversation)
    if record.is_removed and epoch is not None:
        raise FencedError(f"the conversation {conversation!r} was removed", code="conversation_removed", hint=_REMOVED)
    if record.is_removed:
        raise LedgerError(f"the conversation {conversation!r} was removed", code="conversation_removed", hint=_REMOVED)
    if epoch is not None and record.epoch != epoch:
        raise FencedError(
            f"{conversation!r} is in epoch {record.epoch}; this owner has epoch {epoch}",
            hint="Another process has taken the conversation over. Stop, and load it again.",
        )
    return record


def _read_record(conversation: str) -> Transaction[ConversationRecord]:
    result = yield from execute("conversation_head", conversation)
    if not result.rows:
        raise LedgerError(f"there is no conversation {conversation!r}", code="unknown_conversation")
    return ConversationRecord(*result.rows[0])


def _call_state(call: CallRecord) -> Values:
    return (call.state.value, call.epoch, _outcome_text(call))


def _call_change(call: CallRecord) -> Values:
    return (call.arguments, call.arguments_sha256, call.binding, *_call_state(call))


def _outcome_text(call: CallRecord) -> str:
    # A started call has no outcome. What stands there instead is the task, as an outcome that releases without tasks
    # can read: they may run beside this one.
    outcome = Unknown(call.task, code="task") if call.task else call.outcome
    return "null" if outcome is None else encode_json(outcome_as_dict(outcome))


def _call_row(call: CallRecord) -> Values:
    return (
        *(call.conversation, call.id, call.tool, call.tool_fingerprint),
        *(call.arguments, call.arguments_sha256, call.binding, int(call.side_effects), int(call.needs_approval)),
        *_call_state(call),
    )


def _approval_change(approval: Approval) -> Values:
    decision = (approval.state.value, approval.decided_by, approval.decided_at, encode_json(approval.why))
    return (*decision, approval.arguments, approval.arguments_sha256, approval.binding)


def _approval_row(approval: Approval) -> Values:
    return (
        *(approval.id, approval.conversation, approval.call_id, approval.tenant, approval.principal, approval.tool),
        *(approval.tool_fingerprint, approval.arguments, approval.arguments_sha256, approval.binding),
        *(approval.state.value, approval.requested_at, approval.expires_at),
        *(approval.decided_by, approval.decided_at, encode_json(approval.why)),
    )


def _response_row(record: ResponseRecord) -> Values:
    whose = (record.id, record.conversation, record.tenant, record.principal)
    what = (record.status.value, record.model, float(record.created), record.reach, int(record.is_cancelled))
    return (*whose, *what, record.request_text)
