"""A server's question waits in the ledger like a call that needs leave, and is answered there."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ThroughApprovals
from ferrule.run.ledger.claim import canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from run.ledger_databases import Home

FORM = {"type": "object", "properties": {"size": {"enum": ["s", "l"]}}, "required": ["size"]}
ASKED = Elicitation("shop", "Which size?\x1b[2J", FORM, context=CallContext(principal=Principal("ann", "acme")))
Decide = Callable[[Ledger, Approval], Awaitable[object]]


def answered(home: Home, decide: Decide | None, patience: float = 20) -> tuple[ElicitAnswer, Approval]:
    async def story(ledger: Ledger) -> tuple[ElicitAnswer, Approval]:
        answer = asyncio.ensure_future(ThroughApprovals(ledger, patience, poll_seconds=0.01)(ASKED))
        while not (waiting := await ledger.approvals()):
            await asyncio.sleep(0.01)
        if decide is not None:
            await decide(ledger, waiting[0])
        given = await answer
        assert await ledger.verify() is None
        return given, (await ledger.approvals())[0]

    return home.run(story)


def test_whoever_decides_fills_in_the_answer(home: Home) -> None:
    async def fill_in(ledger: Ledger, leave: Approval) -> object:
        question: Any = loads(leave.arguments.decode())
        assert (question["message"], question["schema"]) == (ASKED.message, FORM)
        assert (leave.principal, leave.tool) == ("ann", "shop asks")
        filled = canonical_bytes({**question, "answer": {"size": "l"}})
        return await ledger.approve(leave.id, "bob", filled, now=time.time())

    answer, leave = answered(home, fill_in)
    assert (answer, leave.state) == (ElicitAnswer("accept", {"size": "l"}), ApprovalState.REDEEMED)


def test_a_no_is_a_no(home: Home) -> None:
    answer, _ = answered(home, lambda ledger, leave: ledger.deny(leave.id, "bob", now=time.time()))
    assert answer.action == "decline"


def test_nobody_in_time_is_no_answer(home: Home) -> None:
    answer, leave = answered(home, None, patience=0.05)
    assert (answer.action, leave.state) == ("cancel", ApprovalState.PENDING)
