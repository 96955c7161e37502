"""An approval is for the exact call, for one use and in time, in each database."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from ferrule.errors import ApprovalError, LedgerError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallState
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import CHANGED_CLAIMS, Database, approve_call, claim, propose_call


@pytest.mark.parametrize("changed, code", CHANGED_CLAIMS.values(), ids=CHANGED_CLAIMS.keys())
def test_an_approval_is_for_the_exact_call_and_is_not_used_up_by_another(
    database: Database, changed: dict[str, object], code: str
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what, approval = await approve_call(ledger)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(replace(what, **changed), 1, approval=approval.id, now=2)
        assert refusal.value.code == code
        assert await ledger.approval(approval.id) == approval
        assert await ledger.start(what, 1, approval=approval.id, now=2)

    database.run(scenario)


@pytest.mark.parametrize(
    "other, code",
    [(claim("c", "k2"), "approval_other_call"), (claim("c2", "k"), "approval_other_conversation")],
    ids=["call", "conversation"],
)
def test_an_approval_cannot_be_used_for_another_call_or_conversation(
    database: Database, other: Claim, code: str
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        _, approval = await approve_call(ledger)
        await approve_call(ledger, other)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(other, 1, approval=approval.id, now=2)
        assert refusal.value.code == code

    database.run(scenario)


def test_an_approval_can_be_used_once_in_time_and_only_after_it_was_given(database: Database) -> None:
    async def code_of(ledger: SqlLedger, what: Claim, approval: str, now: float) -> str:
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=approval, now=now)
        return refusal.value.code

    async def scenario(ledger: SqlLedger) -> None:
        what, approval = await approve_call(ledger)
        assert await code_of(ledger, what, "", 2) == "approval_required"
        assert await code_of(ledger, what, "0" * 32, 2) == "approval_unknown"
        assert await code_of(ledger, what, approval.id, 5) == "approval_expired"
        assert await ledger.start(what, 1, approval=approval.id, now=4.5)
        assert await code_of(ledger, what, approval.id, 4.5) == "approval_used"
        waiting = await propose_call(ledger, True, claim(call_id="waiting"))
        request = await ledger.request_approval("c", "waiting", 1, expires=5, now=0)
        assert await code_of(ledger, waiting, request.id, 2) == "approval_pending"
        await ledger.deny(request.id, "bob", "too much", now=2)
        assert await code_of(ledger, waiting, request.id, 2) == "approval_denied"
        denied = await ledger.call("c", "waiting")
        assert denied is not None
        assert denied.state is CallState.DENIED

    database.run(scenario)


def test_an_expired_approval_can_be_requested_again_and_the_old_one_stays_invalid(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what, old = await approve_call(ledger)
        with pytest.raises(LedgerError):
            await ledger.request_approval("c", "k", 1, expires=9, now=4)
        new = await ledger.request_approval("c", "k", 1, expires=9, now=5)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=old.id, now=4)
        assert refusal.value.code == "approval_expired"
        await ledger.approve(new.id, "bob", now=6)
        assert await ledger.start(what, 1, approval=new.id, now=6)

    database.run(scenario)


def test_a_decision_is_final_and_cannot_come_late(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        _, approval = await approve_call(ledger)
        for decide in (ledger.approve, ledger.deny):
            with pytest.raises(ApprovalError) as refusal:
                await decide(approval.id, "eve", now=2)
            assert refusal.value.code == "approval_decided"
        await propose_call(ledger, True, claim(call_id="late"))
        request = await ledger.request_approval("c", "late", 1, expires=5, now=0)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.approve(request.id, "bob", now=5)
        assert refusal.value.code == "approval_expired"
        assert await ledger.approvals(ApprovalState.PENDING) == (request,)
        assert {one.id for one in await ledger.approvals()} == {approval.id, request.id}

    database.run(scenario)


def test_an_approval_with_edited_arguments_is_for_those_and_not_for_the_model_s(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger, True)
        request = await ledger.request_approval("c", "k", 1, expires=5, now=0)
        edited = replace(what, arguments=canonical_bytes({"amount": 1}))
        approval = await ledger.approve(request.id, "bob", edited.arguments, now=1)
        assert (approval.arguments, approval.binding) == (edited.arguments, edited.binding)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=approval.id, now=2)
        assert refusal.value.code == "approval_arguments_changed"
        assert await ledger.start(edited, 1, approval=approval.id, now=2)
        record = await ledger.call("c", "k")
        assert record is not None
        assert (record.arguments, record.state) == (edited.arguments, CallState.STARTED)

    database.run(scenario)


def test_of_sixty_concurrent_starts_one_redeems_each_of_twenty_approvals(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        approvals = [await approve_call(ledger, claim(call_id=f"k{number}")) for number in range(20)]
        ledgers = [ledger, *[await open_ledger(database.where) for _ in range(3)]]

        async def redeem(place: int, what: Claim, approval: Approval) -> tuple[str, str]:
            try:
                won = await ledgers[place % 4].start(what, 1, approval=approval.id, now=2)
            except ApprovalError as refusal:
                return what.call_id, refusal.code
            return what.call_id, "won" if won else "lost"

        results = Counter(
            await asyncio.gather(*(redeem(n, what, approval) for n in range(60) for what, approval in approvals))
        )
        expected = {(what.call_id, "won"): 1 for what, _ in approvals} | {
            (what.call_id, "approval_used"): 59 for what, _ in approvals
        }
        assert results == expected
        for other in ledgers[1:]:
            await other.close()
        assert await ledger.verify() is None

    database.run(scenario)


def test_several_people_must_approve_the_same_arguments_and_never_the_one_who_asked(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger, True)
        terms = ApprovalTerms(approvers=2, four_eyes=True)
        request = await ledger.request_approval("c", "k", 1, expires=100, terms=terms, now=1)

        async def code_of(by: str, **more: Any) -> str:
            with pytest.raises(ApprovalError) as refusal:
                await ledger.approve(request.id, by, now=2, **more)
            return refusal.value.code

        assert await code_of(what.principal) == "approval_own_call"
        votes = await asyncio.gather(
            *(ledger.approve(request.id, "bob", now=2) for _ in range(4)), return_exceptions=True
        )
        assert sum(isinstance(one, Approval) for one in votes) == 1
        assert (await ledger.approval(request.id)) == replace(request, votes=1)
        other = canonical_bytes({"amount": 4})
        changed = await ledger.approve(request.id, "cat", other, now=2)
        assert (changed.state, changed.votes) == (ApprovalState.PENDING, 1)
        assert await code_of("dan") == "approval_arguments_changed"
        assert await code_of("dan", seen=request.arguments_sha256) == "approval_arguments_changed"
        with pytest.raises(ApprovalError):
            await ledger.start(replace(what, arguments=other), 1, approval=request.id, now=2)
        decided = await ledger.approve(request.id, "dan", seen=changed.arguments_sha256, now=2)
        assert decided.state is ApprovalState.APPROVED
        assert [vote.by for vote in await ledger.votes(request.id)] == ["cat", "dan"]
        assert await ledger.start(replace(what, arguments=other), 1, approval=request.id, now=2)
        assert await ledger.verify() is None

    database.run(scenario)


def test_a_decision_is_continued_once_the_conversation_is_free_and_its_webhook_is_stored_once(
    database: Database,
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await approve_call(ledger)
        assert await ledger.due_continuations(10, now=2) == ()
        record = await ledger.load("c")
        assert record is not None
        free = record.lease_until + 10
        (due,) = await ledger.due_continuations(10, now=free)
        assert await ledger.postpone_continuation(due, free + 5)
        assert await ledger.due_continuations(10, now=free) == ()
        (again,) = await ledger.due_continuations(10, now=free + 5)
        assert (again.generation, again.attempts, again.webhook_id) == (1, 1, due.webhook_id)
        ended = [await ledger.end_continuation(again, "done", webhook="{}", now=free + 5) for _ in range(2)]
        assert ended == [True, False]
        claims = await asyncio.gather(*(ledger.claim_deliveries(10, until=free + 40, now=free + 5) for _ in range(4)))
        assert [one.id for batch in claims for one in batch] == [due.webhook_id]
        # The process that took it died: it is due again, under the same id.
        (delivery,) = await ledger.claim_deliveries(10, until=free + 90, now=free + 40)
        assert (delivery.id, delivery.attempts) == (due.webhook_id, 1)
        await ledger.end_delivery(delivery.id, "delivered")
        assert await ledger.claim_deliveries(10, until=free + 900, now=free + 200) == ()

    database.run(scenario)
