"""A conversation that lives in a ledger: it waits for leave, is gone on with elsewhere, and repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule import DefinitionError, Event, Reply, ToolCall, ToolCallRequest, ToolDefinition, tool
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError
from ferrule.run.conversation import ConversationTurn, ToolConversation
from ferrule.run.ledger.ledger import ApprovalState, CallState, Ledger
from ferrule.run.machine import State
from ferrule.sources.fake import FakeSource
from ferrule.sources.source import Source
from run.ledger_databases import Home

ANN = CallContext(principal=Principal("ann", "acme"))
POST = ToolDefinition.build("post").parameter("text", {"type": "string"}, required=True).side_effects().done()
READ = ToolDefinition.build("read").done()
CALL = ToolCall.of("post", {"text": "hello"}, id="c1")


def source() -> FakeSource:
    return FakeSource((POST, READ), lambda name, arguments, context: Answered(f"{name} {dict(arguments)}"))


async def opened(ledger: Ledger, tools: Source, *replies: Reply, **options: Any) -> ToolConversation:
    return await ToolConversation.open(ledger, "c", FakeEngine(replies), tools, context=ANN, **options)


async def waiting(ledger: Ledger, tools: Source) -> ToolConversation:
    talk = await opened(ledger, tools, Reply.of(CALL))
    turn = await talk.send_message("post it")
    assert (turn.state, talk.is_unfinished) == (State.WAITING, True)
    await talk.close()
    return talk


async def leave(ledger: Ledger) -> str:
    (asked,) = await ledger.approvals(ApprovalState.PENDING)
    return asked.id


def test_a_turn_waits_for_leave_and_another_process_goes_on_with_it(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[ConversationTurn, FakeSource]:
        await waiting(ledger, source())
        await ledger.approve(await leave(ledger), "bob", now=1)
        tools = source()
        talk = await opened(ledger, tools, Reply.of("posted"))
        return await talk.resume(), tools

    turn, tools = home.run(story)
    assert (turn.text, turn.state) == ("posted", State.DONE)
    assert [arguments for _, arguments, _ in tools.called] == [{"text": "hello"}]


def test_without_a_decision_it_goes_on_waiting_and_asks_for_leave_only_once(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[State, int]:
        await waiting(ledger, source())
        talk = await opened(ledger, source())
        turn = await talk.resume()
        return turn.state, len(await ledger.approvals())

    assert home.run(story) == (State.WAITING, 1)


def test_what_runs_is_what_was_agreed_to(home: Home) -> None:
    async def story(ledger: Ledger) -> FakeSource:
        await waiting(ledger, source())
        await ledger.approve(await leave(ledger), "bob", b'{"text":"goodbye"}', now=1)
        tools = source()
        await (await opened(ledger, tools, Reply.of("posted"))).resume()
        return tools

    assert [arguments for _, arguments, _ in home.run(story).called] == [{"text": "goodbye"}]


def test_arguments_that_were_edited_are_checked_again(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[FakeSource, str, CallState]:
        await waiting(ledger, source())
        await ledger.approve(await leave(ledger), "bob", b'{"words":"goodbye"}', now=1)
        tools = source()
        talk = await opened(ledger, tools, Reply.of("never mind"))
        await talk.resume()
        (call,) = await ledger.calls("c")
        return tools, str(talk.messages[-2].results[0].content), call.state

    tools, told, state = home.run(story)
    assert tools.called == []
    assert told.startswith("invalid_arguments")
    assert state is CallState.REFUSED


def test_a_denial_is_told_to_the_model(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[FakeSource, str]:
        await waiting(ledger, source())
        await ledger.deny(await leave(ledger), "bob", "not today", now=1)
        tools = source()
        talk = await opened(ledger, tools, Reply.of("I see"))
        await talk.resume()
        return tools, str(talk.messages[-2].results[0].content)

    tools, told = home.run(story)
    assert (tools.called, told) == ([], "denied: not today")


def test_leave_for_a_tool_that_has_changed_since_is_no_leave(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[FakeSource, str]:
        await waiting(ledger, source())
        await ledger.approve(await leave(ledger), "bob", now=1)
        changed = ToolDefinition("post", "Posts to everybody.", POST.parameters, side_effects=True)
        tools = FakeSource((changed,))
        talk = await opened(ledger, tools, Reply.of("I see"))
        await talk.resume()
        return tools, str(talk.messages[-2].results[0].content)

    tools, told = home.run(story)
    assert tools.called == []
    assert "definition has changed" in told


def test_somebody_elsewhere_decides_while_the_turn_waits(home: Home) -> None:
    async def story(ledger: Ledger) -> tuple[str, FakeSource]:
        tools = source()
        talk = await opened(ledger, tools, Reply.of(CALL), Reply.of("posted"), patience=30)
        turn = asyncio.ensure_future(talk.send_message("post it"))
        while not await ledger.approvals(ApprovalState.PENDING):
            await asyncio.sleep(0.01)
        await ledger.approve(await leave(ledger), "bob", now=1)
        return (await turn).text, tools

    text, tools = home.run(story)
    assert (text, len(tools.called)) == ("posted", 1)


def test_the_tool_is_told_one_key_for_one_call_and_another_for_the_next_with_the_same_id(home: Home) -> None:
    async def story(ledger: Ledger) -> list[str]:
        tools = source()
        read = ToolCall.of("read", {}, id="same")
        talk = await opened(ledger, tools, Reply.of(read), Reply.of(read), Reply.of("done"))
        await talk.send_message("read twice")
        return [context.call_id for _, _, context in tools.called]

    assert home.run(story) == ["c/1.1.0", "c/1.2.0"]


def test_a_second_turn_is_a_second_place(home: Home) -> None:
    async def story(ledger: Ledger) -> list[str]:
        tools = source()
        read = ToolCall.of("read", {}, id="same")
        talk = await opened(ledger, tools, Reply.of(read), Reply.of("one"))
        await talk.send_message("read")
        await talk.close()
        again = await opened(ledger, tools, Reply.of(read), Reply.of("two"))
        assert not again.is_unfinished
        await again.send_message("read")
        return [context.call_id for _, _, context in tools.called]

    assert home.run(story) == ["c/1.1.0", "c/5.1.0"]


def test_while_one_process_holds_it_another_is_refused(home: Home) -> None:
    async def story(ledger: Ledger) -> None:
        await opened(ledger, source())
        with pytest.raises(FencedError):
            await opened(ledger, source())

    home.run(story)


def test_an_owner_who_was_given_up_on_starts_nothing_more(home: Home) -> None:
    ours: list[str] = []

    class Slow(FakeEngine):
        """Answers when another process has taken the conversation over."""

        async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            await taken()
            async for event in super().stream(request):
                yield event

    async def taken() -> None:
        async def other(ledger: Ledger) -> None:
            await ToolConversation.open(ledger, "c", FakeEngine([]), source(), context=ANN, clock=lambda: 1e12)

        await asyncio.to_thread(home.run, other)

    @tool
    async def note() -> str:
        ours.append("noted")
        return "ok"

    async def story(ledger: Ledger) -> None:
        engine = Slow([Reply.of(ToolCall.of("note", {}, id="n"))])
        talk = await ToolConversation.open(ledger, "c", engine, [note], context=ANN)
        with pytest.raises(FencedError):
            await talk.send_message("note it")

    home.run(story)
    assert ours == []


def test_a_turn_that_is_not_over_is_gone_on_with_before_another_is_begun(home: Home) -> None:
    async def story(ledger: Ledger) -> None:
        await waiting(ledger, source())
        talk = await opened(ledger, source())
        with pytest.raises(DefinitionError, match="resume"):
            await talk.send_message("and now?")

    home.run(story)


def test_leave_that_ran_out_is_asked_for_anew(home: Home) -> None:
    async def story(ledger: Ledger) -> list[ApprovalState]:
        await waiting(ledger, source())
        talk = await opened(ledger, source(), clock=lambda: 1e12)
        await talk.resume()
        return [asked.state for asked in await ledger.approvals()]

    assert home.run(story) == [ApprovalState.REPLACED, ApprovalState.PENDING]


def test_definitions_alone_are_not_kept_in_a_ledger(home: Home) -> None:
    async def story(ledger: Ledger) -> None:
        with pytest.raises(DefinitionError):
            await ToolConversation.open(ledger, "c", FakeEngine([]), [POST], context=ANN)

    home.run(story)


def test_an_effect_that_happened_is_told_even_if_its_tool_is_gone_since(home: Home) -> None:
    async def story(ledger: Ledger) -> str:
        talk = await waiting(ledger, source())
        await ledger.approve(await leave(ledger), "bob", now=1)
        before = (await ledger.load("c", ANN.principal)) or pytest.fail("it is not there")
        talk = await opened(ledger, source(), Reply.of("posted"))
        await talk.resume()
        # As if its process had died before it wrote down more than the effect itself.
        again = (await ledger.load("c", ANN.principal)) or pytest.fail("it is not there")
        await ledger.save("c", again.epoch, before.state, now=2)
        await talk.close()
        bare = await opened(ledger, FakeSource(()), Reply.of("I see"))
        await bare.resume()
        return str(bare.messages[-2].results[0].content)

    assert home.run(story) == "post {'text': 'hello'}"
