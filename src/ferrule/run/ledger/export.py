"""Exports conversations as JSON: everything that the ledger knows of each. Independent of the database.

One conversation is in memory at a time. It is read without a lock: if it has changed meanwhile, it is read again, so
that what is exported belongs together, and its audit log proves it.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ferrule.core.json_text import loads
from ferrule.run.ledger.approvals import find_votes
from ferrule.run.ledger.calls import find_calls
from ferrule.run.ledger.conversations import load
from ferrule.run.ledger.ledger import Approval, CallRecord, ResponseRecord, StoredRequest
from ferrule.run.ledger.queries import find_conversation_approvals
from ferrule.run.ledger.responses import events_after, find_response
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.transaction import Row, Transaction, execute
from ferrule.run.ledger.transition import conflict_error
from ferrule.run.ledger.verification import read_audit
from ferrule.run.machine import outcome_as_dict

_PAGE = 500
_MAX_TRIES = 50


def find_ids(tenant: str, principal: str, since: float, after: str) -> Transaction[list[str]]:
    """Return a page of ids of conversations that were changed since a time."""
    values = (after, tenant, tenant, principal, principal, float(since), _PAGE)
    return [row[0] for row in (yield from execute("export_page", *values)).rows]


def export_conversation(id: str) -> Transaction[dict[str, Any] | None]:
    """Return everything of a conversation as JSON; only the audit log if it was removed; None if there is none."""
    for _ in range(_MAX_TRIES):
        head = yield from _head(id)
        if head is None:
            return None
        document = yield from _read(id)
        if head == (yield from _head(id)):
            return document
    raise conflict_error(id)


def _head(id: str) -> Transaction[Row | None]:
    rows = (yield from execute("head", id)).rows
    return rows[0] if rows else None


def _read(id: str) -> Transaction[dict[str, Any]]:
    record = yield from load(id, None)
    audit = [{**asdict(row), "detail": loads(row.detail)} for row in (yield from read_audit(id))]
    if record is None:
        return {"id": id, "is_removed": True, "audit": audit}
    saved = StateUpdate.of(record.state)
    approvals: list[dict[str, Any]] = []
    for approval in (yield from find_conversation_approvals(id)):
        approvals.append(
            _approval(approval) | {"voters": [asdict(vote) for vote in (yield from find_votes(approval.id))]}
        )
    responses: list[dict[str, Any]] = []
    for (response,) in (yield from execute("responses_in", id)).rows:
        stored = yield from find_response(response, None)
        if stored is not None:
            responses.append(_response(stored) | {"events": (yield from _events(response))})
    requests = (yield from execute("requests_of", id, id)).rows
    return {
        "id": id,
        "is_removed": False,
        "tenant": record.tenant,
        "principal": record.principal,
        "opened_at": record.opened_at,
        "changed_at": record.changed_at,
        "title": record.title,
        "version": record.version,
        "messages": list(saved.messages),
        "state": saved.rest,
        "calls": [_call(call) for call in (yield from find_calls(id))],
        "approvals": approvals,
        "responses": responses,
        "requests": [_request(StoredRequest(*row)) for row in requests],
        "audit": audit,
    }


def _events(response: str) -> Transaction[list[Any]]:
    events: list[Any] = []
    while page := (yield from events_after(response, len(events) - 1, _PAGE)):
        events += map(loads, page)
    return events


def _call(call: CallRecord) -> dict[str, Any]:
    outcome = outcome_as_dict(call.outcome)
    return {**asdict(call), "arguments": loads(call.arguments.decode()), "outcome": outcome}


def _approval(approval: Approval) -> dict[str, Any]:
    return {**asdict(approval), "arguments": loads(approval.arguments.decode())}


def _response(response: ResponseRecord) -> dict[str, Any]:
    return _with_request(asdict(response))


def _request(request: StoredRequest) -> dict[str, Any]:
    return _with_request(asdict(request))


def _with_request(fields: dict[str, Any]) -> dict[str, Any]:
    """Show the request as JSON instead of its text."""
    text: str = fields.pop("request_text")
    return {**fields, "request": loads(text)}
