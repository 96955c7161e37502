"""A conversation as a timeline: what happened when, how long it took, what it cost, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import ChatMessage, FinishReason, Reply, ToolCall, ToolConversation, ToolError, Usage, tool
from ferrule.core.message_json import messages_from_json
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision
from ferrule.run.ledger.address import ledger_at
from ferrule.run.ledger.ledger import AuditRecord, Ledger
from ferrule.run.reply_record import Replied, Took
from ferrule.run.timeline import timeline_of
from ferrule.run.timeline_entry import Moment, title_of
from ferrule.sources.functions import Functions
from run.ledger_databases import ANN, LEASE, claim

T = TypeVar("T")
REPLY_OF_NO_TIME = '{"place":"1.1","model":"m","seconds":1e999,"bytes":1,"prompt_tokens":1,"completion_tokens":1}'


@tool
def look(place: str) -> str:
    """Looks at a place; there is nothing to see at `nowhere`."""
    if place == "nowhere":
        raise ToolError("nothing there")
    return f"{place} is quiet"


@tool(side_effects=True)
def pay(amount: int) -> dict[str, int]:
    """Pays."""
    return {"paid": amount}


def looks(*places: str) -> Reply:
    return replace(Reply.of(*(ToolCall.of("look", {"place": one}) for one in places)), usage=Usage(10, 4))


def says(text: str) -> Reply:
    return replace(Reply.of(text), usage=Usage(20, 2), finish=FinishReason.STOP)


@dataclass(slots=True)
class Ticking:
    """Every look at it is a second later."""

    now: float = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def run(story: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(story)


async def said(ledger: Ledger, id: str = "c") -> tuple[ChatMessage, ...]:
    record = await ledger.load(id)
    state = (record.state if record else None) or {}
    added = (state.get("loop") or {}).get("added", [])
    return messages_from_json([*state.get("messages", []), *added])


async def read(ledger: Ledger, id: str = "c", *, rows: Sequence[AuditRecord] | None = None) -> tuple[Moment, ...]:
    kept = await ledger.audit(id) if rows is None else rows
    calls, approvals = await ledger.calls(id), await ledger.approvals_in(id)
    return timeline_of(kept, await said(ledger, id), calls, approvals, now=5000.0)


async def talked(
    ledger: Ledger, replies: Iterable[Reply], *texts: str, clock: Ticking | None = None, **options: Any
) -> None:
    conversation = await ToolConversation.open(
        ledger, "c", FakeEngine([*replies]), [look, pay], clock=clock or Ticking(), **options
    )
    for text in texts:
        await conversation.send_message(text)
    await conversation.close()


def kinds(moments: Iterable[Moment]) -> list[str]:
    return [one.kind.value for one in moments]


def test_a_turn_is_told_with_its_times_tokens_and_sizes() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, [looks("Bern"), says("It is quiet.")], "How is Bern?")
            user, first, ran, last = moments = await read(ledger)
            assert kinds(moments) == ["user", "model", "tool", "model"]
            assert (user.title, user.bytes) == ("How is Bern?", 12)
            assert (first.title, first.tokens) == ("calls look", Usage(10, 4))
            assert first.bytes == len('look{"place": "Bern"}')
            assert (ran.tool, ran.call_id, ran.title) == ("look", "1.1.0", 'look {"place":"Bern"}')
            assert (ran.bytes, ran.is_error) == (len("Bern is quiet"), False)
            assert ran.seconds == 1.0
            assert (last.title, last.tokens) == ("It is quiet.", Usage(20, 2))
            assert all(one.seconds is not None for one in (first, ran, last))
            assert [one.at for one in moments] == sorted(one.at for one in moments)
            assert await ledger.verify() is None

    run(story())


def test_a_tool_that_runs_again_after_an_error_is_a_retry_and_its_sisters_are_not() -> None:
    async def story() -> None:
        replies = [looks("nowhere", "nowhere"), looks("Bern"), looks("Thun"), says("well")]
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, replies, "look")
            tools = [one for one in await read(ledger) if one.tool]
            assert [(one.kind.value, one.is_error) for one in tools] == [
                *[("tool", True)] * 2,
                ("retry", False),
                ("tool", False),
            ]

    run(story())


@pytest.mark.parametrize(
    "decision, words, is_error",
    [
        (Decision(True), "pay approved by local", False),
        (Decision(False, "too much"), "pay denied by local: too much", True),
    ],
)
def test_leave_is_told_with_who_gave_it_and_how_long_it_took(decision: Decision, words: str, is_error: bool) -> None:
    async def decide(call: ToolCall) -> Decision:
        return decision

    async def story() -> None:
        replies = [Reply.of(ToolCall.of("pay", {"amount": 3})), says("well")]
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, replies, "pay", decide=decide)
            moments = await read(ledger)
            (leave,) = [one for one in moments if one.approval]
            assert (leave.kind.value, leave.title, leave.is_error) == ("approval", words, is_error)
            assert leave.seconds is not None
            assert (leave.call_id, leave.tool, leave.bytes) == ("1.1.0", "pay", len(b'{"amount":3}'))
            assert kinds(moments) == ["user", "model", "approval", *([] if is_error else ["tool"]), "model"]

    run(story())


def test_leave_that_nobody_gives_waits_and_then_has_run_out() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, [Reply.of(ToolCall.of("pay", {"amount": 3}))], "pay")
            record = await ledger.load("c")
            assert record is not None
            asked = await ledger.approvals_in("c")
            rows, calls = await ledger.audit("c"), await ledger.calls("c")
            for now, words in ((2000.0, "pay waits for leave"), (asked[0].expires_at + 1, "pay leave ran out")):
                (leave,) = [one for one in timeline_of(rows, (), calls, asked, now=now) if one.approval]
                assert (leave.title, leave.seconds) == (words, None)

    run(story())


def test_a_call_whose_owner_died_is_unknown_and_so_is_how_long_it_ran() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            lost, again = claim("c", "1.1.0", tool="look"), claim("c", "1.1.0~", tool="look")
            await ledger.propose(lost, 1, side_effects=False, needs_leave=False, now=1)
            await ledger.start(lost, 1, now=2)
            held = await ledger.take_over("c", "two", LEASE, now=100)
            await ledger.propose(again, held.epoch, side_effects=False, needs_leave=False, now=101)
            await ledger.start(again, held.epoch, now=102)
            await ledger.finish("c", again.call_id, held.epoch, Answered("seen"), now=104)
            moments = await read(ledger)
            assert [(one.kind.value, one.at, one.seconds) for one in moments] == [
                ("unknown", 2.0, None),
                ("taken_over", 100.0, None),
                ("retry", 102.0, 2.0),
            ]

    run(story())


def test_a_process_that_hands_over_in_order_is_no_news() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            clock = Ticking()
            for text in ("one", "two"):
                await talked(ledger, [says(text)], text, clock=clock)
            moments = await read(ledger)
            assert [(one.kind.value, one.title) for one in moments] == [
                *[("user", "one"), ("model", "one")],
                *[("user", "two"), ("model", "two")],
            ]

    run(story())


def test_a_moment_that_is_a_message_says_which_one() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            replies = [looks("Bern", "nowhere"), Reply.of(ToolCall.of("fly", {})), says("one"), says("two")]
            made = await ToolConversation.open(ledger, "c", FakeEngine(replies), [look], clock=Ticking())
            before = [ChatMessage.user("a"), ChatMessage.assistant("b"), ChatMessage.system("Be short.")]
            async for _ in made.answer([*before, ChatMessage.user("look")]):
                pass
            await made.send_message("again")
            moments = await read(ledger)
            told = [(one.kind.value, one.message and made.messages[one.message].content) for one in moments]
            assert [one for one in told if one[0] in ("user", "system")] == [
                *[("system", "Be short."), ("user", "look"), ("user", "again")]
            ]
            written = [one.message for one in moments if one.kind == "model"]
            assert written == [at for at, one in enumerate(made.messages) if one.role == "assistant"][1:]
            others = [one.message for one in moments if one.tool or one.kind == "history"]
            assert others == [None] * 4

    run(story())


def test_a_limits_words_and_a_turn_that_is_not_over_are_among_the_messages_too() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, [Reply.of(ToolCall.of("pay", {"amount": 3}))], "pay")
            assert [(one.kind.value, one.message) for one in await read(ledger)] == [
                *[("user", 0), ("model", 1), ("approval", None)]
            ]
        async with await ledger_at(":memory:") as ledger:
            tools = ToolExecutor(Functions([look]), max_iterations=1)
            replies = [looks("Bern"), says("I must stop.")]
            made = await ToolConversation.open(ledger, "c", FakeEngine(replies), tools, clock=Ticking())
            await made.send_message("look")
            moments = await read(ledger)
            (limit,) = [one for one in moments if one.kind == "limit"]
            assert limit.message is not None
            assert title_of(made.messages[limit.message].content) == limit.title

    run(story())


def test_a_call_that_never_came_to_a_tool_is_refused() -> None:
    async def story() -> None:
        replies = [Reply.of(ToolCall.of("fly", {"to": "Bern"})), says("well")]
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, replies, "fly")
            moments = await read(ledger)
            assert kinds(moments) == ["user", "model", "refused", "model"]
            assert (moments[2].tool, moments[2].is_error) == ("fly", True)

    run(story())


def test_what_the_caller_brought_along_is_one_line() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            made = await ToolConversation.open(ledger, "c", FakeEngine([says("well")]), [look], clock=Ticking())
            before = [ChatMessage.system("Be short."), ChatMessage.user("a"), ChatMessage.assistant("b")]
            async for _ in made.answer([*before, ChatMessage.user("c")]):
                pass
            moments = await read(ledger)
            assert [(one.kind.value, one.title) for one in moments] == [
                ("history", "3 earlier messages"),
                ("user", "c"),
                ("model", "well"),
            ]

    run(story())


def test_an_answer_that_was_lost_in_a_crash_has_its_tokens_told() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            for at in (10, 20):
                await ledger.note_reply(Replied("c", "1.1", "m", None, Took(2.0, Usage(at, 1), 5)), 1, now=at)
            moments = await read(ledger)
            assert [(one.at, one.seconds, one.is_error, one.tokens) for one in moments] == [
                (8.0, 2.0, True, Usage(10, 1)),
                (18.0, 2.0, False, Usage(20, 1)),
            ]
            assert moments[-1].title == "m"
            assert [one.message for one in moments] == [None, None]

    run(story())


def test_nothing_in_a_title_is_hidden_and_none_is_long() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, [says("a\u202eb\x1b[2J\ud800" + "x" * 5000)], "hello\n\u200bworld")
            user, model = await read(ledger)
            assert user.title == "hello \\u200bworld"
            assert model.title.startswith("a\\u202eb\\x1b[2J")
            assert model.title.isascii()
            assert len(model.title) < 130

    run(story())


turns = st.lists(
    st.lists(st.lists(st.sampled_from(["Bern", "nowhere"]), min_size=1, max_size=2), max_size=2), max_size=3
)


@settings(max_examples=25)
@given(turns)
def test_every_reply_and_every_call_is_told_once_in_order_and_in_older_records_too(
    asked: list[list[list[str]]],
) -> None:
    async def story() -> None:
        replies = [reply for rounds in asked for reply in (*(looks(*one) for one in rounds), says("well"))]
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, replies, *(f"turn {n}" for n in range(len(asked))))
            moments = await read(ledger)
            rows, messages = await ledger.audit("c"), await said(ledger)
            older = await read(ledger, rows=[row for row in rows if row.kind != "replied"])
        calls = [place for rounds in asked for one in rounds for place in one]
        assert sum(one.kind == "model" for one in moments) == len(replies)
        assert sum(one.kind == "user" for one in moments) == len(asked)
        assert [one.is_error for one in moments if one.tool] == [place == "nowhere" for place in calls]
        assert all(one.tokens for one in moments if one.kind == "model")
        assert [one.at for one in moments] == sorted(one.at for one in moments)
        told = [one.message for one in moments if one.message is not None]
        assert told == [at for at, one in enumerate(messages) if one.role in ("user", "assistant")]
        assert not any(one.tokens for one in older)
        assert [one.tool for one in older if one.tool] == ["look"] * len(calls)
        if asked and all(asked):
            # Without a call nothing told where a turn began.
            assert sum(one.kind == "model" for one in older) == len(replies)

    run(story())


def test_a_row_that_somebody_spoiled_is_passed_over() -> None:
    async def story() -> None:
        async with await ledger_at(":memory:") as ledger:
            await talked(ledger, [says("well")], "hello")
            rows = await ledger.audit("c")
            for detail in ("", "[]", "{}", '{"place": 1}', "null", '{"place":"1.1","seconds":"x"}', REPLY_OF_NO_TIME):
                spoiled = [replace(row, detail=detail) if row.kind == "replied" else row for row in rows]
                assert kinds(await read(ledger, rows=spoiled)) == ["user", "model"]
            wrong: list[Any] = ["x", None, float("nan"), b"y"]
            for value in wrong:
                assert await read(ledger, rows=[replace(row, at=value) for row in rows])
                assert await read(ledger, rows=[replace(row, kind=value, call_id=value) for row in rows])

    run(story())
