"""A conversation in a ledger: it waits for approval, is resumed by other processes, and repeats nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule import (
    ChatMessage,
    DefinitionError,
    Event,
    Reply,
    Role,
    ToolCall,
    ToolCallRequest,
    ToolDefinition,
    ToolResult,
    tool,
)
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered
from ferrule.engines.fake import FakeEngine
from ferrule.errors import FencedError
from ferrule.run.conversation import ConversationTurn, ToolConversation
from ferrule.run.journal import Decision
from ferrule.run.ledger.ledger import ApprovalState, CallState, Ledger
from ferrule.run.machine import State
from ferrule.sources.fake import FakeSource
from ferrule.sources.source import Source
from run.ledger_databases import Database

ANN = CallContext(principal=Principal("ann", "acme"))
POST = ToolDefinition.build("post").parameter("text", {"type": "string"}, required=True).side_effects().done()
READ = ToolDefinition.build("read").done()
CALL = ToolCall.of("post", {"text": "hello"}, id="c1")


def source() -> FakeSource:
    return FakeSource((POST, READ), lambda name, arguments, context: Answered(f"{name} {dict(arguments)}"))


async def open_conversation(ledger: Ledger, tools: Source, *replies: Reply, **options: Any) -> ToolConversation:
    return await ToolConversation.open(ledger, "c", FakeEngine(replies), tools, context=ANN, **options)


async def start_waiting(ledger: Ledger, tools: Source) -> ToolConversation:
    talk = await open_conversation(ledger, tools, Reply.of(CALL))
    turn = await talk.send_message("post it")
    assert (turn.state, talk.is_unfinished) == (State.WAITING, True)
    await talk.close()
    return talk


async def pending_approval(ledger: Ledger) -> str:
    (approval,) = await ledger.approvals(ApprovalState.PENDING)
    return approval.id


def test_a_turn_waits_for_approval_and_another_process_resumes_it(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[ConversationTurn, FakeSource]:
        await start_waiting(ledger, source())
        await ledger.approve(await pending_approval(ledger), "bob", now=1)
        tools = source()
        talk = await open_conversation(ledger, tools, Reply.of("posted"))
        return await talk.resume(), tools

    turn, tools = database.run(scenario)
    assert (turn.text, turn.state) == ("posted", State.DONE)
    assert [arguments for _, arguments, _ in tools.calls] == [{"text": "hello"}]


def test_without_a_decision_it_keeps_waiting_and_requests_approval_only_once(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[State, int]:
        await start_waiting(ledger, source())
        talk = await open_conversation(ledger, source())
        turn = await talk.resume()
        return turn.state, len(await ledger.approvals())

    assert database.run(scenario) == (State.WAITING, 1)


def test_the_approved_arguments_are_the_ones_that_run(database: Database) -> None:
    async def scenario(ledger: Ledger) -> FakeSource:
        await start_waiting(ledger, source())
        await ledger.approve(await pending_approval(ledger), "bob", b'{"text":"goodbye"}', now=1)
        tools = source()
        await (await open_conversation(ledger, tools, Reply.of("posted"))).resume()
        return tools

    assert [arguments for _, arguments, _ in database.run(scenario).calls] == [{"text": "goodbye"}]


def test_arguments_that_were_edited_are_checked_again(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[FakeSource, str, CallState]:
        await start_waiting(ledger, source())
        await ledger.approve(await pending_approval(ledger), "bob", b'{"words":"goodbye"}', now=1)
        tools = source()
        talk = await open_conversation(ledger, tools, Reply.of("never mind"))
        await talk.resume()
        (call,) = await ledger.calls("c")
        return tools, str(talk.messages[-2].results[0].content), call.state

    tools, result, state = database.run(scenario)
    assert tools.calls == []
    assert result.startswith("invalid_arguments")
    assert state is CallState.REFUSED


def test_the_model_reads_a_denial(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[FakeSource, str]:
        await start_waiting(ledger, source())
        await ledger.deny(await pending_approval(ledger), "bob", "not today", now=1)
        tools = source()
        talk = await open_conversation(ledger, tools, Reply.of("I see"))
        await talk.resume()
        return tools, str(talk.messages[-2].results[0].content)

    tools, result = database.run(scenario)
    assert (tools.calls, result) == ([], "denied: not today")


def test_an_approval_is_void_if_the_tool_has_changed_since(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[FakeSource, str]:
        await start_waiting(ledger, source())
        await ledger.approve(await pending_approval(ledger), "bob", now=1)
        changed = ToolDefinition("post", "Posts to everybody.", POST.parameters, side_effects=True)
        tools = FakeSource((changed,))
        talk = await open_conversation(ledger, tools, Reply.of("I see"))
        await talk.resume()
        return tools, str(talk.messages[-2].results[0].content)

    tools, result = database.run(scenario)
    assert tools.calls == []
    assert "definition has changed" in result


def test_somebody_elsewhere_decides_while_the_turn_waits(database: Database) -> None:
    async def scenario(ledger: Ledger) -> tuple[str, FakeSource]:
        tools = source()
        talk = await open_conversation(ledger, tools, Reply.of(CALL), Reply.of("posted"), patience=30)
        turn = asyncio.ensure_future(talk.send_message("post it"))
        while not await ledger.approvals(ApprovalState.PENDING):
            await asyncio.sleep(0.01)
        await ledger.approve(await pending_approval(ledger), "bob", now=1)
        return (await turn).text, tools

    text, tools = database.run(scenario)
    assert (text, len(tools.calls)) == ("posted", 1)


def test_each_call_has_its_own_idempotency_key_even_if_the_model_repeats_ids(database: Database) -> None:
    async def scenario(ledger: Ledger) -> list[str]:
        tools = source()
        read = ToolCall.of("read", {}, id="same")
        talk = await open_conversation(ledger, tools, Reply.of(read), Reply.of(read), Reply.of("done"))
        await talk.send_message("read twice")
        return [context.call_id for _, _, context in tools.calls]

    assert database.run(scenario) == ["c/1.1.0", "c/1.2.0"]


def test_a_second_turn_is_a_second_place(database: Database) -> None:
    async def scenario(ledger: Ledger) -> list[str]:
        tools = source()
        read = ToolCall.of("read", {}, id="same")
        talk = await open_conversation(ledger, tools, Reply.of(read), Reply.of("one"))
        await talk.send_message("read")
        await talk.close()
        again = await open_conversation(ledger, tools, Reply.of(read), Reply.of("two"))
        assert not again.is_unfinished
        await again.send_message("read")
        return [context.call_id for _, _, context in tools.calls]

    assert database.run(scenario) == ["c/1.1.0", "c/5.1.0"]


def test_while_one_process_owns_it_another_is_refused(database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        await open_conversation(ledger, source())
        with pytest.raises(FencedError):
            await open_conversation(ledger, source())

    database.run(scenario)


def test_a_fenced_owner_starts_no_effect_any_more(database: Database) -> None:
    ours: list[str] = []

    class Slow(FakeEngine):
        """Answers when another process has taken the conversation over."""

        async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
            await taken()
            async for event in super().stream_request(request):
                yield event

    async def taken() -> None:
        async def other(ledger: Ledger) -> None:
            await ToolConversation.open(ledger, "c", FakeEngine([]), source(), context=ANN, clock=lambda: 1e12)

        await asyncio.to_thread(database.run, other)

    @tool(side_effects=True)
    async def note() -> str:
        ours.append("noted")
        return "ok"

    async def allow(call: ToolCall) -> Decision:
        return Decision(True)

    async def scenario(ledger: Ledger) -> None:
        engine = Slow([Reply.of(ToolCall.of("note", {}, id="n"))])
        talk = await ToolConversation.open(ledger, "c", engine, [note], context=ANN, decide=allow)
        with pytest.raises(FencedError):
            await talk.send_message("note it")

    database.run(scenario)
    assert ours == []


def test_an_unfinished_turn_must_be_resumed_before_another_one_starts(database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        await start_waiting(ledger, source())
        talk = await open_conversation(ledger, source())
        with pytest.raises(DefinitionError, match="resume"):
            await talk.send_message("and now?")

    database.run(scenario)


def test_an_expired_approval_is_requested_again(database: Database) -> None:
    async def scenario(ledger: Ledger) -> list[ApprovalState]:
        await start_waiting(ledger, source())
        talk = await open_conversation(ledger, source(), clock=lambda: 1e12)
        await talk.resume()
        return [approval.state for approval in await ledger.approvals()]

    assert database.run(scenario) == [ApprovalState.REPLACED, ApprovalState.PENDING]


def test_definitions_alone_are_not_kept_in_a_ledger(database: Database) -> None:
    async def scenario(ledger: Ledger) -> None:
        with pytest.raises(DefinitionError):
            await ToolConversation.open(ledger, "c", FakeEngine([]), [POST], context=ANN)

    database.run(scenario)


def test_the_outcome_of_an_effect_is_reported_even_if_its_tool_was_removed(database: Database) -> None:
    async def scenario(ledger: Ledger) -> str:
        talk = await start_waiting(ledger, source())
        await ledger.approve(await pending_approval(ledger), "bob", now=1)
        before = (await ledger.load("c", ANN.principal)) or pytest.fail("the conversation was not found")
        talk = await open_conversation(ledger, source(), Reply.of("posted"))
        await talk.resume()
        # As if its process had died before it recorded more than the effect itself.
        again = (await ledger.load("c", ANN.principal)) or pytest.fail("the conversation was not found")
        await ledger.save("c", again.epoch, before.state, now=2)
        await talk.close()
        bare = await open_conversation(ledger, FakeSource(()), Reply.of("I see"))
        await bare.resume()
        return str(bare.messages[-2].results[0].content)

    assert database.run(scenario) == "post {'text': 'hello'}"


@pytest.mark.parametrize("is_approved", [True, False])
def test_a_round_with_a_callers_call_waits_is_resumed_elsewhere_and_runs_its_own_call_at_most_once(
    database: Database, is_approved: bool
) -> None:
    theirs = ToolCall.of("ask", {}, id="c2")
    ask = ToolDefinition.build("ask").done()

    async def scenario(ledger: Ledger) -> tuple[ConversationTurn, FakeSource, str]:
        first = await open_conversation(ledger, source(), Reply.of(CALL, theirs), client_tools=[ask])
        assert (await first.send_message("post it")).state is State.WAITING
        await first.close()
        approval = await pending_approval(ledger)
        await (ledger.approve(approval, "bob", now=1) if is_approved else ledger.deny(approval, "bob", now=1))
        tools = source()
        second = await open_conversation(ledger, tools, client_tools=[ask])
        turn = await second.resume()
        await second.close()
        third = await open_conversation(ledger, tools, Reply.of("all done"), client_tools=[ask])
        assert not third.is_unfinished
        answer = ChatMessage(Role.TOOL, (ToolResult("c2", "ask", "yes"),))
        last = await third.send_message([answer])
        results = [one.tool_call_id for message in third.messages for one in message.results]
        assert results == ["c1", "c2"]
        return turn, tools, last.text

    turn, tools, text = database.run(scenario)
    assert (turn.calls, turn.state, text) == ((theirs,), State.DONE, "all done")
    assert len(tools.calls) == is_approved
