"""Tool statistics, read back from a ledger in each database."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.call import How, Receipt, ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError
from ferrule.run.conversation import ToolConversation
from ferrule.run.journal import Decision
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.sqlite import run_transaction
from ferrule.run.ledger.tables import VERSION
from ferrule.run.ledger.tool_usage import MAX_OFFERED_TOOLS, MAX_TIMED_ROWS, find_call_seconds, find_usage, find_uses
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import (
    PICKED,
    WRONG,
    AttemptStatus,
    CallAttempt,
    ToolUsage,
    UsageCounts,
    UsageQuery,
    UsageRow,
)
from ferrule.sources.fake import FakeSource
from run.ledger_databases import ANN, LEASE, Database, claim, fresh_name, sqlite_database

EVE = Principal("eve", "evil")
LOOK = ToolDefinition("look", "Looks.")
PAY = ToolDefinition("pay", "Pays.", side_effects=True)
ALL = UsageQuery()
REPAIRED = Receipt(how=How.REPAIRED, engine="fake", path="fake")
REFUSED = Receipt(how=How.REFUSED, engine="fake", path="fake")


def answer(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("no", is_error=True) if arguments.get("fails") else Answered("yes")


async def run_conversation(
    ledger: SqlLedger,
    *replies: Reply,
    who: Principal = ANN,
    tools: tuple[ToolDefinition, ...] = (LOOK, PAY),
    **options: Any,
) -> None:
    async def decide(call: ToolCall) -> Decision:
        return Decision(False, "no")

    talk = await ToolConversation.open(
        ledger,
        fresh_name(),
        FakeEngine(replies),
        FakeSource(tools, answer),
        decide=decide,
        context=CallContext(principal=who),
        request=ToolCallRequest(messages=(), **options),
    )
    await talk.send_message("go")
    await talk.close()


def call(name: str, id: str = "c", **arguments: Any) -> ToolCall:
    return ToolCall.of(name, arguments, id=id)


async def counts(ledger: SqlLedger, search: UsageQuery = ALL) -> dict[tuple[str, str], UsageCounts]:
    return {(line.model, line.tool): line.counts for line in (await ledger.usage_report(search)).rows}


async def rows(ledger: SqlLedger, **search: Any) -> tuple[UsageRow, ...]:
    return (await ledger.usage_report(UsageQuery(**search))).rows


def test_a_conversation_leaves_what_was_offered_picked_denied_failed_retried_and_repeated(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await run_conversation(
            ledger,
            Reply.of(call("look", "a", fails=True), call("pay", "b")),
            Reply.of(call("look", "c", fails=True)),
            Reply.of(call("look", "d")),
            Reply.of("Done."),
            model="smol",
        )
        assert await counts(ledger) == {
            ("smol", "look"): UsageCounts(offered=4, picked=3, failed=2, retried=2, repeated=1),
            ("smol", "pay"): UsageCounts(offered=4, picked=1, denied=1),
        }

    database.run(scenario)


def test_calls_that_did_not_fit_and_names_that_were_made_up_are_counted_for_their_tool(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        repaired = replace(call("look", "a"), receipt=REPAIRED)
        refused = replace(call("look", "b"), complete=False, receipt=REFUSED)
        await run_conversation(
            ledger, Reply.of(repaired, refused), Reply.of(call("loock"), call("zz\x00", "d")), Reply.of("Done.")
        )
        report = await ledger.usage_report(ALL)
        assert {line.tool: line.counts for line in report.rows} == {
            "look": UsageCounts(offered=3, picked=1, repaired=1, refused=1, missed=1),
            "pay": UsageCounts(offered=3),
            "": UsageCounts(missed=1),
        }
        assert [(one.wrote, one.tool, one.model, one.count) for one in report.unknown_names] == [
            ("loock", "look", "fake", 1),
            ("zz\x00", "", "fake", 1),
        ]
        assert [line.tool for line in await rows(ledger, tool="look")] == ["look"]

    database.run(scenario)


def test_uses_are_those_of_a_tenant_and_calls_without_use_count_as_failed(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        refused = replace(call("look", "b"), complete=False, receipt=REFUSED)
        await run_conversation(
            ledger,
            Reply.of(call("look", "a", fails=True), call("pay", "b")),
            Reply.of(call("look", "c"), refused),
            Reply.of("Done."),
        )
        await run_conversation(ledger, Reply.of(call("pay", "b")), Reply.of("Done."), who=EVE)
        uses = {use.tool: (use.loaded, use.called, use.failed) for use in await ledger.tool_uses(ANN.tenant, 0.0)}
        assert uses == {"look": (3, 3, 2), "pay": (3, 1, 1)}
        ages = [time.time() - use.at for use in await ledger.tool_uses(ANN.tenant, 0.0)]
        assert all(abs(age) <= 4 * 86_400 for age in ages), "a week is known by its middle"
        assert await ledger.tool_uses(ANN.tenant, time.time() + 60) == ()
        assert await ledger.tool_uses("nobody", 0.0) == ()

    database.run(scenario)


def _steps_to_read_uses(path: Path, offers: int) -> tuple[int, int]:
    """How many steps SQLite takes to read the uses of so many sets of 1,000 tools, and how many tools it returns."""
    path.mkdir()
    database = sqlite_database(path)
    database.run(lambda ledger: ledger.open("c", ANN, "one", LEASE, now=0))
    with closing(sqlite3.connect(database.where)) as connection:
        numbers = "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {}) "
        connection.execute(
            f"INSERT INTO ferrule_definition {numbers.format(1_000 * offers - 1)} "
            "SELECT 'f' || i, 'tool_' || i, '' FROM n"
        )
        connection.execute(
            f"INSERT INTO ferrule_offer {numbers.format(1_000 * offers - 1)} SELECT i / 1000, 'f' || i FROM n"
        )
        connection.execute(
            "INSERT INTO ferrule_selection (conversation, place, tenant, principal, at, model, offer, demanded, "
            f"is_required, is_unanswered) {numbers.format(offers - 1)} "
            "SELECT 'c', i, 'acme', 'ann', 1000 + i, '', i, '', 0, 0 FROM n"
        )
        connection.commit()
        steps = 0

        def count() -> int:
            nonlocal steps
            steps += 1
            return 0

        connection.set_progress_handler(count, 10)
        uses = run_transaction(connection, find_uses("acme", 0.0))
        assert f"tool_{1_000 * offers - 1}" in {use.tool for use in uses}, "the newest count"
    return steps, len(uses)


def test_the_uses_of_large_sets_of_tools_are_read_up_to_a_limit(tmp_path: Path) -> None:
    few, more = (_steps_to_read_uses(tmp_path / str(offers), offers) for offers in (60, 120))
    assert few[1] == more[1] == MAX_OFFERED_TOOLS
    # What grows is the count of the sets that are left out.
    assert more[0] < 1.5 * few[0]


def test_the_times_of_calls_are_those_of_the_ones_that_ran(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        calls = Reply.of(call("look", "a", fails=True), call("look", "c"), call("pay", "b"))
        await run_conversation(ledger, calls, Reply.of("Done."))
        await run_conversation(ledger, Reply.of(call("look", "d")), Reply.of("Done."), who=EVE)

        async def timed(**query: Any) -> list[str]:
            pairs = await ledger.call_seconds(UsageQuery(**query))
            assert all(0 <= seconds < 600 for _, seconds in pairs)
            return [tool for tool, _ in pairs]

        assert await timed() == ["look"] * 3, "a call that was denied did not run"
        assert await timed(tenant=ANN.tenant) == ["look"] * 2
        assert await timed(tenant=ANN.tenant, principal="nobody") == []
        assert await timed(tool="pay") == []
        assert await timed(since=time.time() + 60) == []

    database.run(scenario)


def _steps_to_time(path: Path, calls: int) -> tuple[int, int]:
    """How many steps SQLite takes to read the times of one conversation's calls, and how many times it returns."""
    path.mkdir()
    database = sqlite_database(path)
    database.run(lambda ledger: ledger.open("c", ANN, "one", LEASE, now=0))
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {calls}) "
    database.execute(
        "INSERT INTO ferrule_call (conversation, id, tool, tool_fingerprint, arguments, arguments_sha256, binding, "
        "side_effects, needs_leave, state, epoch, outcome) "
        f"{numbers} SELECT 'c', 'k' || i, 'look', '', '', '', '', 0, 0, 'done', 1, '' FROM n",
        (),
    )
    for offset, kind in enumerate(("proposed", "started", "done")):
        database.execute(
            "INSERT INTO ferrule_audit (conversation, seq, at, kind, call_id, approval, decided_by, epoch, detail, "
            f"previous, hash) {numbers} SELECT 'c', 10 + 3 * i + {offset}, i + {offset}, '{kind}', 'k' || i, '', '', "
            "1, '', '', '' FROM n",
            (),
        )
    database.execute("UPDATE ferrule_conversation SET audit_seq = (SELECT MAX(seq) FROM ferrule_audit)", ())
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(database.where)) as connection:
        connection.set_progress_handler(count, 10)
        found = run_transaction(connection, find_call_seconds(ALL))
    return steps, len(found)


