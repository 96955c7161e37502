"""Which tools models pick, read back from a ledger, whichever database it is in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.choice import ToolChoice
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError
from ferrule.run.conversation import ToolConversation
from ferrule.run.journal import Decision
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import VERSION
from ferrule.run.reply_record import Replied
from ferrule.run.tool_usage import PICKED, WRONG, Fate, Pick, Selection
from ferrule.run.usage_figures import SelectionLine, SelectionSearch, Tally
from ferrule.sources.fake import FakeSource
from run.ledger_databases import ANN, LEASE, Home, claim, fresh_name, sqlite_home

EVE = Principal("eve", "evil")
LOOK = ToolDefinition("look", "Looks.")
PAY = ToolDefinition("pay", "Pays.", side_effects=True)
ALL = SelectionSearch()
REPAIRED = Receipt(how=How.REPAIRED, engine="fake", path="fake")
REFUSED = Receipt(how=How.REFUSED, engine="fake", path="fake")


def answer(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("no", is_error=True) if arguments.get("fails") else Answered("yes")


async def talked(
    ledger: SqlLedger,
    *replies: Reply,
    who: Principal = ANN,
    tools: tuple[ToolDefinition, ...] = (LOOK, PAY),
    **asked: Any,
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
        request=ToolCallRequest(messages=(), **asked),
    )
    await talk.send_message("go")
    await talk.close()


def call(name: str, id: str = "c", **arguments: Any) -> ToolCall:
    return ToolCall.of(name, arguments, id=id)


async def tallies(ledger: SqlLedger, search: SelectionSearch = ALL) -> dict[tuple[str, str], Tally]:
    return {(line.model, line.tool): line.tally for line in (await ledger.selections(search)).lines}


async def lines(ledger: SqlLedger, **search: Any) -> tuple[SelectionLine, ...]:
    return (await ledger.selections(SelectionSearch(**search))).lines


def test_a_conversation_leaves_what_was_offered_picked_denied_failed_retried_and_repeated(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await talked(
            ledger,
            Reply.of(call("look", "a", fails=True), call("pay", "b")),
            Reply.of(call("look", "c", fails=True)),
            Reply.of(call("look", "d")),
            Reply.of("Done."),
            model="smol",
        )
        assert await tallies(ledger) == {
            ("smol", "look"): Tally(offered=4, picked=3, failed=2, retried=2, repeated=1),
            ("smol", "pay"): Tally(offered=4, picked=1, denied=1),
        }

    home.run(story)


def test_calls_that_did_not_fit_and_names_that_were_made_up_are_counted_for_their_tool(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        repaired = replace(call("look", "a"), receipt=REPAIRED)
        refused = replace(call("look", "b"), complete=False, receipt=REFUSED)
        await talked(
            ledger, Reply.of(repaired, refused), Reply.of(call("loock"), call("zz\x00", "d")), Reply.of("Done.")
        )
        found = await ledger.selections(ALL)
        assert {line.tool: line.tally for line in found.lines} == {
            "look": Tally(offered=3, picked=1, repaired=1, refused=1, missed=1),
            "pay": Tally(offered=3),
            "": Tally(missed=1),
        }
        assert [(one.wrote, one.tool, one.model, one.count) for one in found.misnamed] == [
            ("loock", "look", "fake", 1),
            ("zz\x00", "", "fake", 1),
        ]
        assert [line.tool for line in await lines(ledger, tool="look")] == ["look"]

    home.run(story)


def test_a_demand_without_a_call_is_a_miss_of_the_tool_that_was_demanded(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await talked(ledger, Reply.of("No."), tool_choice=ToolChoice.one("look"))
        await talked(ledger, Reply.of("No."), tool_choice=ToolChoice.required())
        assert await tallies(ledger) == {
            ("fake", "look"): Tally(offered=2, demanded=1, missed=1),
            ("fake", "pay"): Tally(offered=1),
            ("fake", ""): Tally(missed=1),
        }

    home.run(story)


def test_every_wording_of_a_description_is_counted_for_itself_with_the_words_that_it_had(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        better = replace(LOOK, description="Looks at a place,\x00 by name.")
        await talked(ledger, Reply.of(call("look")), Reply.of("Done."), tools=(LOOK,))
        await talked(ledger, Reply.of("Done."), tools=(better,))
        found = {line.description: line for line in await lines(ledger)}
        assert {words: line.tally for words, line in found.items()} == {
            "Looks.": Tally(offered=2, picked=1),
            "Looks at a place,\x00 by name.": Tally(offered=1),
        }
        assert {line.fingerprint for line in found.values()} == {LOOK.fingerprint, better.fingerprint}
        assert [line.tally.picked for line in await lines(ledger)] == [1, 0]

    home.run(story)


def test_a_tenant_and_a_principal_see_their_own_and_a_moment_leaves_out_what_was_before(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        for who, at in ((ANN, 10), (Principal("bob", "acme"), 20), (EVE, 30)):
            held = await ledger.open(who.name, who, "one", LEASE, now=0)
            chosen = Replied(who.name, "0.1", who.name, Selection((LOOK,)))
            await ledger.note_reply(chosen, held.epoch, now=at)

        async def models(**search: Any) -> set[str]:
            return {line.model for line in await lines(ledger, **search)}

        assert await models() == {"ann", "bob", "eve"}
        assert await models(tenant="acme") == {"ann", "bob"}
        assert await models(tenant="acme", principal="bob") == {"bob"}
        assert await models(tenant="evil", principal="bob") == set()
        assert await models(tenant="") == await models(principal="") == set(), "no name is nobody's, not everybody's"
        assert await models(since=20) == {"bob", "eve"}
        (line,) = await lines(ledger, tenant="evil")
        assert (line.first_at, line.last_at) == (30.0, 30.0)

    home.run(story)


def test_a_model_that_is_asked_again_after_a_crash_is_counted_once_and_as_it_answered_then(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for picks in ((Pick("look", Fate.REFUSED, "look"), Pick("look", Fate.HANDED_ON, "look", 0)), ()):
            await ledger.note_reply(Replied("c", "1.1", "m", Selection((LOOK,), picks)), 1, now=1)
        assert await tallies(ledger) == {("m", "look"): Tally(offered=1)}
        held = await ledger.take_over("c", "two", LEASE, now=100)
        with pytest.raises(FencedError):
            await ledger.note_reply(Replied("c", "1.2", "m", Selection((LOOK,))), 1, now=101)
        await ledger.note_reply(Replied("c", "1.2", "m", Selection((LOOK,))), held.epoch, now=101)
        assert await tallies(ledger) == {("m", "look"): Tally(offered=2)}
        assert await ledger.verify() is None

    home.run(story)


def test_of_a_reading_that_was_lost_the_last_attempt_counts(home: Home) -> None:
    async def story(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        picked = Selection((LOOK,), (Pick("look", Fate.HANDED_ON, "look", 0),))
        await ledger.note_reply(Replied("c", "1.1", "m", picked), 1, now=0)
        lost, again = claim("c", "1.1.0", tool="look"), claim("c", "1.1.0~", tool="look")
        await _begun(ledger, lost, 1, now=1)
        held = await ledger.take_over("c", "two", LEASE, now=100)
        assert await tallies(ledger) == {("m", "look"): Tally(offered=1, picked=1, failed=1)}
        await _begun(ledger, again, held.epoch, now=101)
        await ledger.finish("c", again.call_id, held.epoch, Answered("seen"), now=102)
        assert await tallies(ledger) == {("m", "look"): Tally(offered=1, picked=1)}

    home.run(story)


async def _begun(ledger: SqlLedger, what: Claim, epoch: int, now: float) -> None:
    await ledger.propose(what, epoch, side_effects=False, needs_leave=False, now=now)
    assert await ledger.start(what, epoch, now=now)


def test_a_ledger_of_the_second_version_is_taken_up_with_everything_in_it(home: Home) -> None:
    async def first(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        await ledger.save("c", 1, {"messages": []}, now=1)

    home.run(first)
    for table in ("ferrule_pick", "ferrule_selection", "ferrule_offer", "ferrule_definition"):
        home.execute(f"DROP TABLE {table}", ())
    home.execute("UPDATE ferrule_ledger SET version = 2", ())

    async def then(ledger: SqlLedger) -> None:
        held = await ledger.load("c", ANN)
        assert held is not None
        assert held.state == {"messages": []}
        await ledger.note_reply(Replied("c", "0.1", "m", Selection((LOOK,))), 1, now=1)
        assert await tallies(ledger) == {("m", "look"): Tally(offered=1)}
        assert await ledger.verify() is None

    home.run(then)
    assert home.execute("SELECT version FROM ferrule_ledger", ()) == [(VERSION,)]


picks = st.builds(
    Pick,
    st.sampled_from(["look", "pay"]),
    st.sampled_from([*Fate]),
    st.just("x"),
    st.none(),
    st.booleans(),
    st.booleans(),
)
selections = st.builds(
    Selection,
    st.sampled_from([(LOOK,), (PAY,), (LOOK, PAY), (PAY, LOOK)]),
    st.lists(picks, max_size=3).map(tuple),
    st.booleans(),
)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(selections, max_size=6))
def test_the_sums_are_those_of_counting_by_hand(
    tmp_path_factory: pytest.TempPathFactory, told: list[Selection]
) -> None:
    folder: Path = tmp_path_factory.mktemp("ledger")

    async def story(ledger: SqlLedger) -> None:
        await ledger.open("c", ANN, "one", LEASE, now=0)
        for number, one in enumerate(told):
            await ledger.note_reply(Replied("c", f"0.{number}", "m", one), 1, now=number)
        for line in await lines(ledger):
            of_it = [pick for one in told for pick in one.picks if _tool(one, pick) == line.tool]
            tally = line.tally
            assert tally.offered == sum(line.tool in {tool.name for tool in one.offered} for one in told)
            assert tally.picked == sum(pick.fate in PICKED for pick in of_it)
            assert tally.wrong == sum(pick.fate in WRONG for pick in of_it)
            assert tally.cut_off == sum(pick.fate is Fate.CUT_OFF for pick in of_it)
            assert tally.retried == sum(pick.is_retried for pick in of_it)
            assert tally.repeated == sum(pick.is_repeated for pick in of_it)
            unanswered = sum(one.is_unanswered and one.demanded == line.tool for one in told)
            assert tally.missed == unanswered + sum(pick.fate is Fate.NOT_OFFERED for pick in of_it)

    sqlite_home(folder).run(story)


def _tool(one: Selection, pick: Pick) -> str:
    return pick.tool if pick.tool in {tool.name for tool in one.offered} else ""
