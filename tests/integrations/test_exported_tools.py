"""Our tools in a framework's hands: governed by us, whatever the framework checks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule import CallContext, Decision, ToolCall, ToolDefinition, tool
from ferrule.core.outcome import Answered, Outcome
from ferrule.engines.sync import run
from ferrule.errors import UnsupportedError
from ferrule.integrations.exported_tools import lend, lend_now
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
    """Works only in the loop that it was opened in, as connections do."""

    id = "bound"

    async def open(self) -> None:
        self.loop = asyncio.get_running_loop()

    async def tools(self) -> tuple[ToolDefinition, ...]:
        return (ToolDefinition("where"),)

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return Answered(asyncio.get_running_loop() is self.loop)


def test_a_call_that_fits_is_run() -> None:
    (lent,) = lend_now([add])
    assert lent.call_now({"a": 2}).content == 3
    assert asyncio.run(lent.call('{"a": 2, "b": 5}')).content == 7


@pytest.mark.parametrize("arguments", [{}, {"a": "two"}, {"a": 1, "c": 2}, "{", "[1]"])
def test_a_call_that_does_not_fit_is_told_so_and_not_run(arguments: Any) -> None:
    (lent,) = lend_now([add])
    result = lent.call_now(arguments)
    assert result.is_error
    assert str(result.content).startswith("invalid_arguments")


def test_what_changes_the_world_needs_leave() -> None:
    (lent,) = lend_now([post])
    refused = lent.call_now({"text": "x"}, "c1")
    assert refused.is_error
    assert str(refused.content).startswith("denied")
    assert refused.tool_call_id == "c1"
    assert lent.call_now({"text": "x"}, has_leave=True).content == "posted x"


def test_whoever_decides_may_change_the_arguments_and_they_are_checked_again() -> None:
    async def shorter(call: ToolCall) -> Decision | None:
        return Decision(True, arguments='{"text": "short"}')

    async def wrong(call: ToolCall) -> Decision | None:
        return Decision(True, arguments='{"text": 1}')

    assert lend_now([post], shorter)[0].call_now({"text": "long"}).content == "posted short"
    assert lend_now([post], wrong)[0].call_now({"text": "long"}).is_error


def test_a_decision_that_nobody_has_made_is_no_leave() -> None:
    async def waiting(call: ToolCall) -> Decision | None:
        return None

    assert lend_now([post], waiting)[0].call_now({"text": "x"}).is_error


def test_a_source_is_called_in_the_loop_that_lent_it() -> None:
    source = Bound()
    run(source.open())
    (lent,) = lend_now(source)
    assert lent.call_now({}).content is True
    assert asyncio.run(lent.call({})).content is True


def test_a_synchronous_call_that_would_wait_for_itself_is_refused() -> None:
    async def within() -> None:
        source = Bound()
        await source.open()
        (lent,) = await lend(ToolExecutor(source))
        assert (await lent.call({})).content is True
        with pytest.raises(UnsupportedError, match="wait for itself"):
            lent.call_now({})

    asyncio.run(within())


def test_nobody_is_asked_for_leave_for_a_call_that_does_not_fit() -> None:
    asked: list[ToolCall] = []

    async def noting(call: ToolCall) -> Decision | None:
        asked.append(call)
        return Decision(True)

    (lent,) = lend_now([post], noting)
    for wrong in ({"words": "x"}, {"text": float("nan")}, {"text": object()}):
        assert lent.call_now(wrong).text.startswith("invalid_arguments")
    assert not asked
