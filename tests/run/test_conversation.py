"""A conversation with tools: functions run automatically, other calls are returned, and it can be saved."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import (
    ChatMessage,
    DefinitionError,
    Reasoning,
    Reply,
    Role,
    Text,
    ToolCall,
    ToolDefinition,
    ToolResult,
    tool,
)
from ferrule.core.message import messages_as_json, messages_from_json
from ferrule.engines.fake import FakeEngine
from ferrule.run.conversation import ToolConversation
from ferrule.run.journal import Decision
from ferrule.run.machine import State

CALL = ToolCall.of("add", {"a": 2, "b": 3}, id="c1")
ADD = ToolDefinition.build("add").parameter("a", {"type": "integer"}).parameter("b", {"type": "integer"}).done()
POSTED: list[str] = []


@tool
def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@tool(side_effects=True)
def post(text: str) -> str:
    """Posts."""
    POSTED.append(text)
    return "posted"


def test_bound_tools_run_by_themselves_and_the_turn_is_the_answer() -> None:
    engine = FakeEngine([Reply.of(CALL), Reply.of("five")])
    talk = ToolConversation(engine, [add], system="Be brief.")
    turn = talk.send_message_sync("2 and 3?")
    assert (turn.text, turn.needs_results, turn.state) == ("five", False, State.DONE)
    roles = [message.role.value for message in talk.messages]
    assert roles == ["system", "user", "assistant", "tool", "assistant"]


def test_calls_of_tools_that_are_not_bound_are_handed_out_and_only_results_are_added() -> None:
    engine = FakeEngine([Reply.of(CALL), Reply.of("five")])
    talk = ToolConversation(engine, [ADD])
    turn = talk.send_message_sync("2 and 3?")
    assert turn.calls == (CALL,)
    after = asyncio.run(talk.submit_tool_results([ToolResult("c1", "add", 5)]))
    assert after.text == "five"
    assert [message.role for message in talk.messages] == [Role.USER, Role.ASSISTANT, Role.TOOL, Role.ASSISTANT]


def test_results_must_answer_exactly_the_calls_that_were_made() -> None:
    talk = ToolConversation(FakeEngine([Reply.of(CALL)]), [ADD])
    talk.send_message_sync("2 and 3?")
    for wrong in ([], [ToolResult("other", "add", 5)]):
        with pytest.raises(DefinitionError):
            asyncio.run(talk.submit_tool_results(wrong))
    with pytest.raises(DefinitionError, match="no results yet"):
        talk.send_message_sync("and now?")


@pytest.mark.parametrize("is_bound", [True, False])
def test_a_saved_conversation_continues_where_it_was(is_bound: bool) -> None:
    tools: Any = [add] if is_bound else [ADD]
    first = ToolConversation(FakeEngine([Reply.of(CALL), Reply.of("five")]), tools)
    first.send_message_sync("2 and 3?")
    saved = json.loads(json.dumps(first.save()))
    engine = FakeEngine([Reply.of("so it was"), Reply.of("so it was")])
    second = ToolConversation.load(saved, engine, tools)
    assert second.messages == first.messages
    if is_bound:
        assert second.send_message_sync("sure?").text == "so it was"
    else:
        assert second.last.calls == (CALL,)
        assert asyncio.run(second.submit_tool_results([ToolResult("c1", "add", 5)])).text == "so it was"
    assert engine.requests[0].messages[: len(first.messages)] == tuple(first.messages)


def test_a_tool_with_side_effects_asks_the_given_decider() -> None:
    async def yes(call: ToolCall) -> Decision:
        return Decision(True)

    POSTED.clear()
    replies = [Reply.of(ToolCall.of("post", {"text": "hi"}, id="c1")), Reply.of("ok")]
    ToolConversation(FakeEngine(replies), [post]).send_message_sync("post hi")
    assert POSTED == []
    ToolConversation(FakeEngine(replies), [post], decide=yes).send_message_sync("post hi")
    assert POSTED == ["hi"]


def test_functions_and_bare_definitions_do_not_mix() -> None:
    with pytest.raises(DefinitionError):
        ToolConversation(FakeEngine([]), [add, ADD])


def test_a_conversation_that_nobody_saved_is_refused() -> None:
    for data in ({"version": 9, "messages": []}, {"version": 1, "messages": [{"role": "x"}]}):
        with pytest.raises(DefinitionError):
            ToolConversation.load(data, FakeEngine([]))


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
PARTS = st.one_of(
    st.builds(Text, st.text()),
    st.builds(Reasoning, st.text()),
    st.builds(lambda n, a, i: ToolCall.of(n, a, id=i), st.text(), st.dictionaries(st.text(), VALUES), st.text()),
    st.builds(ToolResult, st.text(), st.text(), VALUES, st.booleans()),
)


@given(st.lists(st.builds(ChatMessage, st.sampled_from(Role), st.lists(PARTS, max_size=4).map(tuple)), max_size=4))
def test_saved_messages_come_back_as_they_were(messages: list[ChatMessage]) -> None:
    assert messages_from_json(json.loads(json.dumps(messages_as_json(messages)))) == tuple(messages)


def test_a_string_loads_the_engine_and_the_conversation_closes_it(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[FakeEngine] = []

    async def close(engine: FakeEngine) -> None:
        closed.append(engine)

    monkeypatch.setattr(FakeEngine, "close", close)
    with ToolConversation("fake:hello", [add]) as talk:
        assert talk.send_message_sync("hi").text == "hello"
    assert closed == [talk.engine]


def test_an_engine_of_the_caller_stays_open(monkeypatch: pytest.MonkeyPatch) -> None:
    async def close(engine: FakeEngine) -> None:
        raise AssertionError("closed")

    monkeypatch.setattr(FakeEngine, "close", close)

    async def scenario() -> str:
        async with ToolConversation(FakeEngine([Reply.of("hello")])) as talk:
            return (await talk.send_message([{"role": "user", "content": "hi"}])).text

    assert asyncio.run(scenario()) == "hello"


def test_every_step_has_a_synchronous_form() -> None:
    talk = ToolConversation(FakeEngine([Reply.of(CALL), Reply.of("five"), Reply.of("bye")]), [ADD])
    assert talk.send_message_sync("2 and 3?").needs_results
    assert talk.submit_tool_results_sync([ToolResult("c1", "add", 5)]).text == "five"
    assert [type(event).__name__ for event in talk.stream_sync("thanks")] == ["TextDelta", "Finish", "LoopEnded"]
    assert talk.resume_sync().text == "bye"
    talk.close_sync()


def test_what_is_no_engine_is_refused() -> None:
    with pytest.raises(DefinitionError) as refusal:
        ToolConversation(None)  # pyright: ignore[reportArgumentType]
    assert "load_engine" in refusal.value.hint


ASK = ToolDefinition.build("ask").done()
ASKED = ToolCall.of("ask", {}, id="c2")


def test_calls_of_client_tools_end_the_turn_after_the_functions_and_their_results_continue_it() -> None:
    engine = FakeEngine([Reply.of(CALL, ASKED), Reply.of("five, and yes")])
    talk = ToolConversation(engine, [add], client_tools=[ASK])
    turn = talk.send_message_sync("2 and 3?")
    assert (turn.calls, turn.state) == ((ASKED,), State.DONE)
    assert [tool.name for tool in engine.requests[0].tools] == ["add", "ask"]
    with pytest.raises(DefinitionError, match="no results yet"):
        talk.send_message_sync("and now?")
    with pytest.raises(DefinitionError, match="do not match"):
        talk.submit_tool_results_sync([ToolResult("c1", "add", 5)])
    assert talk.submit_tool_results_sync([ToolResult("c2", "ask", "yes")]).text == "five, and yes"
    results = [result.tool_call_id for message in engine.requests[-1].messages for result in message.results]
    assert results == ["c1", "c2"]


def test_client_tools_need_tools_that_run_automatically() -> None:
    with pytest.raises(DefinitionError, match="client_tools need"):
        ToolConversation(FakeEngine([]), [ADD], client_tools=[ASK])
