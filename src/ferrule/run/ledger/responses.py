"""What can be done with a kept answer, as work: add, tell, find, cancel, delete. Knows no database and no API.

What is told of an answer is told by the owner of its conversation alone: an owner who was fenced off adds nothing. The
events and the conversation's state are written in one transaction, so that neither is ever ahead of the other.
"""

from __future__ import annotations

from collections.abc import Sequence

from ferrule.core.context import Principal
from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.approvals import approved, denied, found_approval
from ferrule.run.ledger.audit_chain import noted
from ferrule.run.ledger.claim import checked_name, kept_json
from ferrule.run.ledger.conversations import released, saved
from ferrule.run.ledger.ledger import UNFINISHED, ConversationRecord, ResponseRecord, ResponseStatus, Verdict
from ferrule.run.ledger.transaction import Row, Work, locked, owned, say


def added(
    response: ResponseRecord,
    epoch: int,
    events: Sequence[str],
    state: object,
    verdicts: Sequence[Verdict],
    now: float,
) -> Work[None]:
    checked_name(response.id, "a response's id")
    held = yield from owned(response.conversation, epoch)
    if (held.tenant, held.principal) != (response.tenant, response.principal):
        raise LedgerError(f"the conversation {held.id!r} is another principal's", code="other_principal")
    if not (yield from say("add_response", *_kept(response))).count:
        raise LedgerError(f"the id {response.id!r} is taken", code="response_taken", hint="Draw ids at random.")
    yield from _noted(held, response, now, response.status.value, {"model": response.model})
    yield from _say_events(response.id, 0, events)
    if state is not None:
        yield from saved(held.id, epoch, state, now)
    for verdict in verdicts:
        yield from _judged(held, verdict, now)


def told(
    response: str,
    epoch: int,
    events: Sequence[str],
    first: int,
    state: object,
    status: ResponseStatus | None,
    reach: int,
    now: float,
) -> Work[ResponseRecord]:
    held = yield from owned((yield from known(response)).conversation, epoch)
    # Read again: until the conversation was locked somebody else could end it.
    record = yield from known(response)
    if record.is_ended:
        raise LedgerError(f"{response!r} is {record.status.value}, and nothing is added to it", code="response_ended")
    if events:
        ((last,),) = (yield from say("last_event", response)).rows
        if first != last + 1:
            raise LedgerError(f"{response!r} was told up to {last}; {first} does not follow", code="response_gap")
        yield from _say_events(response, first, events)
    if state is not None:
        yield from saved(held.id, epoch, state, now)
    if status is not None and status is not record.status:
        yield from say("set_status", status.value, reach, response)
        yield from _noted(held, record, now, status.value, {"reach": reach})
        if status not in UNFINISHED:
            # Whoever reads that it has ended can go on from it at once.
            yield from released(held.id, epoch, now)
    return (yield from known(response))


def found(response: str, principal: Principal | None) -> Work[ResponseRecord | None]:
    rows = (yield from say("response", response)).rows
    record = response_of(rows[0]) if rows else None
    if record is None or (principal and (record.tenant, record.principal) != (principal.tenant, principal.name)):
        return None
    return record


def events_after(response: str, after: int, limit: int) -> Work[tuple[str, ...]]:
    return tuple(row[0] for row in (yield from say("events_after", response, after, limit)).rows)


def unfinished(limit: int, now: float) -> Work[tuple[ResponseRecord, ...]]:
    return tuple(map(response_of, (yield from say("unfinished_responses", float(now), limit)).rows))


def asked_to_cancel(response: str, principal: Principal, now: float) -> Work[ResponseRecord | None]:
    record = yield from found(response, principal)
    if record is None:
        return None
    held = yield from locked(record.conversation)
    if (yield from say("ask_to_cancel", response)).count:
        yield from _noted(held, record, now, "asked_to_cancel", {}, by=principal.name)
    return (yield from found(response, principal))


def deleted(response: str, principal: Principal, now: float) -> Work[bool]:
    record = yield from found(response, principal)
    if record is None:
        return False
    held = yield from locked(record.conversation)
    record = yield from found(response, principal)
    if record is None:
        return False
    if not record.is_ended:
        raise LedgerError(f"{response!r} is under way", code="response_unfinished", hint="Cancel it first.")
    yield from say("delete_events", response)
    yield from say("delete_response", response)
    yield from _noted(held, record, now, "deleted", {}, by=principal.name)
    if not (yield from say("responses_in", held.id)).rows:
        yield from saved(held.id, held.epoch, None, now)
    return True


def known(response: str) -> Work[ResponseRecord]:
    record = yield from found(response, None)
    if record is None:
        raise LedgerError(f"there is no response {response!r}", code="unknown_response")
    return record


def response_of(row: Row) -> ResponseRecord:
    id, conversation, tenant, principal, status, model, created, reach, cancelled, request = row
    whose = (id, conversation, tenant, principal)
    return ResponseRecord(*whose, ResponseStatus(status), model, created, reach, bool(cancelled), request)


def _say_events(response: str, first: int, events: Sequence[str]) -> Work[None]:
    for seq, data in enumerate(events, first):
        yield from say("add_event", response, seq, data)


def _judged(held: ConversationRecord, verdict: Verdict, now: float) -> Work[None]:
    asked = yield from found_approval(verdict.approval)
    if asked is None or asked.conversation != held.id:
        raise ApprovalError("there is no such approval in this conversation", code="approval_unknown")
    if verdict.is_allowed:
        yield from approved(verdict.approval, verdict.by, None, now)
    else:
        yield from denied(verdict.approval, verdict.by, verdict.why, now)


def _noted(
    held: ConversationRecord, record: ResponseRecord, now: float, kind: str, told: dict[str, object], by: str = ""
) -> Work[None]:
    yield from noted(held, now, f"response_{kind}", {"response": record.id, **told}, by=by)


def _kept(record: ResponseRecord) -> tuple[object, ...]:
    whose = (record.id, record.conversation, record.tenant, record.principal)
    what = (record.status.value, record.model, float(record.created), record.reach, int(record.is_cancelled))
    return (*whose, *what, kept_json(record.request))
