"""An elicitation waits in the ledger like a call that needs approval, and is answered there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ApprovalElicitationHandler
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from run.ledger_databases import Database

FORM = {"type": "object", "properties": {"size": {"enum": ["s", "l"]}}, "required": ["size"]}
ELICITATION = Elicitation("shop", "Which size?\x1b[2J", FORM, context=CallContext(principal=Principal("ann", "acme")))
Decide = Callable[[Ledger, Approval], Awaitable[object]]


def elicit(database: Database, decide: Decide | None, patience: float = 20) -> tuple[ElicitAnswer, Approval]:
    async def scenario(ledger: Ledger) -> tuple[ElicitAnswer, Approval]:
        answer = asyncio.ensure_future(ApprovalElicitationHandler(ledger, patience, poll_seconds=0.01)(ELICITATION))
        while not (waiting := await ledger.approvals()):
            await asyncio.sleep(0.01)
        if decide is not None:
            await decide(ledger, waiting[0])
        elicited = await answer
        assert await ledger.verify() is None
        return elicited, (await ledger.approvals())[0]

    return database.run(scenario)


def test_the_person_who_decides_fills_in_the_answer(database: Database) -> None:
    async def fill_in(ledger: Ledger, approval: Approval) -> object:
        question: Any = loads(approval.arguments.decode())
        assert (question["message"], question["schema"]) == (ELICITATION.message, FORM)
        assert (approval.principal, approval.tool) == ("ann", "shop asks")
        filled = canonical_bytes({**question, "answer": {"size": "l"}})
        return await ledger.approve(approval.id, "bob", filled, now=time.time())

    answer, approval = elicit(database, fill_in)
    assert (answer, approval.state) == (ElicitAnswer("accept", {"size": "l"}), ApprovalState.REDEEMED)


def test_a_denial_declines_the_elicitation(database: Database) -> None:
    answer, _ = elicit(database, lambda ledger, approval: ledger.deny(approval.id, "bob", now=time.time()))
    assert answer.action == "decline"


def test_without_a_decision_in_time_there_is_no_answer(database: Database) -> None:
    answer, approval = elicit(database, None, patience=0.05)
    assert (answer.action, approval.state) == ("cancel", ApprovalState.PENDING)
