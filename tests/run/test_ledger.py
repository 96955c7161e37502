"""The ledger, in each database."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import FencedError, LedgerError
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.ledger import CallState
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, CHANGED_CLAIMS, LEASE, Database, approve_call, claim, propose_call

# Calls.


def test_of_many_concurrent_starts_of_a_call_without_approval_one_succeeds(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        won = await asyncio.gather(*(ledger.start(what, 1, now=1) for _ in range(30)))
        assert sum(won) == 1

    database.run(scenario)


def test_starts_that_are_cancelled_at_any_time_start_the_call_at_most_once(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number in range(12):
            what = await propose_call(ledger, what=claim(call_id=f"k{number}"))
            tasks = [asyncio.ensure_future(ledger.start(what, 1, now=1)) for _ in range(4)]
            for _ in range(number):
                await asyncio.sleep(0)
            tasks[number % 4].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            assert not await ledger.start(what, 1, now=1)
        assert await ledger.verify() is None

    database.run(scenario)


def test_only_canonical_arguments_are_accepted(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger, True)
        request = await ledger.request_approval("c", "k", 1, expires=5, now=0)
        for arguments in (b'{"a": 1}', b'{"b":1,"a":1}', b"[1]", b"{", b"\xff", b'{"a":1,"a":1}'):
            for refused in (
                ledger.propose(replace(what, arguments=arguments), 1, side_effects=True, needs_approval=True, now=0),
                ledger.approve(request.id, "bob", arguments, now=1),
            ):
                with pytest.raises(LedgerError) as refusal:
                    await refused
                assert refusal.value.code == "not_canonical"
        assert await ledger.approval(request.id) == request

    database.run(scenario)


def test_a_call_that_is_not_the_proposed_one_does_not_start(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        for changed, _ in CHANGED_CLAIMS.values():
            with pytest.raises(LedgerError) as refusal:
                await ledger.start(replace(what, **changed), 1, now=1)
            assert refusal.value.code == "call_changed"
        assert await ledger.start(what, 1, now=1)

    database.run(scenario)


def test_the_same_call_may_be_proposed_again_and_another_under_its_id_may_not(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        await ledger.start(what, 1, now=1)
        again = await ledger.propose(what, 1, side_effects=True, needs_approval=False, now=2)
        assert again.state is CallState.STARTED
        for other, needs_approval in ((claim(arguments={"amount": 4}), False), (what, True)):
            with pytest.raises(LedgerError) as refusal:
                await ledger.propose(other, 1, side_effects=True, needs_approval=needs_approval, now=2)
            assert refusal.value.code == "call_id_taken"
        with pytest.raises(LedgerError) as refusal:
            await ledger.propose(claim(call_id="x", principal="eve"), 1, side_effects=True, needs_approval=False, now=2)
        assert refusal.value.code == "other_principal"

    database.run(scenario)


@pytest.mark.parametrize(
    "outcome, state",
    [
        (Answered({"paid": [1.5, "\x00\ud800é"]}), CallState.DONE),
        (Answered("no", is_error=True, code="broke"), CallState.FAILED),
        (NotDelivered("nobody there"), CallState.FAILED),
        (Unknown("silence"), CallState.UNKNOWN),
    ],
)
def test_an_outcome_is_recorded_once_and_comes_back_unchanged(
    database: Database, outcome: Outcome, state: CallState
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        with pytest.raises(LedgerError):
            await ledger.finish("c", "k", 1, outcome, now=1)
        await ledger.start(what, 1, now=1)
        ended = await ledger.finish("c", "k", 1, outcome, now=2)
        assert (ended.state, ended.outcome) == (state, outcome)
        for late in (ledger.finish("c", "k", 1, Answered("x"), now=3), ledger.refuse("c", "k", 1, "x", now=3)):
            with pytest.raises(LedgerError) as refusal:
                await late
            assert refusal.value.code == "call_moved_on"
        assert not await ledger.start(what, 1, now=3)
        assert await ledger.calls("c") == (ended,)

    database.run(scenario)


def test_a_refused_call_never_starts_even_if_it_was_approved(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what, approval = await approve_call(ledger)
        assert (await ledger.refuse("c", "k", 1, "over the limit", now=2)).state is CallState.REFUSED
        with pytest.raises(LedgerError) as refusal:
            await ledger.start(what, 1, approval=approval.id, now=2)
        assert refusal.value.code == "call_moved_on"
        assert await ledger.approval(approval.id) == approval, "a start that was rolled back uses up no approval"
        plain = await propose_call(ledger, False, claim(call_id="plain"))
        await ledger.refuse("c", "plain", 1, "over the limit", now=2)
        assert not await ledger.start(plain, 1, now=2)

    database.run(scenario)


# Conversations.


def test_a_conversation_has_one_owner_and_is_taken_over_only_after_its_lease(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        first = await ledger.open("c", ANN, "one", LEASE, now=0)
        assert (first.epoch, first.version, first.state) == (1, 0, None)
        for early in (ledger.take_over("c", "two", LEASE, now=9.9), ledger.open("c", ANN, "one", LEASE, now=9.9)):
            with pytest.raises(FencedError) as refusal:
                await early
            assert refusal.value.code == "conversation_held"
        await ledger.renew("c", 1, LEASE, now=9)
        with pytest.raises(FencedError):
            await ledger.take_over("c", "two", LEASE, now=18)
        assert (await ledger.take_over("c", "two", LEASE, now=19)).epoch == 2
        await ledger.release("c", 2, now=20)
        assert (await ledger.open("c", ANN, "three", LEASE, now=20)).epoch == 3

    database.run(scenario)


def test_of_many_concurrent_takeovers_one_succeeds(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        tries = [ledger.take_over("c", f"other{number}", LEASE, now=10) for number in range(20)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(not isinstance(one, FencedError) for one in results) == 1
        record = await ledger.load("c")
        assert record is not None
        assert record.epoch == 2

    database.run(scenario)


def test_the_state_is_json_and_comes_back_with_a_version(database: Database) -> None:
    state = {"messages": [{"text": "\x00 \ud800 \u202e é"}], "machine": {"n": 2**70, "x": 1.0}}

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        assert [await ledger.save("c", 1, one, now=1) for one in ({}, state)] == [1, 2]
        record = await ledger.load("c", ANN)
        assert record is not None
        assert (record.state, record.version) == (state, 2)
        for bad in (object(), float("nan"), {"x": {1}}):
            with pytest.raises(LedgerError) as refusal:
                await ledger.save("c", 1, bad, now=1)
            assert refusal.value.code == "not_json"

    database.run(scenario)


def test_a_conversation_of_another_principal_is_not_found(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for other in (Principal("eve", "acme"), Principal("ann", "evil")):
            assert await ledger.load("c", other) is None
            with pytest.raises(LedgerError) as refusal:
                await ledger.open("c", other, "two", LEASE, now=99)
            assert refusal.value.code == "conversation_taken"
            assert "ann" not in refusal.value.message

    database.run(scenario)


def test_no_call_starts_on_an_expired_lease(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        with pytest.raises(FencedError) as refusal:
            await ledger.start(what, 1, now=LEASE)
        assert refusal.value.code == "lease_over"
        await ledger.renew("c", 1, LEASE, now=LEASE)
        assert await ledger.start(what, 1, now=LEASE)

    database.run(scenario)


@pytest.mark.parametrize("name", ["", "a\x00b", "a\nb", "\ud800", "x" * 257])
def test_a_name_that_a_database_cannot_store_or_that_misleads_readers_is_refused(database: Database, name: str) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for refused in (
            ledger.open(name, ANN, "one", LEASE, now=0),
            ledger.propose(claim(call_id=name), 1, side_effects=True, needs_approval=False, now=0),
            ledger.approve("a", name, now=0),
        ):
            with pytest.raises(LedgerError) as refusal:
                await refused
            assert refusal.value.code == "bad_name"

    database.run(scenario)


def test_a_claim_needs_a_complete_call_and_its_bytes_are_canonical() -> None:
    tool = ToolDefinition("pay")
    spelled = [ToolCall.of("pay", text, "k") for text in ('{"b":1.0,"a":"\\u00e9"}', '{ "a": "é", "b": 1.0 }')]
    first, second = (Claim.of("c", ANN, call, tool) for call in spelled)
    assert first == second
    assert first.arguments == '{"a":"é","b":1.0}'.encode()
    broken = [ToolCall.of("pay", "[1]", "k"), ToolCall.of("other", "{}", "k"), replace(spelled[0], complete=False)]
    for call in (*broken, ToolCall.of("pay", '{"x":1e999}', "k")):
        with pytest.raises(LedgerError):
            Claim.of("c", ANN, call, tool)
