"""Running a call: validation, authorisation, confirmation, timeouts; every failure is a result for the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from ferrule import Media, Receipt, ToolCall, ToolDefinition, ToolResult
from ferrule.core.call import How
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.run.executor import ToolExecutor
from ferrule.run.machine import outcome_as_dict, outcome_from_dict
from ferrule.sources.fake import FakeSource

ADD = ToolDefinition.build("add").parameter("a", {"type": "integer", "minimum": 0}, required=True).done()
POST = ToolDefinition.build("post").parameter("text", {"type": "string"}).side_effects().bound_to("market.post").done()
HOSTILE = ToolDefinition("far", "", {"type": "object", "properties": {"x": {"$ref": "http://example.com"}}})


def executor_and_source(*outcomes: Outcome, **options: Any) -> tuple[ToolExecutor, FakeSource]:
    waiting = list(outcomes or (Answered("done"),))

    def behave(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return waiting.pop(0) if len(waiting) > 1 else waiting[0]

    source = FakeSource((ADD, POST, HOSTILE), behave)
    executor = ToolExecutor(source, **options)
    asyncio.run(executor.refresh())
    return executor, source


def dispatch(executor: ToolExecutor, call: ToolCall, context: CallContext | None = None) -> ToolResult:
    return asyncio.run(executor.dispatch(call, context))


def test_a_call_that_fits_reaches_the_tool_with_its_id_as_the_idempotency_key() -> None:
    executor, source = executor_and_source()
    result = dispatch(executor, ToolCall.of("add", {"a": 1}, id="c7"))
    assert result == ToolResult("c7", "add", "done")
    (name, arguments, context), *rest = source.calls
    assert (name, arguments, context.call_id, rest) == ("add", {"a": 1}, "c7", [])


@pytest.mark.parametrize(
    "call, message",
    [
        (ToolCall.of("add", {"a": -1}), "invalid_arguments: /a"),
        (ToolCall.of("add", "{}"), "invalid_arguments"),
        (ToolCall.of("add", "not json"), "invalid_arguments"),
        (ToolCall.of("add", "[]"), "invalid_arguments"),
        (ToolCall.of("sub", {"a": 1}), "unknown tool 'sub'; offered: add, post"),
    ],
)
def test_an_invalid_call_gets_an_error_message_and_never_runs(call: ToolCall, message: str) -> None:
    executor, source = executor_and_source()
    result = dispatch(executor, call)
    assert result.is_error
    assert message in result.content
    assert source.calls == []


def test_a_tool_with_side_effects_runs_only_after_confirmation() -> None:
    executor, source = executor_and_source()
    call = ToolCall.of("post", {"text": "hi"}, id="c1")
    assert executor.requires_confirmation(call)
    assert "requires_confirmation" in dispatch(executor, call).content
    assert source.calls == []
    assert asyncio.run(executor.dispatch_confirmed(call)).content == "done"
    assert len(source.calls) == 1


def test_a_call_in_another_spelling_needs_approval_also_where_others_do_not() -> None:
    executor, _ = executor_and_source(confirms_side_effects=False)
    call = ToolCall.of("post", {"text": "hi"}, id="c1")
    receipt = Receipt(how=How.VALIDATED, engine="llama", path="completion", drifted="hermes -> fenced_json")
    assert not executor.requires_confirmation(call)
    assert executor.requires_confirmation(replace(call, receipt=receipt))


def test_a_caller_without_the_scope_gets_an_error_and_nothing_runs() -> None:
    executor, source = executor_and_source()
    context = CallContext(principal=Principal("ann", scopes=frozenset({"add"})))
    result = asyncio.run(executor.dispatch_confirmed(ToolCall.of("post", {}, id="c"), context))
    assert result.is_error
    assert "token_scope_insufficient" in result.content
    assert source.calls == []


def test_what_was_not_delivered_is_tried_again_and_what_is_unknown_never() -> None:
    executor, source = executor_and_source(NotDelivered("busy"), NotDelivered("busy"), Answered("done"))
    assert dispatch(executor, ToolCall.of("add", {"a": 1})).content == "done"
    assert len(source.calls) == 3
    executor, source = executor_and_source(Unknown("no answer"))
    result = asyncio.run(executor.dispatch_confirmed(ToolCall.of("post", {})))
    assert result.content.startswith("unknown:")
    assert len(source.calls) == 1


@pytest.mark.parametrize("name, kind", [("add", Answered), ("post", Unknown)])
def test_a_timeout_is_unknown_only_for_a_tool_with_side_effects(name: str, kind: type) -> None:
    class Slow(FakeSource):
        async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
            await asyncio.sleep(60)
            return Answered("late")

    async def late() -> Outcome:
        executor = ToolExecutor(Slow((ADD, POST)), per_tool_timeout_seconds=0.01)
        await executor.refresh()
        return await executor.run(ToolCall.of(name, {"a": 1} if name == "add" else {}))

    assert isinstance(asyncio.run(late()), kind)


def test_one_tool_with_a_hostile_schema_loses_only_itself_and_says_so() -> None:
    executor, _ = executor_and_source()
    assert [tool["function"]["name"] for tool in executor.native_definitions] == ["add", "post"]
    assert executor.notices == [notice for notice in executor.notices if notice.startswith("far is not offered")]


def test_only_the_tools_that_were_asked_for_are_offered() -> None:
    executor, _ = executor_and_source(tools=["add", "nothing"])
    assert [tool.name for tool in executor.definitions] == ["add"]
    assert executor.notices == ["nothing does not exist"]


def test_a_long_result_is_truncated_and_says_so() -> None:
    executor, _ = executor_and_source(Answered("x" * 200_000))
    result = dispatch(executor, ToolCall.of("add", {"a": 1}, id="c9"))
    assert len(result.content) < 70_000
    assert result.content.endswith("[truncated: 65536 of 200000 characters]")


def test_the_tool_gets_the_deadline() -> None:
    executor, source = executor_and_source(per_tool_timeout_seconds=5)
    before = time.time()
    dispatch(executor, ToolCall.of("add", {"a": 1}, id="c"))
    dispatch(executor, ToolCall.of("add", {"a": 1}, id="c"), CallContext(deadline=before + 1))
    first, second = (context.deadline for _, _, context in source.calls)
    assert first is not None
    assert before + 5 <= first <= time.time() + 5
    assert second == before + 1


def test_an_image_that_a_tool_returns_is_in_the_result() -> None:
    shot = Media("image", "image/png", data=b"pixels", name="shot.png")
    executor, _ = executor_and_source(Answered(["the page", shot]))
    result = dispatch(executor, ToolCall.of("add", {"a": 1}, "c1"))
    assert (result.content, result.media) == ("the page", (shot,))


def test_an_outcome_with_an_image_is_stored_and_restored() -> None:
    outcome = Answered("the page", media=(Media("image", "image/png", data=b"pixels"),))
    assert outcome_from_dict(outcome_as_dict(outcome)) == outcome
