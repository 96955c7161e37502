"""The executor as the specification writes it: definitions or names, offered at once, any kind of listener."""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule import ChatMessage, Reply, ToolCall, ToolCallRequest, ToolDefinition, ToolExecutor, tool
from ferrule.run.events import LoopEvent
from ferrule.sources.functions import Functions
from ferrule.testing import FakeEngine


@tool
def look(q: str) -> str:
    """Looks."""
    return f"found {q}"


@tool(side_effects=True)
def post(text: str) -> str:
    """Posts."""
    return f"posted {text}"


def source() -> Functions:
    return Functions([look, post])


def names(executor: ToolExecutor) -> list[str]:
    return [one["function"]["name"] for one in executor.native_definitions]


def test_definitions_are_offered_right_after_construction() -> None:
    executor = ToolExecutor(source(), [look.definition], max_iterations=6, per_tool_timeout_seconds=30)
    assert names(executor) == ["look"]


def test_a_call_is_run_right_after_construction() -> None:
    async def story(executor: ToolExecutor) -> None:
        result = await executor.dispatch(ToolCall("c1", name="look", arguments={"q": "x"}))
        assert (result.content, result.is_error) == ("found x", False)
        refused = await executor.dispatch(ToolCall("c2", name="post", arguments={"text": "x"}))
        assert str(refused.content).startswith(("requires_confirmation", "unknown tool"))

    for tools in (None, ["look"], [look.definition]):
        asyncio.run(story(ToolExecutor(source(), tools)))


def test_an_invalid_call_is_reported_before_its_approval() -> None:
    async def story() -> None:
        executor = ToolExecutor(source())
        invalid = await executor.dispatch(ToolCall("c1", name="post", arguments={"text": 1}))
        assert str(invalid.content).startswith("invalid_arguments: ")
        valid = await executor.dispatch(ToolCall("c2", name="post", arguments={"text": "x"}))
        assert str(valid.content).startswith("requires_confirmation: ")
        assert (
            await executor.dispatch_confirmed(ToolCall("c3", name="post", arguments={"text": "x"}))
        ).content == "posted x"

    asyncio.run(story())


def test_a_given_definition_replaces_the_sources_own_and_one_that_it_lacks_is_left_out() -> None:
    async def story() -> None:
        described = ToolDefinition("look", "Looks in the garden.", look.definition.parameters)
        executor = ToolExecutor(source(), [described, ToolDefinition("fly")])
        assert names(executor) == ["look", "fly"]
        (offered,) = await executor.refresh()
        assert offered.description == "Looks in the garden."
        assert executor.notices == ["fly does not exist"]
        result = await executor.dispatch(ToolCall("c1", name="fly"))
        assert (result.is_error, "unknown tool" in str(result.content)) == (True, True)

    asyncio.run(story())


def test_a_listener_may_be_plain_or_asynchronous() -> None:
    async def story() -> None:
        heard: dict[str, list[LoopEvent]] = {"plain": [], "asynchronous": []}

        async def listen(event: LoopEvent) -> None:
            await asyncio.sleep(0)
            heard["asynchronous"].append(event)

        listeners: dict[str, Any] = {"plain": heard["plain"].append, "asynchronous": listen}
        for listener in listeners.values():
            engine = FakeEngine([Reply.of(ToolCall("1", name="look", arguments={"q": "x"})), Reply.of("done")])
            request = ToolCallRequest(messages=[ChatMessage.user("x")])
            loop = await ToolExecutor(source()).run_chat_with_tools(engine, request, stream_to=listener)
            assert loop.reply.text == "done"
        kinds = [[type(event).__name__ for event in events] for events in heard.values()]
        assert kinds[0] == kinds[1]
        assert "ToolFinished" in kinds[0]

    asyncio.run(story())
