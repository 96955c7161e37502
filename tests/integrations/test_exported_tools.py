"""Exported tools: Ferrule validates and governs every call, whatever the framework checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule import CallContext, Decision, ToolCall, ToolDefinition, tool
from ferrule.core.outcome import Answered, Outcome
from ferrule.engines.sync import run
from ferrule.errors import UnsupportedError
from ferrule.integrations.exported_tools import wrap_tools, wrap_tools_async
from ferrule.run.executor import ToolExecutor
from ferrule.sources.source import Source


@tool
def add(a: int, b: int = 1) -> int:
    """Adds."""
    return a + b


@tool(side_effects=True)
def post(text: str) -> str:
    """Posts."""
    return f"posted {text}"


class Bound(Source):
    """A source that works only in the loop that opened it, like a connection."""

    id = "bound"

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (ToolDefinition("where"),)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return Answered(asyncio.get_running_loop() is self.loop)


def test_a_call_that_fits_is_run() -> None:
    (exported,) = wrap_tools([add])
    assert exported.call_sync({"a": 2}).content == 3
    assert asyncio.run(exported.call('{"a": 2, "b": 5}')).content == 7


@pytest.mark.parametrize("arguments", [{}, {"a": "two"}, {"a": 1, "c": 2}, "{", "[1]"])
def test_a_call_with_invalid_arguments_is_rejected_and_not_run(arguments: Any) -> None:
    (exported,) = wrap_tools([add])
    result = exported.call_sync(arguments)
    assert result.is_error
    assert str(result.content).startswith("invalid_arguments")


def test_a_tool_with_side_effects_needs_approval() -> None:
    (exported,) = wrap_tools([post])
    refused = exported.call_sync({"text": "x"}, "c1")
    assert refused.is_error
    assert str(refused.content).startswith("denied")
    assert refused.tool_call_id == "c1"
    assert exported.call_sync({"text": "x"}, is_approved=True).content == "posted x"


def test_a_decision_may_change_the_arguments_and_they_are_validated_again() -> None:
    async def shorter(call: ToolCall) -> Decision | None:
        return Decision(True, arguments='{"text": "short"}')

    async def wrong(call: ToolCall) -> Decision | None:
        return Decision(True, arguments='{"text": 1}')

    assert wrap_tools([post], shorter)[0].call_sync({"text": "long"}).content == "posted short"
    assert wrap_tools([post], wrong)[0].call_sync({"text": "long"}).is_error


def test_a_pending_decision_is_not_an_approval() -> None:
    async def pending(call: ToolCall) -> Decision | None:
        return None

    assert wrap_tools([post], pending)[0].call_sync({"text": "x"}).is_error


def test_a_source_is_called_in_the_loop_that_exported_it() -> None:
    source = Bound()
    run(source.open())
    (exported,) = wrap_tools(source)
    assert exported.call_sync({}).content is True
    assert asyncio.run(exported.call({})).content is True


def test_a_synchronous_call_that_would_wait_for_itself_is_refused() -> None:
    async def within() -> None:
        source = Bound()
        await source.open()
        (exported,) = await wrap_tools_async(ToolExecutor(source))
        assert (await exported.call({})).content is True
        with pytest.raises(UnsupportedError, match="deadlock"):
            exported.call_sync({})

    asyncio.run(within())


def test_no_approval_is_requested_for_a_call_with_invalid_arguments() -> None:
    requests: list[ToolCall] = []

    async def record(call: ToolCall) -> Decision | None:
        requests.append(call)
        return Decision(True)

    (exported,) = wrap_tools([post], record)
    for wrong in ({"words": "x"}, {"text": float("nan")}, {"text": object()}):
        assert exported.call_sync(wrong).text.startswith("invalid_arguments")
    assert not requests
