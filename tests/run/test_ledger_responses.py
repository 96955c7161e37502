"""Stored responses, in each database."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import ApprovalDecision, ApprovalState, ResponseRecord, ResponseStatus
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger.tables import VERSION
from run.ledger_databases import ANN, LEASE, Database, claim, fresh_name, propose_call, sqlite_database
from run.watched_ledger import Executed, watch

STATE = {"messages": ["hello"]}
EVE = Principal("eve", "acme")


def record(id: str = "r", conversation: str = "c", created: float = 0.0) -> ResponseRecord:
    request = json.dumps({"whose": "gateway", "note": "\x00é"})
    whose = (id, conversation, ANN.tenant, ANN.name)
    return ResponseRecord(*whose, ResponseStatus.IN_PROGRESS, "smol", created, 0, False, request)


async def start_response(
    ledger: SqlLedger, id: str = "r", conversation: str = "c", created: float = 0.0
) -> ResponseRecord:
    """Store a response of Ann's with two events; the process "one" owns the conversation."""
    await ledger.open(conversation, ANN, "one", LEASE, now=0)
    response = record(id, conversation, created)
    await ledger.add_response(response, 1, ("0", "1"), STATE, now=0)
    return response


async def event_numbers(ledger: SqlLedger, after: int = -1) -> list[int]:
    return [int(one) for one in await ledger.response_events("r", after)]


