"""The transitions of stored responses: add, append events, find, cancel, delete. Independent of database and API.

Only the owner of its conversation can write to a response; a fenced owner adds nothing. Events and the conversation's
state are written in one step, so that neither is ever ahead of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ferrule.core.context import Principal
from ferrule.errors import LedgerError
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.approvals import approve, deny
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.conversations import release
from ferrule.run.ledger.ledger import UNFINISHED, ApprovalDecision, ResponseRecord, ResponseStatus
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.transaction import Transaction, execute, response_of
from ferrule.run.ledger.transition import Transition
from ferrule.run.ledger.writes import Kind

_MAX_BATCHES = 100


def add_response(
    transition: Transition,
    response: ResponseRecord,
    events: Sequence[str],
    update: StateUpdate | None,
    decisions: Sequence[ApprovalDecision],
) -> Transaction[None]:
    require_name(response.id, "a response's id")
    conversation = transition.record
    if (conversation.tenant, conversation.principal) != (response.tenant, response.principal):
        raise LedgerError(f"the conversation {conversation.id!r} belongs to another principal", code="other_principal")
    if (yield from transition.response(response.id)) is not None:
        raise LedgerError(f"the id {response.id!r} is taken", code="response_taken", hint="Use random ids.")
    transition.add_response(response)
    _audit(transition, response, response.status.value, {"model": response.model})
    if events:
        transition.add_events(response.id, 0, events)
    if update is not None:
        transition.save(update)
    for decision in decisions:
        if decision.is_allowed:
            yield from approve(transition, decision.approval, decision.by, None, "", ApprovalTerms())
        else:
            yield from deny(transition, decision.approval, decision.by, decision.why)


def append_events(
    transition: Transition,
    response: str,
    events: Sequence[str],
    first: int,
    update: StateUpdate | None,
    status: ResponseStatus | None,
    reach: int,
) -> Transaction[ResponseRecord]:
    record = yield from transition.response(response)
    if record is None:
        raise _unknown_error(response)
    if record.is_ended:
        raise LedgerError(f"cannot append to {response!r}: it is {record.status.value}", code="response_ended")
    if events:
        last = yield from transition.last_event(response)
        if first != last + 1:
            raise LedgerError(f"the last event of {response!r} is {last}; {first} does not follow", code="response_gap")
        transition.add_events(response, first, events)
    if update is not None:
        transition.save(update)
    if status is not None and status is not record.status:
        ended = replace(record, status=status, reach=reach)
        transition.change_response(record, ended)
        _audit(transition, record, status.value, {"reach": reach})
        if status not in UNFINISHED:
            # A client that reads the end can continue the conversation at once.
            release(transition)
        return ended
    return record


def find_conversation_of(response: str) -> Transaction[str]:
    """Return the conversation of a response."""
    record = yield from find_response(response, None)
    if record is None:
        raise _unknown_error(response)
    return record.conversation


def find_response(response: str, principal: Principal | None) -> Transaction[ResponseRecord | None]:
    rows = (yield from execute("response", response)).rows
    record = response_of(rows[0]) if rows else None
    if record is None or (principal and (record.tenant, record.principal) != (principal.tenant, principal.name)):
        return None
    return record


def events_after(response: str, after: int, limit: int) -> Transaction[tuple[str, ...]]:
    """Return some of the events that follow this one, in order: at least one, if there is any."""
    batches = (yield from execute("events_after", response, response, after + 1, min(limit, _MAX_BATCHES))).rows
    events = [event for first, data in batches for event in data.split("\n")[max(0, after + 1 - first) :]]
    if not batches or batches[0][0] > after + 1:
        # An earlier release has begun it.
        old = (yield from execute("old_events_after", response, after, limit)).rows
        events = [*(row[0] for row in old), *events]
    return tuple(events[:limit])


def find_unfinished(limit: int, now: float) -> Transaction[tuple[ResponseRecord, ...]]:
    return tuple(map(response_of, (yield from execute("unfinished_responses", float(now), float(now), limit)).rows))


def request_cancel(transition: Transition, response: str, principal: Principal) -> Transaction[ResponseRecord | None]:
    record = yield from transition.response(response)
    if record is None or record.is_ended or record.is_cancelled:
        return record
    cancelled = replace(record, is_cancelled=True)
    transition.change_response(record, cancelled)
    _audit(transition, record, "asked_to_cancel", {}, by=principal.name)
    return cancelled


def delete_response(transition: Transition, response: str, principal: Principal) -> Transaction[bool]:
    record = yield from transition.response(response)
    if record is None:
        return False
    if not record.is_ended:
        raise LedgerError(f"{response!r} is still running", code="response_unfinished", hint="Cancel it first.")
    transition.write(Kind.EVENT_REMOVAL, transition.record.born, response)
    transition.write(Kind.OLD_EVENT_REMOVAL, response)
    transition.write(Kind.RESPONSE_REMOVAL, response)
    _audit(transition, record, "deleted", {}, by=principal.name)
    others = [row[0] for row in (yield from execute("responses_in", transition.record.id)).rows if row[0] != response]
    if not others:
        transition.save(StateUpdate(None))
    return True


def _unknown_error(response: str) -> LedgerError:
    return LedgerError(f"there is no response {response!r}", code="unknown_response")


def _audit(transition: Transition, record: ResponseRecord, kind: str, detail: dict[str, object], by: str = "") -> None:
    transition.audit(f"response_{kind}", {"response": record.id, **detail}, by=by)
