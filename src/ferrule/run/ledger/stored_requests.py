"""The transactions on stored requests: the claim by which a retried request finds the answer to the first one.

A client whose connection broke sends the same request again, and cannot know whether a tool has run. The second request
is given the *answer* of the first, which is the id of a conversation or of a stored response. The lease and the calls
of that conversation then do what they always do: one owner at a time, and each effect at most once.

A request is a retry of an earlier one of the same principal and API if it has the same `Idempotency-Key`, or if it has
the same body and says that it is a retry. Two identical requests without such a sign are two requests.
"""

from __future__ import annotations

from ferrule.errors import IdempotencyError
from ferrule.run.ledger.claim import require_name
from ferrule.run.ledger.ledger import StoredRequest
from ferrule.run.ledger.transaction import Transaction, execute

KEY_SECONDS = 24 * 3600.0
"""How long an `Idempotency-Key` counts. After that it is a new one."""
RETRY_SECONDS = 120.0
"""How long after the last change of an answer a retry without a key still belongs to it.

Longer than clients wait between two tries. An identical request later, whose own first try never arrived, is another
request, and must not be given an old answer.
"""


def claim_request(request: StoredRequest, is_retry: bool, now: float) -> Transaction[StoredRequest]:
    """Store a request, or return the earlier one that it repeats."""
    identity = (request.tenant, request.principal, request.api)
    if request.idempotency_key:
        yield from execute("forget_key", *identity, request.idempotency_key, float(now - KEY_SECONDS))
    elif is_retry:
        earlier = yield from _find_by_body(request, now)
        if earlier is not None:
            return earlier
    if (yield from execute("add_request", *request_row(request, now))).count:
        return request
    rows = (yield from execute("request_by_key", *identity, request.idempotency_key)).rows
    earlier = StoredRequest(*rows[0])
    if earlier.body_sha256 != request.body_sha256:
        raise IdempotencyError(
            "this Idempotency-Key was sent with another body", hint="Use a new key for each new request."
        )
    return earlier


def request_row(request: StoredRequest, now: float) -> tuple[object, ...]:
    require_name(request.answer, "the id of an answer")
    identity = (request.answer, request.tenant, request.principal, request.api)
    return (*identity, request.body_sha256, request.idempotency_key, float(now), request.request_text)


def move_request(answer: str, new_answer: str) -> Transaction[bool]:
    require_name(new_answer, "the id of an answer")
    return bool((yield from execute("move_request", new_answer, answer)).count)


def find_request(answer: str) -> Transaction[StoredRequest | None]:
    rows = (yield from execute("request", answer)).rows
    return StoredRequest(*rows[0]) if rows else None


def _find_by_body(request: StoredRequest, now: float) -> Transaction[StoredRequest | None]:
    identity = (request.tenant, request.principal, request.api)
    rows = (yield from execute("request_by_body", request.body_sha256, *identity)).rows
    if not rows:
        return None
    *row, lease_until, changed_at = rows[0]
    is_running = lease_until > now
    return StoredRequest(*row) if is_running or changed_at >= now - RETRY_SECONDS else None
