"""The loop over a whole conversation: it asks, runs calls, asks again, and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule import ChatMessage, EngineError, Reply, TextDelta, ToolCall, ToolCallRequest, ToolDefinition
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.request import ChoiceMode
from ferrule.engines.fake import FakeEngine
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision
from ferrule.run.loop import Decide, Loop, deny_all
from ferrule.run.machine import State
from ferrule.sources.fake import FakeSource

ADD = ToolDefinition.build("add").parameter("a", {"type": "integer"}, required=True).done()
POST = ToolDefinition.build("post").parameter("text", {"type": "string"}).side_effects().done()
REQUEST = ToolCallRequest(messages=(ChatMessage.user("go"),))


def behave(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    context.report(1, 2)
    return Answered({"name": name, **arguments})


def call(name: str, number: int = 1, **arguments: Any) -> ToolCall:
    return ToolCall.of(name, arguments, id=f"c{number}")


def run_loop(
    *replies: Reply, decide: Decide = deny_all, source: FakeSource | None = None, **options: Any
) -> tuple[Loop, list[LoopEvent], FakeEngine]:
    async def run() -> tuple[Loop, list[LoopEvent], FakeEngine]:
        engine = FakeEngine(replies)
        executor = ToolExecutor(source or FakeSource((ADD, POST), behave), **options)
        await executor.refresh()
        loop = Loop(engine, executor, REQUEST, decide=decide)
        return loop, [event async for event in loop.stream()], engine

    return asyncio.run(run())


def kinds(events: list[LoopEvent]) -> list[type]:
    return [type(event) for event in events if not isinstance(event, TextDelta)]


def test_a_call_and_an_answer() -> None:
    loop, events, engine = run_loop(Reply.of(call("add", a=1)), Reply.of("one"))
    assert loop.reply.text == "one"
    assert [message.role.value for message in loop.new_messages] == ["assistant", "tool", "assistant"]
    assert loop.new_messages[1].results[0].content == {"name": "add", "a": 1}
    assert engine.requests[1].messages[-1] == loop.new_messages[1]
    for kind in (ToolStarted, ToolProgressed, ToolFinished, LoopEnded):
        assert kind in kinds(events)


def test_calls_of_one_turn_come_back_in_one_message() -> None:
    loop, _, _ = run_loop(Reply.of(call("add", 1, a=1), call("add", 2, a=2)), Reply.of("three"))
    assert [result.tool_call_id for result in loop.new_messages[1].results] == ["c1", "c2"]


def test_arguments_that_do_not_fit_go_back_to_the_model_which_may_try_again() -> None:
    loop, _, _ = run_loop(Reply.of(call("add", 1, a="x")), Reply.of(call("add", 2, a=3)), Reply.of("done"))
    assert "invalid_arguments: /a" in loop.new_messages[1].results[0].content
    assert loop.new_messages[3].results[0].content == {"name": "add", "a": 3}


def test_a_call_that_nobody_decides_about_is_logged_once_per_tool_with_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    first, second = (ToolDefinition.build(name).side_effects().done() for name in ("sell_the_boat", "sell_the_house"))
    source = FakeSource((first, second), behave)
    for _ in range(2):
        run_loop(Reply.of(call("sell_the_boat"), call("sell_the_house", 2)), Reply.of("done"), source=source)
    messages = [record.getMessage() for record in caplog.records if record.name.startswith("ferrule.")]
    assert [word for message in messages for word in ("boat", "house") if word in message] == ["boat", "house"]
    assert all("decide=" in message and "Decision(True)" in message for message in messages)


def test_a_tool_with_side_effects_does_not_run_without_approval() -> None:
    source = FakeSource((ADD, POST), behave)
    loop, events, _ = run_loop(Reply.of(call("post", text="hi")), Reply.of("ok"), source=source)
    assert source.calls == []
    assert ConfirmationRequired in kinds(events)
    assert "denied" in loop.new_messages[1].results[0].content


def test_an_approved_call_runs_once_with_the_approved_arguments() -> None:
    async def edited(call: ToolCall) -> Decision:
        return Decision(True, arguments='{"text": "hello"}')

    source = FakeSource((ADD, POST), behave)
    run_loop(Reply.of(call("post", text="hi")), Reply.of("ok"), source=source, decide=edited)
    assert [arguments for _, arguments, _ in source.calls] == [{"text": "hello"}]


def test_arguments_that_a_person_edited_are_checked_again() -> None:
    async def edited(call: ToolCall) -> Decision:
        return Decision(True, arguments='{"text": 5}')

    source = FakeSource((ADD, POST), behave)
    loop, _, _ = run_loop(Reply.of(call("post", text="hi")), Reply.of("ok"), source=source, decide=edited)
    assert source.calls == []
    assert "invalid_arguments" in loop.new_messages[1].results[0].content


def test_at_the_limit_the_model_is_asked_for_an_answer_without_tools() -> None:
    replies = [Reply.of(call("add", number, a=number)) for number in (1, 2)]
    loop, events, engine = run_loop(*replies, Reply.of("enough"), max_iterations=2)
    assert engine.requests[-1].tool_choice.mode is ChoiceMode.NONE
    assert "2 rounds" in engine.requests[-1].messages[-1].content
    ended = events[-1]
    assert isinstance(ended, LoopEnded)
    assert (ended.state, loop.reply.text) == (State.DONE, "enough")


def test_an_engine_that_fails_is_the_callers_to_see() -> None:
    with pytest.raises(EngineError):
        run_loop(Reply.of(call("add", a=1)))


def test_closing_the_stream_cancels_what_is_running() -> None:
    class Slow(FakeSource):
        was_cancelled = False

        async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
            try:
                await asyncio.sleep(60)
            finally:
                self.was_cancelled = True
            return Answered("late")

    async def close_stream() -> bool:
        source = Slow((ADD,))
        executor = ToolExecutor(source)
        await executor.refresh()
        events = Loop(FakeEngine([Reply.of(call("add", a=1))]), executor, REQUEST).stream()
        async for event in events:
            if isinstance(event, ToolStarted):
                await asyncio.sleep(0.01)
                break
        await events.aclose()
        return source.was_cancelled

    assert asyncio.run(close_stream())


def test_the_executor_runs_a_whole_chat_and_streams_its_events() -> None:
    events: list[LoopEvent] = []

    async def run() -> Loop:
        executor = ToolExecutor(FakeSource((ADD, POST), behave))
        engine = FakeEngine([Reply.of(call("add", a=1)), Reply.of("one")])
        return await executor.run_chat_with_tools(engine, REQUEST, events.append)

    assert asyncio.run(run()).reply.text == "one"
    assert isinstance(events[-1], LoopEnded)


def test_two_calls_with_one_id_are_both_run_and_both_answered() -> None:
    loop, _, _ = run_loop(Reply.of(call("add", 1, a=1), call("add", 1, a=2)), Reply.of("three"))
    calls, results = loop.new_messages[0].tool_calls, loop.new_messages[1].results
    assert [result.content["a"] for result in results] == [1, 2]
    assert [one.id for one in calls] == [result.tool_call_id for result in results] == ["c1", "c2"]
