"""Leave is for the exact call, for one use and in time, whichever database it is in."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

import pytest

from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.address import ledger_at
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallState
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import OTHERWISE, Home, approved, claim, proposed


@pytest.mark.parametrize("changed, code", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_leave_is_for_the_exact_call_and_is_not_used_up_by_another(
    home: Home, changed: dict[str, object], code: str
) -> None:
    async def story(ledger: SqlLedger) -> None:
        what, leave = await approved(ledger)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(replace(what, **changed), 1, approval=leave.id, now=2)
        assert refusal.value.code == code
        assert await ledger.approval(leave.id) == leave
        assert await ledger.start(what, 1, approval=leave.id, now=2)

    home.run(story)


@pytest.mark.parametrize(
    "other, code",
    [(claim("c", "k2"), "approval_other_call"), (claim("c2", "k"), "approval_other_conversation")],
    ids=["call", "conversation"],
)
def test_leave_cannot_be_carried_elsewhere(home: Home, other: Claim, code: str) -> None:
    async def story(ledger: SqlLedger) -> None:
        _, leave = await approved(ledger)
        await approved(ledger, other)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(other, 1, approval=leave.id, now=2)
        assert refusal.value.code == code

    home.run(story)


def test_leave_can_be_used_once_and_in_time_and_only_when_given(home: Home) -> None:
    async def code_of(ledger: SqlLedger, what: Claim, approval: str, now: float) -> str:
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=approval, now=now)
        return refusal.value.code

    async def story(ledger: SqlLedger) -> None:
        what, leave = await approved(ledger)
        assert await code_of(ledger, what, "", 2) == "approval_required"
        assert await code_of(ledger, what, "0" * 32, 2) == "approval_unknown"
        assert await code_of(ledger, what, leave.id, 5) == "approval_expired"
        assert await ledger.start(what, 1, approval=leave.id, now=4.5)
        assert await code_of(ledger, what, leave.id, 4.5) == "approval_used"
        waiting = await proposed(ledger, True, claim(call_id="waiting"))
        asked = await ledger.request_approval("c", "waiting", 1, expires=5, now=0)
        assert await code_of(ledger, waiting, asked.id, 2) == "approval_pending"
        await ledger.deny(asked.id, "bob", "too much", now=2)
        assert await code_of(ledger, waiting, asked.id, 2) == "approval_denied"
        denied = await ledger.call("c", "waiting")
        assert denied is not None
        assert denied.state is CallState.DENIED

    home.run(story)


def test_leave_that_ran_out_can_be_asked_for_anew_and_the_old_one_stays_dead(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        what, old = await approved(ledger)
        with pytest.raises(LedgerError):
            await ledger.request_approval("c", "k", 1, expires=9, now=4)
        new = await ledger.request_approval("c", "k", 1, expires=9, now=5)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=old.id, now=4)
        assert refusal.value.code == "approval_expired"
        await ledger.approve(new.id, "bob", now=6)
        assert await ledger.start(what, 1, approval=new.id, now=6)

    home.run(story)


def test_a_decision_is_final_and_cannot_come_late(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        _, leave = await approved(ledger)
        for decide in (ledger.approve, ledger.deny):
            with pytest.raises(ApprovalError) as refusal:
                await decide(leave.id, "eve", now=2)
            assert refusal.value.code == "approval_decided"
        await proposed(ledger, True, claim(call_id="late"))
        asked = await ledger.request_approval("c", "late", 1, expires=5, now=0)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.approve(asked.id, "bob", now=5)
        assert refusal.value.code == "approval_expired"
        assert await ledger.approvals(ApprovalState.PENDING) == (asked,)
        assert {one.id for one in await ledger.approvals()} == {leave.id, asked.id}

    home.run(story)


def test_edited_arguments_are_what_the_leave_is_for_and_the_model_s_own_are_not(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        what = await proposed(ledger, True)
        asked = await ledger.request_approval("c", "k", 1, expires=5, now=0)
        edited = replace(what, arguments=canonical_bytes({"amount": 1}))
        leave = await ledger.approve(asked.id, "bob", edited.arguments, now=1)
        assert (leave.arguments, leave.binding) == (edited.arguments, edited.binding)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=leave.id, now=2)
        assert refusal.value.code == "approval_arguments_changed"
        assert await ledger.start(edited, 1, approval=leave.id, now=2)
        held = await ledger.call("c", "k")
        assert held is not None
        assert (held.arguments, held.state) == (edited.arguments, CallState.STARTED)

    home.run(story)


def test_of_sixty_at_once_one_redeems_each_of_twenty_approvals(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        given = [await approved(ledger, claim(call_id=f"k{number}")) for number in range(20)]
        ledgers = [ledger, *[await ledger_at(home.where) for _ in range(3)]]

        async def redeem(place: int, what: Claim, leave: Approval) -> tuple[str, str]:
            try:
                won = await ledgers[place % 4].start(what, 1, approval=leave.id, now=2)
            except ApprovalError as refusal:
                return what.call_id, refusal.code
            return what.call_id, "won" if won else "lost"

        told = Counter(await asyncio.gather(*(redeem(n, what, leave) for n in range(60) for what, leave in given)))
        expected = {(what.call_id, "won"): 1 for what, _ in given} | {
            (what.call_id, "approval_used"): 59 for what, _ in given
        }
        assert told == expected
        for other in ledgers[1:]:
            await other.close()
        assert await ledger.verify() is None

    home.run(story)
