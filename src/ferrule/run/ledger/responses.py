"""The transactions on stored responses: add, append events, find, cancel, delete. Independent of database and API.

Only the owner of its conversation can write to a response; a fenced owner adds nothing. Events and the conversation's
state are written in one transaction, so that neither is ever ahead of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.core.context import Principal
from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.approvals import approve, deny, find_approval
from ferrule.run.ledger.audit_chain import append_audit
from ferrule.run.ledger.claim import encode_json, require_name
from ferrule.run.ledger.conversations import release, save
from ferrule.run.ledger.ledger import UNFINISHED, ApprovalDecision, ConversationRecord, ResponseRecord, ResponseStatus
from ferrule.run.ledger.transaction import Row, Transaction, execute, lock, lock_owned


def add_response(
    response: ResponseRecord,
    epoch: int,
    events: Sequence[str],
    state: object,
    decisions: Sequence[ApprovalDecision],
    now: float,
) -> Transaction[None]:
    require_name(response.id, "a response's id")
    conversation = yield from lock_owned(response.conversation, epoch)
    if (conversation.tenant, conversation.principal) != (response.tenant, response.principal):
        raise LedgerError(f"the conversation {conversation.id!r} belongs to another principal", code="other_principal")
    if not (yield from execute("add_response", *_row(response))).count:
        raise LedgerError(f"the id {response.id!r} is taken", code="response_taken", hint="Use random ids.")
    yield from _append_audit(conversation, response, now, response.status.value, {"model": response.model})
    yield from _insert_events(response.id, 0, events)
    if state is not None:
        yield from save(conversation.id, epoch, state, now)
    for decision in decisions:
        yield from _decide(conversation, decision, now)


def append_events(
    response: str,
    epoch: int,
    events: Sequence[str],
    first: int,
    state: object,
    status: ResponseStatus | None,
    reach: int,
    now: float,
) -> Transaction[ResponseRecord]:
    conversation = yield from lock_owned((yield from require_response(response)).conversation, epoch)
    # Read again: before the conversation was locked, another process could have ended it.
    record = yield from require_response(response)
    if record.is_ended:
        raise LedgerError(f"cannot append to {response!r}: it is {record.status.value}", code="response_ended")
    if events:
        ((last,),) = (yield from execute("last_event", response)).rows
        if first != last + 1:
            raise LedgerError(f"the last event of {response!r} is {last}; {first} does not follow", code="response_gap")
        yield from _insert_events(response, first, events)
    if state is not None:
        yield from save(conversation.id, epoch, state, now)
    if status is not None and status is not record.status:
        yield from execute("set_status", status.value, reach, response)
        yield from _append_audit(conversation, record, now, status.value, {"reach": reach})
        if status not in UNFINISHED:
            # A client that reads the end can continue the conversation at once.
            yield from release(conversation.id, epoch, now)
    return (yield from require_response(response))


def find_response(response: str, principal: Principal | None) -> Transaction[ResponseRecord | None]:
    rows = (yield from execute("response", response)).rows
    record = response_of(rows[0]) if rows else None
    if record is None or (principal and (record.tenant, record.principal) != (principal.tenant, principal.name)):
        return None
    return record


def events_after(response: str, after: int, limit: int) -> Transaction[tuple[str, ...]]:
    return tuple(row[0] for row in (yield from execute("events_after", response, after, limit)).rows)


def find_unfinished(limit: int, now: float) -> Transaction[tuple[ResponseRecord, ...]]:
    return tuple(map(response_of, (yield from execute("unfinished_responses", float(now), limit)).rows))


def request_cancel(response: str, principal: Principal, now: float) -> Transaction[ResponseRecord | None]:
    record = yield from find_response(response, principal)
    if record is None:
        return None
    conversation = yield from lock(record.conversation)
    if (yield from execute("ask_to_cancel", response)).count:
        yield from _append_audit(conversation, record, now, "asked_to_cancel", {}, by=principal.name)
    return (yield from find_response(response, principal))


def delete_response(response: str, principal: Principal, now: float) -> Transaction[bool]:
    record = yield from find_response(response, principal)
    if record is None:
        return False
    conversation = yield from lock(record.conversation)
    record = yield from find_response(response, principal)
    if record is None:
        return False
    if not record.is_ended:
        raise LedgerError(f"{response!r} is still running", code="response_unfinished", hint="Cancel it first.")
    yield from execute("delete_events", response)
    yield from execute("delete_response", response)
    yield from _append_audit(conversation, record, now, "deleted", {}, by=principal.name)
    if not (yield from execute("responses_in", conversation.id)).rows:
        yield from save(conversation.id, conversation.epoch, None, now)
    return True


def require_response(response: str) -> Transaction[ResponseRecord]:
    record = yield from find_response(response, None)
    if record is None:
        raise LedgerError(f"there is no response {response!r}", code="unknown_response")
    return record


def response_of(row: Row) -> ResponseRecord:
    id, conversation, tenant, principal, status, model, created, reach, cancelled, request = row
    whose = (id, conversation, tenant, principal)
    return ResponseRecord(*whose, ResponseStatus(status), model, created, reach, bool(cancelled), request)


def _insert_events(response: str, first: int, events: Sequence[str]) -> Transaction[None]:
    for seq, data in enumerate(events, first):
        yield from execute("add_event", response, seq, data)


def _decide(conversation: ConversationRecord, decision: ApprovalDecision, now: float) -> Transaction[None]:
    approval = yield from find_approval(decision.approval)
    if approval is None or approval.conversation != conversation.id:
        raise ApprovalError("there is no such approval in this conversation", code="approval_unknown")
    if decision.is_allowed:
        yield from approve(decision.approval, decision.by, None, "", ApprovalTerms(), now)
    else:
        yield from deny(decision.approval, decision.by, decision.why, now)


def _append_audit(
    conversation: ConversationRecord,
    record: ResponseRecord,
    now: float,
    kind: str,
    detail: dict[str, object],
    by: str = "",
) -> Transaction[None]:
    yield from append_audit(conversation, now, f"response_{kind}", {"response": record.id, **detail}, by=by)


def _row(record: ResponseRecord) -> tuple[object, ...]:
    whose = (record.id, record.conversation, record.tenant, record.principal)
    what = (record.status.value, record.model, float(record.created), record.reach, int(record.is_cancelled))
    return (*whose, *what, encode_json(record.request))