def test_the_times_of_a_conversations_calls_cost_in_proportion_to_them_up_to_a_limit(tmp_path: Path) -> None:
    costs: list[int] = []
    for number, calls in enumerate((500, 2_000, 2 * MAX_TIMED_ROWS, 4 * MAX_TIMED_ROWS)):
        steps, found = _steps_to_time(tmp_path / str(number), calls)
        # Each call has three rows, and the newest count.
        assert found == min(calls, (MAX_TIMED_ROWS + 1) // 3)
        costs.append(steps)
    assert costs[1] < 6 * costs[0]
    assert costs[3] < 1.1 * costs[2]


def _steps_to_count_picks(path: Path, picks: int) -> int:
    """How many steps SQLite takes to count the calls of one conversation by tool."""
    path.mkdir()
    database = sqlite_database(path)
    database.run(lambda ledger: ledger.open("c", ANN, "one", LEASE, now=0))
    numbers = f"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {picks}) "
    database.execute(
        "INSERT INTO ferrule_call (conversation, id, tool, tool_fingerprint, arguments, arguments_sha256, binding, "
        "side_effects, needs_leave, state, epoch, outcome) "
        f"{numbers} SELECT 'c', 'k' || i, 'look', '', '', '', '', 0, 0, 'done', 1, '' FROM n",
        (),
    )
    database.execute("INSERT INTO ferrule_definition (fingerprint, tool, description) VALUES ('f', 'look', '\"\"')", ())
    database.execute("INSERT INTO ferrule_offer (id, fingerprint) VALUES ('', 'f')", ())
    database.execute(
        "INSERT INTO ferrule_selection (conversation, place, tenant, principal, at, model, offer, demanded, "
        "is_required, is_unanswered) VALUES ('c', 0, 'acme', 'ann', 1, '\"\"', '', '', 0, 0)",
        (),
    )
    database.execute(
        "INSERT INTO ferrule_pick (conversation, selection, number, call_id, fingerprint, wrote, fate, is_retried, "
        f"is_repeated) {numbers} SELECT 'c', 0, i, 'k' || i, 'f', '\"\"', 'handed_on', 0, 0 FROM n",
        (),
    )
    steps = 0

    def count() -> int:
        nonlocal steps
        steps += 1
        return 0

    with closing(sqlite3.connect(database.where)) as connection:
        connection.set_progress_handler(count, 10)
        report = run_transaction(connection, find_usage(ALL))
    assert sum(row.counts.picked for row in report.rows) == picks
    return steps


def test_the_calls_of_one_conversation_are_counted_in_proportion_to_them(tmp_path: Path) -> None:
    few, more = (_steps_to_count_picks(tmp_path / str(picks), picks) for picks in (300, 1_200))
    assert more < 6 * few


def test_a_required_call_that_is_not_made_is_a_miss_of_the_required_tool(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await run_conversation(ledger, Reply.of("No."), tool_choice=ToolChoice.one("look"))
        await run_conversation(ledger, Reply.of("No."), tool_choice=ToolChoice.required())
        assert await counts(ledger) == {
            ("fake", "look"): UsageCounts(offered=2, demanded=1, missed=1),
            ("fake", "pay"): UsageCounts(offered=1),
            ("fake", ""): UsageCounts(missed=1),
        }

    database.run(scenario)


def test_every_version_of_a_description_is_counted_separately_with_its_text(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        better = replace(LOOK, description="Looks at a place,\x00 by name.")
        await run_conversation(ledger, Reply.of(call("look")), Reply.of("Done."), tools=(LOOK,))
        await run_conversation(ledger, Reply.of("Done."), tools=(better,))
        by_description = {line.description: line for line in await rows(ledger)}
        assert {words: line.counts for words, line in by_description.items()} == {
            "Looks.": UsageCounts(offered=2, picked=1),
            "Looks at a place,\x00 by name.": UsageCounts(offered=1),
        }
        assert {line.fingerprint for line in by_description.values()} == {LOOK.fingerprint, better.fingerprint}
        assert [line.counts.picked for line in await rows(ledger)] == [1, 0]

    database.run(scenario)


def test_a_tenant_and_a_principal_see_their_own_and_since_leaves_out_earlier_replies(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        for who, at in ((ANN, 10), (Principal("bob", "acme"), 20), (EVE, 30)):
            record = await ledger.open(who.name, who, "one", LEASE, now=0)
            chosen = ReplyRecord(who.name, "0.1", who.name, ToolUsage((LOOK,)))
            await ledger.record_reply(chosen, record.epoch, now=at)

        async def models(**search: Any) -> set[str]:
            return {line.model for line in await rows(ledger, **search)}

        assert await models() == {"ann", "bob", "eve"}
        assert await models(tenant="acme") == {"ann", "bob"}
        assert await models(tenant="acme", principal="bob") == {"bob"}
        assert await models(tenant="evil", principal="bob") == set()
        assert await models(tenant="") == await models(principal="") == set(), "no name is nobody's, not everybody's"
        assert await models(since=20) == {"bob", "eve"}
        (line,) = await rows(ledger, tenant="evil")
        assert (line.first_at, line.last_at) == (30.0, 30.0)

    database.run(scenario)


def test_a_model_that_is_asked_again_after_a_crash_is_counted_once_and_as_it_answered_then(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for picks in (
            (
                CallAttempt("look", AttemptStatus.REFUSED, "look"),
                CallAttempt("look", AttemptStatus.ACCEPTED, "look", 0),
            ),
            (),
        ):
            await ledger.record_reply(ReplyRecord("c", "1.1", "m", ToolUsage((LOOK,), picks)), 1, now=1)
        assert await counts(ledger) == {("m", "look"): UsageCounts(offered=1)}
        record = await ledger.take_over("c", "two", LEASE, now=100)
        with pytest.raises(FencedError):
            await ledger.record_reply(ReplyRecord("c", "1.2", "m", ToolUsage((LOOK,))), 1, now=101)
        await ledger.record_reply(ReplyRecord("c", "1.2", "m", ToolUsage((LOOK,))), record.epoch, now=101)
        assert await counts(ledger) == {("m", "look"): UsageCounts(offered=2)}
        assert await ledger.verify() is None

    database.run(scenario)


def test_of_a_lost_call_without_side_effects_the_last_attempt_counts(database: Database) -> None:
    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        picked = ToolUsage((LOOK,), (CallAttempt("look", AttemptStatus.ACCEPTED, "look", 0),))
        await ledger.record_reply(ReplyRecord("c", "1.1", "m", picked), 1, now=0)
        lost, again = claim("c", "1.1.0", tool="look"), claim("c", "1.1.0~", tool="look")
        await _start_call(ledger, lost, 1, now=1)
        record = await ledger.take_over("c", "two", LEASE, now=100)
        assert await counts(ledger) == {("m", "look"): UsageCounts(offered=1, picked=1, failed=1)}
        await _start_call(ledger, again, record.epoch, now=101)
        await ledger.finish("c", again.call_id, record.epoch, Answered("seen"), now=102)
        assert await counts(ledger) == {("m", "look"): UsageCounts(offered=1, picked=1)}

    database.run(scenario)


async def _start_call(ledger: SqlLedger, what: Claim, epoch: int, now: float) -> None:
    await ledger.propose(what, epoch, side_effects=False, needs_approval=False, now=now)
    assert await ledger.start(what, epoch, now=now)


def test_a_ledger_of_the_second_version_is_upgraded_with_everything_in_it(database: Database) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, {"messages": []}, now=1)

    database.run(first)
    for table in ("ferrule_pick", "ferrule_selection", "ferrule_offer", "ferrule_definition"):
        database.execute(f"DROP TABLE {table}", ())
    database.execute("UPDATE ferrule_ledger SET version = 2", ())

    async def then(ledger: SqlLedger) -> None:
        record = await ledger.load("c", ANN)
        assert record is not None
        assert record.state == {"messages": []}
        await ledger.record_reply(ReplyRecord("c", "0.1", "m", ToolUsage((LOOK,))), 1, now=1)
        assert await counts(ledger) == {("m", "look"): UsageCounts(offered=1)}
        assert await ledger.verify() is None

    database.run(then)
    assert database.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]


picks = st.builds(
    CallAttempt,
    st.sampled_from(["look", "pay"]),
    st.sampled_from([*AttemptStatus]),
    st.just("x"),
    st.none(),
    st.booleans(),
    st.booleans(),
)
selections = st.builds(
    ToolUsage,
    st.sampled_from([(LOOK,), (PAY,), (LOOK, PAY), (PAY, LOOK)]),
    st.lists(picks, max_size=3).map(tuple),
    st.booleans(),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(selections, max_size=6))
def test_the_sums_are_those_of_counting_by_hand(
    tmp_path_factory: pytest.TempPathFactory, usages: list[ToolUsage]
) -> None:
    folder: Path = tmp_path_factory.mktemp("ledger")

    async def scenario(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for number, one in enumerate(usages):
            await ledger.record_reply(ReplyRecord("c", f"0.{number}", "m", one), 1, now=number)
        for line in await rows(ledger):
            of_it = [pick for one in usages for pick in one.attempts if _tool(one, pick) == line.tool]
            counted = line.counts
            assert counted.offered == sum(line.tool in {tool.name for tool in one.offered} for one in usages)
            assert counted.picked == sum(pick.status in PICKED for pick in of_it)
            assert counted.wrong == sum(pick.status in WRONG for pick in of_it)
            assert counted.cut_off == sum(pick.status is AttemptStatus.CUT_OFF for pick in of_it)
            assert counted.retried == sum(pick.is_retried for pick in of_it)
            assert counted.repeated == sum(pick.is_repeated for pick in of_it)
            unanswered = sum(one.is_unanswered and one.required_tool == line.tool for one in usages)
            assert counted.missed == unanswered + sum(pick.status is AttemptStatus.NOT_OFFERED for pick in of_it)

    sqlite_database(folder).run(scenario)


def _tool(one: ToolUsage, pick: CallAttempt) -> str:
    return pick.tool if pick.tool in {tool.name for tool in one.offered} else ""
