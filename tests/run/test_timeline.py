"""The timeline of a conversation: what happened when, how long it took, what it cost, and how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule import ChatMessage, FinishReason, Reply, ToolCall, ToolConversation, ToolError, Usage, tool
from ferrule.core.message import messages_from_json
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import AuditRecord, Ledger
from ferrule.run.reply_record import ReplyCost, ReplyRecord
from ferrule.run.timeline import timeline_of
from ferrule.run.timeline_entry import TimelineEntry, title_of
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
    """A clock that advances by one second with every call."""

    now: float = 1000.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


def run(scenario: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(scenario)


async def saved_messages(ledger: Ledger, id: str = "c") -> tuple[ChatMessage, ...]:
    record = await ledger.load(id)
    state = (record.state if record else None) or {}
    added = (state.get("loop") or {}).get("added", [])
    return messages_from_json([*state.get("messages", []), *added])


async def read(
    ledger: Ledger, id: str = "c", *, rows: Sequence[AuditRecord] | None = None
) -> tuple[TimelineEntry, ...]:
    audit = await ledger.audit(id) if rows is None else rows
    calls, approvals = await ledger.calls(id), await ledger.approvals_in(id)
    return timeline_of(audit, await saved_messages(ledger, id), calls, approvals, now=5000.0)


async def run_conversation(
    ledger: Ledger, replies: Iterable[Reply], *texts: str, clock: Ticking | None = None, **options: Any
) -> None:
    conversation = await ToolConversation.open(
        ledger, "c", FakeEngine([*replies]), [look, pay], clock=clock or Ticking(), **options
    )
    for text in texts:
        await conversation.send_message(text)
    await conversation.close()


def kinds(entries: Iterable[TimelineEntry]) -> list[str]:
    return [one.kind.value for one in entries]


def test_a_turn_has_entries_with_times_tokens_and_sizes() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, [looks("Bern"), says("It is quiet.")], "How is Bern?")
            user, first, ran, last = entries = await read(ledger)
            assert kinds(entries) == ["user", "model", "tool", "model"]
            assert (user.title, user.bytes) == ("How is Bern?", 12)
            assert (first.title, first.tokens) == ("calls look", Usage(10, 4))
            assert first.bytes == len('look{"place": "Bern"}')
            assert (ran.tool, ran.call_id, ran.title) == ("look", "1.1.0", 'look {"place":"Bern"}')
            assert (ran.bytes, ran.is_error) == (len("Bern is quiet"), False)
            assert ran.seconds == 1.0
            assert (last.title, last.tokens) == ("It is quiet.", Usage(20, 2))
            assert all(one.seconds is not None for one in (first, ran, last))
            assert [one.at for one in entries] == sorted(one.at for one in entries)
            assert await ledger.verify() is None

    run(scenario())


def test_a_tool_that_runs_again_after_an_error_is_a_retry_and_its_sisters_are_not() -> None:
    async def scenario() -> None:
        replies = [looks("nowhere", "nowhere"), looks("Bern"), looks("Thun"), says("well")]
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, replies, "look")
            tools = [one for one in await read(ledger) if one.tool]
            assert [(one.kind.value, one.is_error) for one in tools] == [
                *[("tool", True)] * 2,
                ("retry", False),
                ("tool", False),
            ]

    run(scenario())


@pytest.mark.parametrize(
    "decision, title, is_error",
    [
        (Decision(True), "pay approved by local", False),
        (Decision(False, "too much"), "pay denied by local: too much", True),
    ],
)
def test_an_approval_entry_says_who_decided_and_how_long_it_took(
    decision: Decision, title: str, is_error: bool
) -> None:
    async def decide(call: ToolCall) -> Decision:
        return decision

    async def scenario() -> None:
        replies = [Reply.of(ToolCall.of("pay", {"amount": 3})), says("well")]
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, replies, "pay", decide=decide)
            entries = await read(ledger)
            (entry,) = [one for one in entries if one.approval]
            assert (entry.kind.value, entry.title, entry.is_error) == ("approval", title, is_error)
            assert entry.seconds is not None
            assert (entry.call_id, entry.tool, entry.bytes) == ("1.1.0", "pay", len(b'{"amount":3}'))
            assert kinds(entries) == ["user", "model", "approval", *([] if is_error else ["tool"]), "model"]

    run(scenario())


def test_an_undecided_approval_waits_and_then_expires() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, [Reply.of(ToolCall.of("pay", {"amount": 3}))], "pay")
            record = await ledger.load("c")
            assert record is not None
            approvals = await ledger.approvals_in("c")
            rows, calls = await ledger.audit("c"), await ledger.calls("c")
            expired = approvals[0].expires_at + 1
            for now, title in ((2000.0, "pay waiting for approval"), (expired, "pay approval expired")):
                (entry,) = [one for one in timeline_of(rows, (), calls, approvals, now=now) if one.approval]
                assert (entry.title, entry.seconds) == (title, None)

    run(scenario())


def test_a_call_whose_owner_died_is_unknown_and_so_is_how_long_it_ran() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            lost, again = claim("c", "1.1.0", tool="look"), claim("c", "1.1.0~", tool="look")
            await ledger.propose(lost, 1, side_effects=False, needs_approval=False, now=1)
            await ledger.start(lost, 1, now=2)
            record = await ledger.take_over("c", "two", LEASE, now=100)
            await ledger.propose(again, record.epoch, side_effects=False, needs_approval=False, now=101)
            await ledger.start(again, record.epoch, now=102)
            await ledger.finish("c", again.call_id, record.epoch, Answered("seen"), now=104)
            entries = await read(ledger)
            assert [(one.kind.value, one.at, one.seconds) for one in entries] == [
                ("unknown", 2.0, None),
                ("taken_over", 100.0, None),
                ("retry", 102.0, 2.0),
            ]

    run(scenario())


def test_a_clean_handover_has_no_entry() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            clock = Ticking()
            for text in ("one", "two"):
                await run_conversation(ledger, [says(text)], text, clock=clock)
            entries = await read(ledger)
            assert [(one.kind.value, one.title) for one in entries] == [
                *[("user", "one"), ("model", "one")],
                *[("user", "two"), ("model", "two")],
            ]

    run(scenario())


def test_an_entry_of_a_message_has_its_index() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            replies = [looks("Bern", "nowhere"), Reply.of(ToolCall.of("fly", {})), says("one"), says("two")]
            conversation = await ToolConversation.open(ledger, "c", FakeEngine(replies), [look], clock=Ticking())
            before = [ChatMessage.user("a"), ChatMessage.assistant("b"), ChatMessage.system("Be short.")]
            async for _ in conversation.answer([*before, ChatMessage.user("look")]):
                pass
            await conversation.send_message("again")
            entries = await read(ledger)
            contents = [(one.kind.value, one.message and conversation.messages[one.message].content) for one in entries]
            assert [one for one in contents if one[0] in ("user", "system")] == [
                *[("system", "Be short."), ("user", "look"), ("user", "again")]
            ]
            model_messages = [one.message for one in entries if one.kind == "model"]
            assert model_messages == [at for at, one in enumerate(conversation.messages) if one.role == "assistant"][1:]
            others = [one.message for one in entries if one.tool or one.kind == "history"]
            assert others == [None] * 4

    run(scenario())


def test_limit_notices_and_unfinished_turns_are_messages_too() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, [Reply.of(ToolCall.of("pay", {"amount": 3}))], "pay")
            assert [(one.kind.value, one.message) for one in await read(ledger)] == [
                *[("user", 0), ("model", 1), ("approval", None)]
            ]
        async with await open_ledger(":memory:") as ledger:
            tools = ToolExecutor(Functions([look]), max_iterations=1)
            replies = [looks("Bern"), says("I must stop.")]
            conversation = await ToolConversation.open(ledger, "c", FakeEngine(replies), tools, clock=Ticking())
            await conversation.send_message("look")
            entries = await read(ledger)
            (limit,) = [one for one in entries if one.kind == "limit"]
            assert limit.message is not None
            assert title_of(conversation.messages[limit.message].content) == limit.title

    run(scenario())


def test_a_call_that_never_came_to_a_tool_is_refused() -> None:
    async def scenario() -> None:
        replies = [Reply.of(ToolCall.of("fly", {"to": "Bern"})), says("well")]
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, replies, "fly")
            entries = await read(ledger)
            assert kinds(entries) == ["user", "model", "refused", "model"]
            assert (entries[2].tool, entries[2].is_error) == ("fly", True)

    run(scenario())


def test_earlier_messages_of_the_client_are_one_entry() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            conversation = await ToolConversation.open(ledger, "c", FakeEngine([says("well")]), [look], clock=Ticking())
            before = [ChatMessage.system("Be short."), ChatMessage.user("a"), ChatMessage.assistant("b")]
            async for _ in conversation.answer([*before, ChatMessage.user("c")]):
                pass
            entries = await read(ledger)
            assert [(one.kind.value, one.title) for one in entries] == [
                ("history", "3 earlier messages"),
                ("user", "c"),
                ("model", "well"),
            ]

    run(scenario())


def test_a_reply_that_was_lost_in_a_crash_has_an_entry_with_its_tokens() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await ledger.open("c", ANN, "one", LEASE, now=0)
            for at in (10, 20):
                await ledger.record_reply(
                    ReplyRecord("c", "1.1", "m", None, ReplyCost(2.0, Usage(at, 1), 5)), 1, now=at
                )
            entries = await read(ledger)
            assert [(one.at, one.seconds, one.is_error, one.tokens) for one in entries] == [
                (8.0, 2.0, True, Usage(10, 1)),
                (18.0, 2.0, False, Usage(20, 1)),
            ]
            assert entries[-1].title == "m"
            assert [one.message for one in entries] == [None, None]

    run(scenario())


def test_nothing_in_a_title_is_hidden_and_none_is_long() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, [says("a\u202eb\x1b[2J\ud800" + "x" * 5000)], "hello\n\u200bworld")
            user, model = await read(ledger)
            assert user.title == "hello \\u200bworld"
            assert model.title.startswith("a\\u202eb\\x1b[2J")
            assert model.title.isascii()
            assert len(model.title) < 130

    run(scenario())


turns = st.lists(
    st.lists(st.lists(st.sampled_from(["Bern", "nowhere"]), min_size=1, max_size=2), max_size=2), max_size=3
)


@settings(max_examples=25)
@given(turns)
def test_every_reply_and_every_call_has_one_entry_in_order_and_in_older_records_too(
    turn_rounds: list[list[list[str]]],
) -> None:
    async def scenario() -> None:
        replies = [reply for rounds in turn_rounds for reply in (*(looks(*one) for one in rounds), says("well"))]
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, replies, *(f"turn {n}" for n in range(len(turn_rounds))))
            entries = await read(ledger)
            rows, messages = await ledger.audit("c"), await saved_messages(ledger)
            older = await read(ledger, rows=[row for row in rows if row.kind != "replied"])
        calls = [place for rounds in turn_rounds for one in rounds for place in one]
        assert sum(one.kind == "model" for one in entries) == len(replies)
        assert sum(one.kind == "user" for one in entries) == len(turn_rounds)
        assert [one.is_error for one in entries if one.tool] == [place == "nowhere" for place in calls]
        assert all(one.tokens for one in entries if one.kind == "model")
        assert [one.at for one in entries] == sorted(one.at for one in entries)
        message_numbers = [one.message for one in entries if one.message is not None]
        assert message_numbers == [at for at, one in enumerate(messages) if one.role in ("user", "assistant")]
        assert not any(one.tokens for one in older)
        assert [one.tool for one in older if one.tool] == ["look"] * len(calls)
        if turn_rounds and all(turn_rounds):
            # Without a call, an older record does not say where a turn began.
            assert sum(one.kind == "model" for one in older) == len(replies)

    run(scenario())


def test_a_damaged_row_is_ignored() -> None:
    async def scenario() -> None:
        async with await open_ledger(":memory:") as ledger:
            await run_conversation(ledger, [says("well")], "hello")
            rows = await ledger.audit("c")
            for detail in ("", "[]", "{}", '{"place": 1}', "null", '{"place":"1.1","seconds":"x"}', REPLY_OF_NO_TIME):
                spoiled = [replace(row, detail=detail) if row.kind == "replied" else row for row in rows]
                assert kinds(await read(ledger, rows=spoiled)) == ["user", "model"]
            wrong: list[Any] = ["x", None, float("nan"), b"y"]
            for value in wrong:
                assert await read(ledger, rows=[replace(row, at=value) for row in rows])
                assert await read(ledger, rows=[replace(row, kind=value, call_id=value) for row in rows])

    run(scenario())
