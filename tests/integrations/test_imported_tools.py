"""Imported tools: arguments are validated before they run, and failures are reported."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import pytest

from ferrule import CallContext, DefinitionError, ToolCall, ToolDefinition, ToolError, ToolResult
from ferrule.core.outcome import TOOL_BUSY, Answered
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.run.executor import ToolExecutor
from ferrule.sources.status import ToolLoad
from ferrule.sources.tool_threads import THREADS

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


async def double(arguments: Mapping[str, Any], context: CallContext) -> Any:
    if arguments["n"] == 13:
        raise ToolError("thirteen is not doubled here")
    if arguments["n"] == 0:
        raise KeyError("secret")
    return {"doubled": arguments["n"] * 2}


def result_of(name: str, arguments: str) -> ToolResult:
    async def run() -> ToolResult:
        executor = ToolExecutor(
            ImportedTools([ImportedTool(ToolDefinition("double", "Doubles.", SCHEMA), double)], id="theirs")
        )
        await executor.refresh()
        return await executor.dispatch(ToolCall.of(name, arguments, id="c1"))

    return asyncio.run(run())


def test_a_tool_runs_with_arguments_that_fit() -> None:
    assert result_of("double", '{"n": 4}').content == {"doubled": 8}


def test_arguments_that_do_not_fit_never_reach_it() -> None:
    assert str(result_of("double", '{"n": "4"}').content).startswith("invalid_arguments")


def test_the_message_of_a_tool_error_reaches_the_model_and_others_do_not() -> None:
    assert result_of("double", '{"n": 13}').content == "thirteen is not doubled here"
    assert result_of("double", '{"n": 0}').content == "the tool failed (KeyError)"


def test_a_tool_that_it_does_not_have_was_not_delivered() -> None:
    source = ImportedTools([], id="theirs")
    outcome = asyncio.run(source.call("double", {}, CallContext()))
    assert "no tool" in str(outcome)


def test_side_effects_are_declared_by_name_if_the_framework_does_not_say() -> None:
    tool = ImportedTool(ToolDefinition("double", "Doubles.", SCHEMA), double)
    (definition,) = asyncio.run(ImportedTools([tool], id="theirs", side_effects=["double"]).tools())
    assert definition.side_effects
    with pytest.raises(DefinitionError, match="duoble"):
        ImportedTools([tool], id="theirs", side_effects=["duoble"])


def test_a_plain_function_runs_in_a_thread_of_the_source_with_the_callers_context() -> None:
    trace: ContextVar[str] = ContextVar("trace", default="")

    def name_thread(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return [threading.current_thread().name, trace.get()]

    async def run() -> Any:
        trace.set("abc")
        source = ImportedTools([ImportedTool(ToolDefinition("who"), run_in_thread=name_thread)], id="theirs")
        outcome = await source.call("who", {}, CallContext())
        await source.close()
        return outcome

    assert asyncio.run(run()) == Answered(["theirs-tool", "abc"])


def test_hung_functions_use_up_neither_the_event_loops_threads_nor_another_tools() -> None:
    never, hung = threading.Event(), 40

    def hang(arguments: Mapping[str, Any], context: CallContext) -> Any:
        never.wait()

    def add(arguments: Mapping[str, Any], context: CallContext) -> Any:
        return 3

    tools = [ImportedTool(ToolDefinition(name), run_in_thread=run) for name, run in (("hang", hang), ("add", add))]

    async def run() -> tuple[list[Any], Any, int, tuple[ToolLoad, ...]]:
        source = ImportedTools(tools, id="theirs")
        calls = [asyncio.create_task(source.call("hang", {}, CallContext())) for _ in range(hung)]
        refused, waiting = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
        while len(refused) < hung - THREADS:
            more, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            refused |= more
        added = await source.call("add", {}, CallContext())
        in_loop = await asyncio.to_thread(lambda: 4)
        loads = source.loads
        never.set()
        await asyncio.gather(*waiting)
        await source.close()
        return [task.result() for task in refused], added, in_loop, loads

    refused, added, in_loop, loads = asyncio.run(run())
    assert {outcome.code for outcome in refused} == {TOOL_BUSY}
    assert (added, in_loop) == (Answered(3), 4)
    assert [(load.tool, load.running) for load in loads] == [("hang", THREADS)]


def test_a_tool_without_a_function_or_with_two_is_refused() -> None:
    with pytest.raises(DefinitionError, match="one of run and run_in_thread"):
        ImportedTool(ToolDefinition("double"))
    with pytest.raises(DefinitionError, match="one of run and run_in_thread"):
        ImportedTool(ToolDefinition("double"), double, lambda arguments, context: None)
