"""The transactions on continuations: what a gateway still has to do after a decision, and whom it has to tell.

The problem
    A person decides on an approval while the caller is gone, and the process that took the decision may die at once.
    The conversation must still continue, once, and the caller must still learn of it.

The shape
    - A decision and its continuation are written in one step. So a decision is never without one.
    - A continuation is *due* until some process has ended it. Any process may take it: the lease of the conversation
      decides which, and the calls of the conversation run at most once, as ever. A process that dies leaves it due.
    - Every further decision starts a new *generation*. A process ends only the generation that it took.
    - The end of a continuation and the webhook about it are written in one transaction. Its id is derived from the
      conversation and the generation, so however often it is written or sent, it is the same webhook.
    - A webhook is *claimed* before each attempt by moving its next attempt into the future.
"""

from __future__ import annotations

from typing import cast

from ferrule.core.json_text import loads
from ferrule.run.ledger.claim import encode_json
from ferrule.run.ledger.continuation import DUE, Continuation, WebhookDelivery
from ferrule.run.ledger.transaction import Row, Transaction, execute
from ferrule.run.ledger.transition import Transition
from ferrule.run.ledger.writes import Kind

GRACE_SECONDS = 1.5
"""How long after a decision a caller who is still there may continue the conversation itself."""


CANCEL = ""
"""Stands where the id of an uncollected call stands, if the caller wants the conversation's call cancelled."""


def request_continuation(transition: Transition) -> None:
    """Write it with the step of a decision."""
    record, due_at = transition.record, transition.now + GRACE_SECONDS
    transition.write(Kind.CONTINUATION, record.id, record.tenant, record.principal, 1, due_at, 0, DUE, "")


def find_due(limit: int, now: float) -> Transaction[tuple[Continuation, ...]]:
    rows = (yield from execute("due_continuations", *[float(now)] * 3, limit)).rows
    return tuple(map(_continuation, rows))


def find_continuation(conversation: str) -> Transaction[Continuation | None]:
    rows = (yield from execute("continuation", conversation)).rows
    return _continuation(rows[0]) if rows else None


def end(continuation: Continuation, status: str, code: str, message: str, body: str, now: float) -> Transaction[bool]:
    """End a continuation, and store the webhook with this body, if any. False if a newer decision has replaced it."""
    values = (status, encode_json([code, message]), continuation.conversation, continuation.generation)
    if (yield from execute("end_continuation", *values)).count != 1:
        return False
    if body:
        moment = float(now)
        yield from execute("add_delivery", continuation.webhook_id, continuation.conversation, body, moment, moment)
    return True


def postpone(continuation: Continuation, until: float, code: str, message: str) -> Transaction[bool]:
    values = (float(until), encode_json([code, message]), continuation.conversation, continuation.generation)
    return (yield from execute("postpone_continuation", *values)).count == 1


def find_request_of(conversation: str) -> Transaction[str | None]:
    """Return the request that a conversation answers, as JSON: the stored one, or that of its last response."""
    rows = (yield from execute("request", conversation)).rows
    if rows:
        return rows[0][-1]
    rows = (yield from execute("last_response_request", conversation)).rows
    return rows[0][0] if rows else None


def claim_deliveries(limit: int, until: float, now: float) -> Transaction[tuple[WebhookDelivery, ...]]:
    """Take the webhooks that are due, for this process until `until`."""
    rows = (yield from execute("due_deliveries", float(now), limit)).rows
    claimed: list[WebhookDelivery] = []
    for row in rows:
        delivery = WebhookDelivery(*row)
        if (yield from execute("claim_delivery", float(until), delivery.id, delivery.attempts)).count == 1:
            claimed.append(delivery)
    return tuple(claimed)


def end_delivery(id: str, status: str) -> Transaction[None]:
    yield from execute("end_delivery", status, id)


def postpone_delivery(id: str, until: float) -> Transaction[None]:
    yield from execute("postpone_delivery", float(until), id)


def mark_uncollected(conversation: str, call_id: str) -> Transaction[None]:
    yield from execute("add_uncollected", conversation, call_id)


def is_uncollected(conversation: str, call_id: str) -> Transaction[bool]:
    return bool((yield from execute("uncollected", conversation, call_id)).rows)


def collect(conversation: str, call_id: str) -> Transaction[None]:
    yield from execute("delete_uncollected", conversation, call_id)


def request_cancel(conversation: str) -> Transaction[None]:
    yield from execute("add_uncollected", conversation, CANCEL)


def is_cancel_requested(conversation: str) -> Transaction[bool]:
    return bool((yield from execute("uncollected", conversation, CANCEL)).rows)


def _continuation(row: Row) -> Continuation:
    *values, error = row
    code, message = _error(error)
    return Continuation(*values, error_code=code, error_message=message)


def _error(text: str) -> tuple[str, str]:
    code, message = cast("list[str]", loads(text)) if text else ("", "")
    return code, message
