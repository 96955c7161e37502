"""`engine.run`: functions run, side effects need approval, limits hold, and the finished turn is returned."""

from __future__ import annotations

import asyncio
import functools
from dataclasses import dataclass
from typing import Any

import pytest

from ferrule import ChatMessage, Decision, DefinitionError, Reply, ToolCall, ToolDefinition, ToolExecutor, tool
from ferrule.engines.fake import FakeEngine
from ferrule.run.machine import State
from ferrule.sources.functions import Functions


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Desk:
    def __init__(self) -> None:
        self.posts: list[str] = []

    def tool(self) -> Any:
        @tool(side_effects=True)
        def post(text: str) -> str:
            """Post a text in public."""
            self.posts.append(text)
            return "posted"

        return post


def call(name: str, arguments: dict[str, Any], id: str = "c1") -> Reply:
    return Reply.of(ToolCall.of(name, arguments, id=id))


def test_functions_run_and_the_model_answers() -> None:
    engine = FakeEngine([call("add", {"a": 2, "b": 3}), Reply.of("It is 5.")])
    turn = engine.run_sync("What is 2 and 3?", tools=[add], temperature=0.0)
    assert (turn.text, turn.state) == ("It is 5.", State.DONE)
    assert engine.requests[1].messages[-1] == ChatMessage.tool("c1", 5, "add")
    assert engine.requests[1].temperature == 0.0


def test_run_is_asynchronous_and_takes_messages_and_a_source() -> None:
    engine = FakeEngine([call("add", {"a": 2, "b": 3}), Reply.of("5")])
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "2 and 3?"}]
    assert asyncio.run(engine.run(messages, tools=Functions([add]))).text == "5"
    assert engine.requests[0].messages == (ChatMessage.system("Be brief."), ChatMessage.user("2 and 3?"))


async def _approve(call: ToolCall) -> Decision:
    return Decision(True)


class Approver:
    async def __call__(self, call: ToolCall) -> bool:
        return True


@pytest.mark.parametrize(
    "decide", [lambda call: True, lambda call: Decision(True), _approve, Approver(), functools.partial(_approve)]
)
def test_any_function_may_approve(decide: Any) -> None:
    desk = Desk()
    FakeEngine([call("post", {"text": "hi"}), Reply.of("done")]).run_sync("Post.", tools=[desk.tool()], decide=decide)
    assert desk.posts == ["hi"]


@pytest.mark.parametrize("options", [{}, {"decide": lambda call: False}, {"decide": lambda call: None}])
def test_nothing_runs_without_approval(options: dict[str, Any]) -> None:
    desk = Desk()
    FakeEngine([call("post", {"text": "hi"}), Reply.of("no")]).run_sync("Post.", tools=[desk.tool()], **options)
    assert desk.posts == []


@pytest.mark.parametrize("decide", [True, "yes"])
def test_a_decision_that_is_no_function_is_refused(decide: Any) -> None:
    with pytest.raises(DefinitionError, match="decide must be a function"):
        FakeEngine([]).run_sync("Post.", tools=[add], decide=decide)


def test_a_function_that_returns_something_else_is_refused() -> None:
    engine = FakeEngine([call("post", {"text": "hi"})])
    with pytest.raises(DefinitionError, match="decide returned 'y'"):
        engine.run_sync("Post.", tools=[Desk().tool()], decide=lambda call: "y")  # pyright: ignore[reportArgumentType]


def test_a_limit_ends_the_loop() -> None:
    replies = [call("add", {"a": number, "b": 1}, f"c{number}") for number in range(5)]
    engine = FakeEngine([*replies[:2], Reply.of("enough")])
    assert engine.run_sync("Count.", tools=[add], max_iterations=2).text == "enough"
    assert len(engine.requests) == 3


def test_an_executor_has_its_own_limits() -> None:
    with pytest.raises(DefinitionError, match="max_iterations"):
        FakeEngine([]).run_sync("Count.", tools=ToolExecutor(Functions([add])), max_iterations=2)


def test_calls_of_definitions_are_returned() -> None:
    turn = FakeEngine([call("ping", {})]).run_sync("Ping.", tools=[ToolDefinition("ping")])
    assert [each.name for each in turn.calls] == ["ping"]


def test_without_tools_there_is_one_reply() -> None:
    assert FakeEngine([Reply.of("hi")]).run_sync("Hello.", max_iterations=2).text == "hi"


@pytest.mark.parametrize("tools", ["add", [3], 3])
def test_what_is_not_a_tool_is_refused(tools: Any) -> None:
    with pytest.raises(DefinitionError) as refusal:
        FakeEngine([]).run_sync("Hello.", tools=tools)
    assert "[get_weather]" in refusal.value.hint


@dataclass
class Sum:
    total: int


def test_the_last_answer_has_the_response_type() -> None:
    engine = FakeEngine([call("add", {"a": 2, "b": 3}), Reply.of('{"total": 5}')])
    assert engine.run_sync("2 and 3?", tools=[add], response_type=Sum).value == Sum(5)
