"""What every ledger does with answers that are kept, whichever database it is in."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.ledger.ledger import ApprovalState, ResponseRecord, ResponseStatus, Verdict
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import VERSION
from run.ledger_databases import ANN, LEASE, Home, claim, fresh_name, proposed, sqlite_home

STATE = {"messages": ["hello"]}
EVE = Principal("eve", "acme")


def record(id: str = "r", conversation: str = "c", created: float = 0.0) -> ResponseRecord:
    request = json.dumps({"whose": "gateway", "note": "\x00é"})
    whose = (id, conversation, ANN.tenant, ANN.name)
    return ResponseRecord(*whose, ResponseStatus.IN_PROGRESS, "smol", created, 0, False, request)


async def begun(ledger: SqlLedger, id: str = "r", conversation: str = "c", created: float = 0.0) -> ResponseRecord:
    """Ann's answer, whose owner is one and which begins with two events."""
    await ledger.open(conversation, ANN, "one", LEASE, now=0)
    kept = record(id, conversation, created)
    await ledger.add_response(kept, 1, ("0", "1"), STATE, now=0)
    return kept


async def told(ledger: SqlLedger, after: int = -1) -> list[int]:
    return [int(one) for one in await ledger.response_events("r", after)]


def test_an_answer_comes_back_as_it_was_kept_with_its_first_events_and_the_conversation(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        kept = await begun(ledger)
        found = await ledger.response("r", ANN)
        assert found is not None
        assert (found.request, found.status, found.model) == (kept.request, ResponseStatus.IN_PROGRESS, "smol")
        assert (found.is_ended, found.is_cancelled, await told(ledger)) == (False, False, [0, 1])
        held = await ledger.load("c")
        assert held is not None
        assert held.state == STATE
        with pytest.raises(LedgerError) as refusal:
            await ledger.add_response(kept, 1, (), None, now=1)
        assert refusal.value.code == "response_taken"

    home.run(story)


def test_events_are_told_in_batches_and_read_from_any_number_on(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        await ledger.tell("r", 1, ("2", "3", "4"), first=2, now=1)
        await ledger.tell("r", 1, ("5",), first=5, now=1)
        assert [await told(ledger, after) for after in (-1, 3, 5, 99)] == [[*range(6)], [4, 5], [], []]
        assert await ledger.response_events("r", 1, limit=2) == ("2", "3")

    home.run(story)


@pytest.mark.parametrize("first", [0, 1, 3, 9])
def test_events_that_do_not_follow_the_last_one_are_not_taken(home: Home, first: int) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        with pytest.raises(LedgerError) as refusal:
            await ledger.tell("r", 1, ("x",), first=first, state={"lost": True}, now=1)
        assert refusal.value.code == "response_gap"
        held = await ledger.load("c")
        assert held is not None
        assert (held.state, await told(ledger)) == (STATE, [0, 1])

    home.run(story)


def test_an_owner_who_was_fenced_off_tells_nothing(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        kept = await begun(ledger)
        assert (await ledger.take_over("c", "two", LEASE, now=LEASE)).epoch == 2
        for late in (
            ledger.tell("r", 1, ("2",), first=2, state={"lost": True}, status=ResponseStatus.COMPLETED, now=11),
            ledger.add_response(replace(kept, id="other"), 1, ("0",), {"lost": True}, now=11),
        ):
            with pytest.raises(FencedError):
                await late
        found, held = await ledger.response("r"), await ledger.load("c")
        assert found is not None
        assert held is not None
        assert (found.status, held.state) == (ResponseStatus.IN_PROGRESS, STATE)
        await ledger.tell("r", 2, ("2",), first=2, now=11)
        assert await told(ledger) == [0, 1, 2]

    home.run(story)


def test_of_an_old_owner_and_a_new_one_who_tell_at_once_only_the_new_one_is_heard(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        await ledger.take_over("c", "two", LEASE, now=LEASE)
        tries = [ledger.tell("r", epoch, (f"{epoch}",), first=2, now=11) for epoch in (1, 2) for _ in range(8)]
        results = await asyncio.gather(*tries, return_exceptions=True)
        assert sum(isinstance(one, FencedError) for one in results) == 8
        assert sum(isinstance(one, ResponseRecord) for one in results) == 1
        assert await told(ledger) == [0, 1, 2]

    home.run(story)


def test_the_last_events_the_state_and_the_end_are_of_one_moment_and_nothing_follows(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        state = {"messages": ["hello", "hi"]}
        ended = await ledger.tell("r", 1, ("2",), first=2, state=state, status=ResponseStatus.COMPLETED, reach=2, now=1)
        assert (ended.status, ended.reach, ended.is_ended) == (ResponseStatus.COMPLETED, 2, True)
        for late in (("3",), ()):
            with pytest.raises(LedgerError) as refusal:
                await ledger.tell("r", 1, late, first=3, status=ResponseStatus.FAILED, now=1)
            assert refusal.value.code == "response_ended"
        assert await ledger.response("r") == ended

    home.run(story)


def test_unfinished_answers_are_found_once_their_owner_is_silent_oldest_first(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        for number, name in enumerate(("late", "early", "done", "held")):
            await begun(ledger, name, name, created=float(9 - number))
        await ledger.tell("done", 1, (), first=2, status=ResponseStatus.COMPLETED, now=1)
        await ledger.renew("held", 1, LEASE, now=5)
        assert await ledger.unfinished_responses(9, now=LEASE - 1) == ()
        for limit, names in ((9, ["early", "late"]), (1, ["early"])):
            assert [one.id for one in await ledger.unfinished_responses(limit, now=LEASE)] == names
        await ledger.release("held", 1, now=6)
        assert [one.id for one in await ledger.unfinished_responses(9, now=6)] == ["held"]

    home.run(story)


def test_somebody_else_s_answer_is_not_there(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        for other in (EVE, Principal("ann", "evil")):
            assert await ledger.response("r", other) is None
            assert await ledger.cancel_response("r", other, now=1) is None
            assert not await ledger.delete_response("r", other, now=1)
        with pytest.raises(LedgerError) as refusal:
            await ledger.add_response(replace(record("x"), principal="eve"), 1, (), None, now=1)
        assert refusal.value.code == "other_principal"
        found = await ledger.response("r", ANN)
        assert found is not None
        assert not found.is_cancelled

    home.run(story)


def test_an_owner_reads_that_he_is_asked_to_stop_with_what_he_tells_next(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        assert not (await ledger.tell("r", 1, ("2",), first=2, now=1)).is_cancelled
        for _ in range(2):
            asked = await ledger.cancel_response("r", ANN, now=2)
            assert asked is not None
            assert asked.is_cancelled
        assert (await ledger.tell("r", 1, (), first=3, now=3)).is_cancelled
        await ledger.tell("r", 1, (), first=3, status=ResponseStatus.CANCELLED, now=4)
        kinds = [row.kind for row in await ledger.audit("c")]
        assert kinds.count("response_asked_to_cancel") == 1
        after = await ledger.cancel_response("r", ANN, now=5)
        assert after is not None
        assert after.status is ResponseStatus.CANCELLED

    home.run(story)


def test_an_answer_that_ended_can_be_forgotten_and_the_audit_stays(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        with pytest.raises(LedgerError) as refusal:
            await ledger.delete_response("r", ANN, now=1)
        assert refusal.value.code == "response_unfinished"
        await ledger.tell("r", 1, (), first=2, status=ResponseStatus.COMPLETED, now=1)
        await ledger.add_response(record("second"), 1, (), None, now=1)
        await ledger.tell("second", 1, (), first=0, status=ResponseStatus.COMPLETED, now=1)
        states: list[object] = []
        for name in ("r", "second"):
            assert await ledger.delete_response(name, ANN, now=2)
            assert not await ledger.delete_response(name, ANN, now=2)
            assert (await ledger.response(name), await ledger.response_events(name)) == (None, ())
            held = await ledger.load("c")
            assert held is not None
            states.append(held.state)
        assert states == [STATE, None], "what was said stays while another answer of the conversation is kept"
        kinds = [row.kind for row in await ledger.audit("c")]
        assert kinds.count("response_deleted") == 2
        assert await ledger.verify() is None

    home.run(story)


def test_a_ledger_of_the_first_version_is_taken_up_with_everything_in_it(home: Home) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, STATE, now=1)

    home.run(first)
    for table in ("ferrule_response_event", "ferrule_response"):
        home.execute(f"DROP TABLE {table}", ())
    home.execute("UPDATE ferrule_ledger SET version = 1", ())

    async def then(ledger: SqlLedger) -> None:
        held = await ledger.load("c", ANN)
        assert held is not None
        assert held.state == STATE
        await ledger.add_response(record(), 1, ("0",), None, now=1)
        assert await ledger.verify() is None

    home.run(then)
    home.run(_still_there)
    assert home.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]


async def _still_there(ledger: SqlLedger) -> None:
    assert await ledger.response("r") is not None


@given(cuts=st.lists(st.integers(0, 7), max_size=12), kills=st.sets(st.integers(0, 11), max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_however_events_are_cut_and_owners_change_every_number_is_kept_once(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int], kills: set[int]
) -> None:
    async def story(ledger: SqlLedger) -> None:
        await begun(ledger)
        epoch, now, told_up_to = 1, 0.0, 2
        for turn, size in enumerate(cuts):
            if turn in kills:
                now += LEASE
                epoch = (await ledger.take_over("c", fresh_name(), LEASE, now=now)).epoch
                with pytest.raises(FencedError):
                    await ledger.tell("r", epoch - 1, ("x",), first=told_up_to, now=now)
            batch = [str(told_up_to + at) for at in range(size)]
            await ledger.tell("r", epoch, batch, first=told_up_to, now=now)
            told_up_to += size
        assert await told(ledger) == [*range(told_up_to)]

    sqlite_home(tmp_path_factory.mktemp("ledger")).run(story)


def test_verdicts_are_given_with_the_answer_that_follows_from_them_or_not_at_all(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        for call_id in ("k1", "k2"):
            await proposed(ledger, True, claim(call_id=call_id))
        first, second = [
            (await ledger.request_approval("c", call_id, 1, expires=5, now=0)).id for call_id in ("k1", "k2")
        ]
        yes, no = Verdict(first, True, "ann"), Verdict(second, False, "ann", "too much")
        await ledger.add_response(record("r"), 1, (), None, (yes,), now=1)
        for again, code in ((yes, "approval_decided"), (Verdict("none", True, "ann"), "approval_unknown")):
            with pytest.raises(ApprovalError) as refusal:
                await ledger.add_response(record("again"), 1, (), STATE, (no, again), now=2)
            assert refusal.value.code == code
            pending = await ledger.approval(second)
            assert pending is not None
            assert (await ledger.response("again"), pending.state) == (None, ApprovalState.PENDING)
        await ledger.add_response(record("last"), 1, (), None, (no,), now=2)
        decided = [await ledger.approval(one) for one in (first, second)]
        assert [one and one.state for one in decided] == [ApprovalState.APPROVED, ApprovalState.DENIED]

    home.run(story)