def test_a_response_comes_back_as_it_was_stored_with_its_first_events_and_the_conversation(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        response = await start_response(ledger)
        loaded = await ledger.response("r", ANN)
        assert loaded is not None
        assert (loaded.request, loaded.status, loaded.model) == (response.request, ResponseStatus.IN_PROGRESS, "smol")
        assert (loaded.is_ended, loaded.is_cancelled, await event_numbers(ledger)) == (False, False, [0, 1])
        conversation = await ledger.load("c")
        assert conversation is not None
        assert conversation.state == STATE
        with pytest.raises(LedgerError) as refusal:
            await ledger.add_response(response, 1, (), None, now=1)
        assert refusal.value.code == "response_taken"

    database.run(scenario)


def test_events_are_appended_in_batches_and_read_from_any_number_on(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        await ledger.append_events("r", 1, ("2", "3", "4"), first=2, now=1)
        await ledger.append_events("r", 1, ("5",), first=5, now=1)
        assert [await event_numbers(ledger, after) for after in (-1, 3, 5, 99)] == [[*range(6)], [4, 5], [], []]
        assert await ledger.response_events("r", 1, limit=2) == ("2", "3")

    database.run(scenario)


@given(
    batches=st.lists(st.integers(1, 5), max_size=8),
    old=st.integers(0, 4),
    after=st.integers(-1, 45),
    limit=st.integers(1, 9),
)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_page_of_events_begins_and_ends_anywhere_also_after_those_of_an_earlier_release(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int], old: int, after: int, limit: int
) -> None:
    database = sqlite_database(tmp_path_factory.mktemp("events"))

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.add_response(record(), 1, (), STATE, now=0)
        for number in range(old):
            database.execute("INSERT INTO ferrule_response_event VALUES ('r', ?, ?)", (number, str(number)))
        count = old
        for many in batches:
            await ledger.append_events("r", 1, [*map(str, range(count, count + many))], first=count, now=1)
            count += many
        everything = [*map(str, range(count))]
        assert [*await ledger.response_events("r", after, limit)] == everything[after + 1 : after + 1 + limit]

    database.run(scenario)


def test_the_owner_appends_events_without_reading_anything(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        seen: list[Executed] = []
        end = watch(ledger, seen.append)
        for number in range(2, 6):
            await ledger.append_events("r", 1, (str(number),), first=number, now=1)
        assert [type(one.wanted) for one in seen] == [Step] * 4
        # Another process has written: what the owner knows is read again, and then holds again.
        async with await open_ledger(database.where) as other:
            await other.cancel_response("r", ANN, now=2)
        assert (await ledger.append_events("r", 1, ("6",), first=6, now=2)).is_cancelled
        seen.clear()
        assert (await ledger.append_events("r", 1, ("7",), first=7, now=2)).is_cancelled
        assert [type(one.wanted) for one in seen] == [Step]
        end()
        assert await event_numbers(ledger) == [*range(8)]
        assert await ledger.verify() is None

    database.run(scenario)


def test_an_event_with_a_line_break_is_refused(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        with pytest.raises(LedgerError) as refusal:
            await ledger.append_events("r", 1, ("2", "\n"), first=2, now=1)
        assert refusal.value.code == "bad_event"
        assert await event_numbers(ledger) == [0, 1]

    database.run(scenario)


@pytest.mark.parametrize("first", [0, 1, 3, 9])
def test_events_that_do_not_follow_the_last_one_are_refused(database: Database, first: int) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        with pytest.raises(LedgerError) as refusal:
            await ledger.append_events("r", 1, ("x",), first=first, state={"lost": True}, now=1)
        assert refusal.value.code == "response_gap"
        conversation = await ledger.load("c")
        assert conversation is not None
        assert (conversation.state, await event_numbers(ledger)) == (STATE, [0, 1])

    database.run(scenario)


def test_a_fenced_owner_appends_nothing(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        response = await start_response(ledger)
        assert (await ledger.take_over("c", "two", LEASE, now=LEASE)).epoch == 2
        for late in (
            ledger.append_events(
                "r", 1, ("2",), first=2, state={"lost": True}, status=ResponseStatus.COMPLETED, now=11
            ),
            ledger.add_response(replace(response, id="other"), 1, ("0",), {"lost": True}, now=11),
        ):
            with pytest.raises(FencedError):
                await late
        loaded, conversation = await ledger.response("r"), await ledger.load("c")
        assert loaded is not None
        assert conversation is not None
        assert (loaded.status, conversation.state) == (ResponseStatus.IN_PROGRESS, STATE)
        await ledger.append_events("r", 2, ("2",), first=2, now=11)
        assert await event_numbers(ledger) == [0, 1, 2]

    database.run(scenario)


def test_of_an_old_and_a_new_owner_that_append_at_once_only_the_new_one_succeeds(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        await ledger.take_over("c", "two", LEASE, now=LEASE)
        tries = [ledger.append_events("r", epoch, (f"{epoch}",), first=2, now=11) for epoch in (1, 2) for _ in range(8)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(one, FencedError) for one in results) == 8
        assert sum(isinstance(one, ResponseRecord) for one in results) == 1
        assert await event_numbers(ledger) == [0, 1, 2]

    database.run(scenario)


def test_the_last_events_the_state_and_the_end_are_one_transaction_and_nothing_follows(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        state = {"messages": ["hello", "hi"]}
        ended = await ledger.append_events(
            "r", 1, ("2",), first=2, state=state, status=ResponseStatus.COMPLETED, reach=2, now=1
        )
        assert (ended.status, ended.reach, ended.is_ended) == (ResponseStatus.COMPLETED, 2, True)
        for late in (("3",), ()):
            with pytest.raises(LedgerError) as refusal:
                await ledger.append_events("r", 1, late, first=3, status=ResponseStatus.FAILED, now=1)
            assert refusal.value.code == "response_ended"
        assert await ledger.response("r") == ended

    database.run(scenario)


def test_unfinished_responses_are_found_after_their_lease_expired_oldest_first(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for number, name in enumerate(("late", "early", "done", "held")):
            await start_response(ledger, name, name, created=float(9 - number))
        await ledger.append_events("done", 1, (), first=2, status=ResponseStatus.COMPLETED, now=1)
        await ledger.renew("held", 1, LEASE, now=5)
        assert await ledger.unfinished_responses(9, now=LEASE - 1) == ()
        for limit, names in ((9, ["early", "late"]), (1, ["early"])):
            assert [one.id for one in await ledger.unfinished_responses(limit, now=LEASE)] == names
        await ledger.release("held", 1, now=6)
        assert [one.id for one in await ledger.unfinished_responses(9, now=6)] == ["held"]

    database.run(scenario)


def test_a_response_of_another_principal_is_not_found(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        for other in (EVE, Principal("ann", "evil")):
            assert await ledger.response("r", other) is None
            assert await ledger.cancel_response("r", other, now=1) is None
            assert not await ledger.delete_response("r", other, now=1)
        with pytest.raises(LedgerError) as refusal:
            await ledger.add_response(replace(record("x"), principal="eve"), 1, (), None, now=1)
        assert refusal.value.code == "other_principal"
        loaded = await ledger.response("r", ANN)
        assert loaded is not None
        assert not loaded.is_cancelled

    database.run(scenario)


def test_an_owner_learns_of_a_cancellation_with_its_next_append(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        assert not (await ledger.append_events("r", 1, ("2",), first=2, now=1)).is_cancelled
        for _ in range(2):
            response = await ledger.cancel_response("r", ANN, now=2)
            assert response is not None
            assert response.is_cancelled
        assert (await ledger.append_events("r", 1, (), first=3, now=3)).is_cancelled
        await ledger.append_events("r", 1, (), first=3, status=ResponseStatus.CANCELLED, now=4)
        kinds = [row.kind for row in await ledger.audit("c")]
        assert kinds.count("response_asked_to_cancel") == 1
        after = await ledger.cancel_response("r", ANN, now=5)
        assert after is not None
        assert after.status is ResponseStatus.CANCELLED

    database.run(scenario)


def test_a_finished_response_can_be_deleted_and_the_audit_stays(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        with pytest.raises(LedgerError) as refusal:
            await ledger.delete_response("r", ANN, now=1)
        assert refusal.value.code == "response_unfinished"
        await ledger.append_events("r", 1, (), first=2, status=ResponseStatus.COMPLETED, now=1)
        await ledger.add_response(record("second"), 1, (), None, now=1)
        await ledger.append_events("second", 1, (), first=0, status=ResponseStatus.COMPLETED, now=1)
        states: list[object] = []
        for name in ("r", "second"):
            assert await ledger.delete_response(name, ANN, now=2)
            assert not await ledger.delete_response(name, ANN, now=2)
            assert (await ledger.response(name), await ledger.response_events(name)) == (None, ())
            conversation = await ledger.load("c")
            assert conversation is not None
            states.append(conversation.state)
        assert states == [STATE, None], "messages stay while another response of the conversation is stored"
        kinds = [row.kind for row in await ledger.audit("c")]
        assert kinds.count("response_deleted") == 2
        assert await ledger.verify() is None

    database.run(scenario)


def test_a_ledger_of_the_first_version_is_upgraded_with_everything_in_it(database: Database) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, STATE, now=1)

    database.run(first)
    for table in ("ferrule_response_event", "ferrule_response"):
        database.execute(f"DROP TABLE {table}", ())
    database.execute("UPDATE ferrule_ledger SET version = 1", ())

    async def then(ledger: SqlLedger) -> None:
        conversation = await ledger.load("c", ANN)
        assert conversation is not None
        assert conversation.state == STATE
        await ledger.add_response(record(), 1, ("0",), None, now=1)
        assert await ledger.verify() is None

    database.run(then)
    database.run(_still_there)
    assert database.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]


async def _still_there(ledger: SqlLedger) -> None:
    assert await ledger.response("r") is not None


@given(cuts=st.lists(st.integers(0, 7), max_size=12), kills=st.sets(st.integers(0, 11), max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_events_are_batched_and_owners_change_every_number_is_stored_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], kills: set[int]
) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await start_response(ledger)
        epoch, now, next_number = 1, 0.0, 2
        for turn, size in enumerate(cuts):
            if turn in kills:
                now += LEASE
                epoch = (await ledger.take_over("c", fresh_name(), LEASE, now=now)).epoch
                with pytest.raises(FencedError):
                    await ledger.append_events("r", epoch - 1, ("x",), first=next_number, now=now)
            batch = [str(next_number + at) for at in range(size)]
            await ledger.append_events("r", epoch, batch, first=next_number, now=now)
            next_number += size
        assert await event_numbers(ledger) == [*range(next_number)]

    sqlite_database(tmp_path_factory.mktemp("ledger")).run(scenario)


def test_decisions_are_recorded_with_the_response_that_follows_from_them_or_not_at_all(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for call_id in ("k1", "k2"):
            await propose_call(ledger, True, claim(call_id=call_id))
        first, second = [
            (await ledger.request_approval("c", call_id, 1, expires=5, now=0)).id for call_id in ("k1", "k2")
        ]
        yes, no = ApprovalDecision(first, True, "ann"), ApprovalDecision(second, False, "ann", "too much")
        await ledger.add_response(record("r"), 1, (), None, (yes,), now=1)
        for again, code in ((yes, "approval_decided"), (ApprovalDecision("none", True, "ann"), "approval_unknown")):
            with pytest.raises(ApprovalError) as refusal:
                await ledger.add_response(record("again"), 1, (), STATE, (no, again), now=2)
            assert refusal.value.code == code
            pending = await ledger.approval(second)
            assert pending is not None
            assert (await ledger.response("again"), pending.state) == (None, ApprovalState.PENDING)
        await ledger.add_response(record("last"), 1, (), None, (no,), now=2)
        decided = [await ledger.approval(one) for one in (first, second)]
        assert [one and one.state for one in decided] == [ApprovalState.APPROVED, ApprovalState.DENIED]

    database.run(scenario)
