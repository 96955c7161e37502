"""The specification's settings configure the executor."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule import DefinitionError, ToolDefinition
from ferrule.run.executor import ToolSettings
from ferrule.sources.fake import FakeSource

TOOLS = tuple(ToolDefinition.build(name).done() for name in ("one", "two"))


def offered_names(**settings: Any) -> list[str]:
    executor = ToolSettings(**settings).executor(FakeSource(TOOLS))
    return [tool.name for tool in asyncio.run(executor.refresh())]


def test_each_setting_is_the_executors() -> None:
    settings = ToolSettings.read(
        {
            "TOOLS_MAX_ITERATIONS": "3",
            "tools_per_tool_timeout_seconds": 1.5,
            "tools_max_parallel": 2,
            "tools_require_confirmation_for_side_effects": "no",
            "PATH": "left alone",
        }
    )
    executor = settings.executor(FakeSource(TOOLS))
    policy = executor.policy
    assert (policy.rounds, policy.tool_seconds, policy.max_concurrent, policy.confirms_side_effects) == (
        3,
        1.5,
        2,
        False,
    )


def test_tools_are_all_offered_or_a_set_of_them_or_none() -> None:
    assert offered_names() == ["one", "two"]
    assert offered_names(tools_default_set=("two",)) == ["two"]
    assert offered_names(tools_enabled=False) == []


@pytest.mark.parametrize(
    "values",
    [
        {"tools_enabled": "perhaps"},
        {"tools_max_parallel": "many"},
        {"tools_max_iterations": 0},
        {"tools_default_set": 3},
    ],
)
def test_a_setting_that_cannot_be_says_what_it_should_be(values: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError) as refused:
        ToolSettings.read(values)
    assert refused.value.hint
