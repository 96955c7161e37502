"""`/v1/approvals`: calls that wait for leave, for whoever may give it: what exactly each would do, and yes or no, once.

Before he says yes to other arguments, he may ask whether they fit, as often as he likes: that decides nothing.

Everybody sees and decides on what is his own tenant's. What is not there and what is another's look the same.
"""

from __future__ import annotations

import time
from typing import Any

from ferrule.dialects.field import Field
from ferrule.dialects.openai_error import error_body
from ferrule.errors import DefinitionError, FerruleError, NotFoundError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole
from ferrule.server.tools.approval_context import shown_approval, shown_approvals
from ferrule.server.tools.approval_decision import Word, decided, faults_of
from ferrule.server.tools.approval_view import EXPIRED, state_of

MOST = 200
_USUAL = 50
DECIDED = "decided"
"""Not a state: those that a person said yes or no to, whatever became of them then."""
STATES = (*(state.value for state in ApprovalState), EXPIRED, DECIDED)
ORDERS = ("asc", "desc")


def routes(gateway: Gateway) -> list[Route]:
    async def listed(asked: Asked) -> Answer:
        now = time.time()
        state, order = _one_of(asked, "state", ("", *STATES)), _one_of(asked, "order", ORDERS)
        found = await gateway.ledger.approvals_of(asked.principal.tenant)
        kept = [one for one in found if _is_in(one, state, now)]
        page = _behind(kept[::-1] if order == "desc" else kept, asked.query.get("after", ""))
        most = limit_in(asked, _USUAL, MOST)
        data = await shown_approvals(gateway, page[:most], now)
        return Whole.of({"object": "list", "data": data, "has_more": len(page) > most})

    async def one(asked: Asked) -> Answer:
        return Whole.of(await shown_approval(gateway, await known(gateway, asked), time.time()))

    async def check(asked: Asked) -> Answer:
        approval = await known(gateway, asked)
        faults = faults_of(gateway, approval, Field(asked.json())["arguments"].object())
        told = [{"path": fault.path, "message": fault.message} for fault in faults]
        return Whole.of({"object": "approval.check", "fits": not faults, "faults": told})

    async def decide(asked: Asked) -> Answer:
        approval = await known(gateway, asked)
        given = await decided(gateway, approval, asked.principal.name, word_in(asked))
        return Whole.of(await shown_approval(gateway, given, time.time()))

    return [
        Route("GET", "/v1/approvals", listed, "approve", shape),
        Route("GET", "/v1/approvals/{id}", one, "approve", shape),
        Route("POST", "/v1/approvals/{id}", decide, "approve", shape),
        Route("POST", "/v1/approvals/{id}/check", check, "approve", shape),
    ]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def known(gateway: Gateway, asked: Asked) -> Approval:
    id = asked.params["id"]
    # No database keeps a NUL in a text, and one of them calls asking for it an error.
    found = None if "\x00" in id else await gateway.ledger.approval(id)
    if found is None or found.tenant != asked.principal.tenant:
        raise NotFoundError("there is no such approval", code="approval_unknown", hint="See /v1/approvals.")
    return found


def word_in(asked: Asked) -> Word:
    body = Field(asked.json())
    arguments = body["arguments"]
    return Word(
        body["approve"].boolean(),
        body["why"].or_else(Field.string, ""),
        arguments.object() if arguments.is_given else None,
    )


def limit_in(asked: Asked, usual: int, most: int) -> int:
    """How many a page may have."""
    given = asked.query.get("limit", str(usual))
    if not (given.isascii() and given.isdigit() and len(given) < 7 and 1 <= int(given) <= most):
        raise DefinitionError(f"limit: {given[:20]!r} is no number from 1 to {most}", hint=f"Leave it out for {usual}.")
    return int(given)


def _one_of(asked: Asked, key: str, known: tuple[str, ...]) -> str:
    """What was asked for of what is known; the first where nothing was."""
    given = asked.query.get(key, known[0])
    if given not in known:
        named = ", ".join(word for word in known if word)
        raise DefinitionError(f"{key}: {given[:40]!r} is not known here", hint=f"Use one of: {named}.")
    return given


def _is_in(one: Approval, state: str, now: float) -> bool:
    if state == DECIDED:
        # One that ran out while it waited was decided by nobody.
        return one.decided_at is not None
    return not state or state_of(one, now) == state


def _behind(found: list[Approval], id: str) -> list[Approval]:
    if not id:
        return found
    at = next((number for number, one in enumerate(found) if one.id == id), None)
    if at is None:
        raise DefinitionError("after: there is no such approval in this list", hint="Begin without after.")
    return found[at + 1 :]
