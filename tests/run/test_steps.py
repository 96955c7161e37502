"""A step writes everything that belongs to a transition in one statement, or nothing: see `run.ledger.step`."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest

from ferrule import CallContext, ChatMessage, Reply, ToolCall, ToolConversation, tool
from ferrule.core.context import TaskRecord
from ferrule.core.message import messages_as_json
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.errors import ApprovalError, FencedError, LedgerError
from ferrule.run.journal import CallEntry, Decision
from ferrule.run.ledger import step_sql
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.approval_terms import ApprovalTerms
from ferrule.run.ledger.change import Approve, AskApproval, Change, ProposeCall, StartCall
from ferrule.run.ledger.ledger import ApprovalState, CallState, ResponseRecord, ResponseStatus
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.step import Step
from ferrule.run.ledger_journal import LedgerJournal
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import AttemptStatus, CallAttempt, ToolUsage
from run.counted_turns import STEPS_OF_TURNS, allow, engine_of, look, pay, watch_steps
from run.ledger_databases import ANN, LEASE, Database, approve_call, claim, postgres_database, propose_call
from run.watched_ledger import Executed, watch

MESSAGES = messages_as_json([ChatMessage.user("How is Bern?"), ChatMessage.assistant("Sunny.")])


def saved(count: int, first: int = 0) -> StateUpdate:
    return StateUpdate({"version": 1, "messages": count, "loop": None}, MESSAGES[first:count], first)


def test_a_save_writes_only_the_messages_that_are_new(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, saved(1), now=1)
        database.execute("UPDATE ferrule_message SET body = '{\"kept\":1}' WHERE n = 0", ())
        await ledger.save("c", 1, saved(2, first=1), now=2)
        record = await ledger.load("c")
        assert record is not None
        assert record.state["messages"] == [{"kept": 1}, MESSAGES[1]]
        assert record.messages == 2

    database.run(scenario)


def test_messages_that_were_dropped_are_not_read_again(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, saved(2), now=1)
        await ledger.save("c", 1, saved(1, first=1), now=2)
        record = await ledger.load("c")
        assert record is not None
        assert record.state["messages"] == MESSAGES[:1]

    database.run(scenario)


def test_messages_that_would_leave_a_gap_are_refused(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        with pytest.raises(LedgerError) as refusal:
            await ledger.save("c", 1, saved(2, first=1), now=1)
        assert refusal.value.code == "message_gap"
        record = await ledger.load("c")
        assert record is not None
        assert record.state is None

    database.run(scenario)


def test_transitions_at_the_same_time_in_one_conversation_all_happen_and_the_chain_holds(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        async with await open_ledger(database.where) as other:
            claims = [claim(call_id=f"k{number}") for number in range(12)]
            await asyncio.gather(
                *(
                    (ledger, other)[number % 2].propose(one, 1, side_effects=True, needs_approval=False, now=0)
                    for number, one in enumerate(claims)
                )
            )
            started = await asyncio.gather(*(one.start(claims[0], 1, now=1) for one in (ledger, other, ledger, other)))
        assert sorted(started) == [False, False, False, True]
        assert len(await ledger.calls("c")) == len(claims)
        assert await ledger.verify() is None

    database.run(scenario)


def test_conversations_that_are_written_together_fail_alone(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        names = [f"c{number}" for number in range(20)]
        await asyncio.gather(*(ledger.open(name, ANN, "one", LEASE, now=0) for name in names))
        works: list[Any] = [ledger.save(name, 1, {"name": name}, now=1) for name in names]
        works += [ledger.save("c3", 2, {}, now=1), ledger.save("nowhere", 1, {}, now=1)]
        results = await asyncio.gather(*works, return_exceptions=True)
        assert results[:20] == [1] * 20
        assert isinstance(results[20], FencedError)
        assert isinstance(results[21], LedgerError)
        assert await ledger.verify() is None

    database.run(scenario)


def test_a_call_that_was_changed_past_the_ledger_is_not_ended_and_nothing_else_is_written(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        await ledger.start(what, 1, now=1)
        before = await ledger.audit("c")

        # The process that started the call knows it, and does not read it again before it writes the end.
        database.execute("UPDATE ferrule_call SET state = 'failed' WHERE id = 'k'", ())
        with pytest.raises(LedgerError) as refusal:
            await ledger.finish("c", "k", 1, Answered("paid"), now=2)
        assert refusal.value.code == "ledger_damaged"
        assert await ledger.audit("c") == before


def test_a_call_is_recorded_in_two_steps_and_nothing_is_read_in_between(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        what, wanted = claim(), list[str]()
        end = watch(ledger, lambda one: wanted.append(type(one.wanted).__name__))
        proposal = ProposeCall(claim=what, side_effects=True, needs_approval=False, is_new=True, at=1)
        await ledger.apply("c", 1, (proposal, StartCall(claim=what, at=1)))
        ended = await ledger.finish("c", "k", 1, Answered("paid"), now=2)
        end()
        assert wanted == ["Step", "Step"]
        assert ended == await ledger.call("c", "k")
        assert await ledger.verify() is None

    database.run(scenario)


def test_a_call_that_another_process_has_changed_is_read_again(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger, needs_approval=True)
        approval = await ledger.request_approval("c", "k", 1, expires=9, now=1)
        async with await open_ledger(database.where) as other:
            await other.approve(approval.id, "bob", b'{"amount":1}', now=2)
        with pytest.raises(ApprovalError) as refusal:
            await ledger.start(what, 1, approval=approval.id, now=3)
        assert refusal.value.code == "approval_arguments_changed"
        changed = replace(what, arguments=b'{"amount":1}')
        assert await ledger.start(changed, 1, approval=approval.id, now=3)
        ended = await ledger.finish("c", "k", 1, Answered("paid"), now=4)
        assert ended.arguments == b'{"amount":1}'
        assert ended == await ledger.call("c", "k")

    database.run(scenario)


def test_an_approval_is_used_once_however_many_processes_start_the_call(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what, approval = await approve_call(ledger)
        async with await open_ledger(database.where) as other:
            starts = [one.start(what, 1, approval=approval.id, now=2) for one in (ledger, other) * 4]
            results = await asyncio.gather(*starts, return_exceptions=True)
        assert [one for one in results if one is True] == [True]
        assert all(one is True or isinstance(one, LedgerError) for one in results)

    database.run(scenario)


def test_several_approvals_of_one_conversation_are_decided_in_one_step(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        changes: list[Change] = []
        for name in ("k1", "k2", "k3"):
            what = claim(call_id=name)
            changes += [
                ProposeCall(claim=what, side_effects=True, needs_approval=True, is_new=True, at=1),
                AskApproval(approval=f"a-{name}", call_id=name, expires=9, at=1),
                Approve(approval=f"a-{name}", by="bob", at=2),
                StartCall(claim=what, approval=f"a-{name}", at=3),
            ]
        results = await ledger.apply("c", 1, changes)
        assert [one for one in results if one is True] == [True] * 3
        assert {call.state for call in await ledger.calls("c")} == {CallState.STARTED}
        assert {one.state for one in await ledger.approvals()} == {ApprovalState.REDEEMED}
        assert await ledger.verify() is None

    database.run(scenario)


@pytest.mark.parametrize("calls", STEPS_OF_TURNS)
def test_a_turn_takes_as_many_steps_as_its_effects_need(database: Database, calls: str) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        written, engine = watch_steps(ledger), engine_of(calls)
        talk = await ToolConversation.open(
            ledger, "c", engine, [look, pay], context=CallContext(principal=ANN), decide=allow, is_one_turn=True
        )
        assert (await talk.send_message("go")).text == "Done."
        await talk.close()
        assert len(written) <= STEPS_OF_TURNS[calls], written
        assert await ledger.verify() is None
        again = await ToolConversation.open(ledger, "c", engine, [look, pay], context=CallContext(principal=ANN))
        assert again.messages == talk.messages

    database.run(scenario)


def test_of_calls_that_start_together_only_the_one_that_is_refused_does_not_run(database: Database) -> None:
    pay = ToolDefinition("pay", side_effects=True)
    begun: list[str] = []

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        journal = LedgerJournal(ledger, "c", ANN, 1, calls={}, is_begun=True, clock=lambda: 1.0)

        async def run(place: str, needs_approval: bool) -> Outcome:
            async def effect(task: TaskRecord) -> Outcome:
                # The start is durable: another process sees it.
                async with await open_ledger(database.where) as other:
                    call = await other.call("c", place)
                assert call is not None
                assert call.state is CallState.STARTED
                begun.append(place)
                return Answered("paid")

            return await journal.run(CallEntry(place, ToolCall.of("pay", {}, id=place), pay, needs_approval), effect)

        outcomes = await asyncio.gather(run("0.0", False), run("0.1", True), run("0.2", False))
        assert sorted(begun) == ["0.0", "0.2"]
        assert [isinstance(one, Answered) and one.is_error for one in outcomes] == [False, True, False]
        assert [call.state for call in await ledger.calls("c")] == [CallState.DONE, CallState.DONE]
        assert await ledger.verify() is None

    database.run(scenario)


def test_the_outcome_of_a_call_does_not_wait_for_the_other_calls_of_its_round(database: Database) -> None:
    pay = ToolDefinition("pay", side_effects=True)

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        journal = LedgerJournal(ledger, "c", ANN, 1, calls={}, is_begun=True, clock=lambda: 1.0)
        over = asyncio.Event()

        async def run(place: str, waits: bool) -> None:
            async def effect(task: TaskRecord) -> Outcome:
                if waits:
                    await over.wait()
                return Answered("paid")

            await journal.run(CallEntry(place, ToolCall.of("pay", {}, id=place), pay, False), effect)

        slow = asyncio.ensure_future(run("0.0", True))
        await run("0.1", False)
        assert [call.state for call in await ledger.calls("c")] == [CallState.STARTED, CallState.DONE]
        over.set()
        await slow
        assert [call.state for call in await ledger.calls("c")] == [CallState.DONE, CallState.DONE]

    database.run(scenario)


def size_of(one: Executed) -> list[int]:
    """How many characters a step writes; nothing for a statement."""
    step = one.wanted
    return [len(repr((step.rows, step.state_text)))] if isinstance(step, Step) else []


def test_a_turn_writes_as_much_after_a_thousand_messages_as_after_ten(database: Database) -> None:
    sizes: dict[int, list[int]] = {10: [], 1_000: []}

    @tool(side_effects=True)
    async def pay() -> str:
        return "paid"

    async def allow(call: ToolCall) -> Decision:
        return Decision(True)

    async def scenario(ledger: SqlLedger) -> None:
        for length, bytes_written in sizes.items():
            engine = FakeEngine([Reply.of("Hello."), Reply.of(ToolCall.of("pay", {}, id="c1")), Reply.of("Done.")])
            context = CallContext(principal=ANN)
            talk = await ToolConversation.open(ledger, f"c{length}", engine, [pay], context=context, decide=allow)
            await talk.send_message([ChatMessage.user(f"message {number:9}") for number in range(length)])
            end = watch(ledger, lambda one, into=bytes_written: into.extend(size_of(one)))
            await talk.send_message("Pay.")
            end()
        assert len(sizes[10]) == len(sizes[1_000])
        # Numbers have more digits.
        assert sum(sizes[1_000]) < 1.1 * sum(sizes[10])

    database.run(scenario)


def test_an_owner_that_was_replaced_is_refused_even_where_nothing_would_change(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        what = await propose_call(ledger)
        async with await open_ledger(database.where) as other:
            await other.take_over("c", "two", LEASE, now=LEASE + 1)
        with pytest.raises(FencedError):
            await ledger.propose(what, 1, side_effects=True, needs_approval=False, now=LEASE + 2)

    database.run(scenario)


def test_a_statement_that_writes_leaves_no_lock_behind(cluster: Path) -> None:
    database = postgres_database(cluster)
    idle = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction' AND query LIKE '%ferrule_%'"

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        watcher = await psycopg.AsyncConnection.connect(database.where, autocommit=True)
        seen = 0
        for number in range(30):
            work = asyncio.ensure_future(ledger.save("c", 1, {"number": number}, now=1))
            row = await (await watcher.execute(idle.encode())).fetchone()
            seen += row[0] if row else 0
            await work
        await watcher.close()
        assert seen == 0

    database.run(scenario)


TABLES = (
    *("conversation", "message", "call", "approval", "approval_terms", "vote", "response", "event"),
    *("selection", "pick", "continuation", "audit"),
)


async def work(ledger: SqlLedger) -> None:
    """Steps with every kind of row, in a text that is not ASCII."""
    await ledger.open("c", ANN, "one", LEASE, now=0)
    await ledger.save("c", 1, saved(2), now=1)
    what = claim(arguments={"to": "Zoë \u2028 \U0001f600", "amount": 0.1})
    usage = ToolUsage((ToolDefinition("pay"),), (CallAttempt("pay", AttemptStatus.ACCEPTED, "pay", 0),))
    await ledger.record_reply(ReplyRecord("c", "0.1", "m", usage), 1, now=1.5)
    terms = ApprovalTerms(approvers=2)
    changes: list[Change] = [
        ProposeCall(claim=what, side_effects=True, needs_approval=True, is_new=True, at=1),
        AskApproval(approval="a", call_id="k", expires=9, terms=terms, at=1),
    ]
    await ledger.apply("c", 1, changes)
    changed = replace(what, arguments=b'{"amount":7}')
    for who, seen in (("bob", what), ("eve", changed)):
        await ledger.approve("a", who, changed.arguments, seen=seen.arguments_sha256, now=2)
    await ledger.start(changed, 1, approval="a", now=3)
    await ledger.finish("c", "k", 1, Answered({"paid": "Zoë"}), now=4)
    response = ResponseRecord("r", "c", "acme", "ann", ResponseStatus.IN_PROGRESS, "m", 4, 0, False, "{}")
    await ledger.add_response(response, 1, ['{"n":0}'], now=5)
    await ledger.append_events("r", 1, ['{"n":1}', '{"n":2}'], first=1, status=ResponseStatus.COMPLETED, now=6)


def test_a_step_is_written_the_same_alone_and_together_with_others(
    cluster: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows: list[list[list[tuple[Any, ...]]]] = []
    for limit in (step_sql.MAX_SHORT_ROWS, -1):
        monkeypatch.setattr(step_sql, "MAX_SHORT_ROWS", limit)
        database = postgres_database(cluster)
        database.run(work)
        rows.append([database.execute(f"SELECT * FROM ferrule_{name} ORDER BY 1, 2, 3", ()) for name in TABLES])
    assert all(rows[0])
    assert rows[0] == rows[1]
