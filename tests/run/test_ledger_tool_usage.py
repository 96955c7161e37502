"""Tool statistics, read back from a ledger in each database."""

from __future__ import annotations

from collections.abc import Mapping
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
from ferrule.run.ledger.tables import VERSION
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
