"""Imported tools: arguments are validated before they run, and failures are reported."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule import CallContext, DefinitionError, ToolCall, ToolDefinition, ToolError, ToolResult
from ferrule.integrations.imported_tools import ImportedTool, ImportedTools
from ferrule.run.executor import ToolExecutor

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
