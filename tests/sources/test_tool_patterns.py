"""A search of tools by a regular expression, which comes from a model."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_search import INVALID
from ferrule.errors import DefinitionError
from ferrule.sources.search.tool_patterns import find_by_pattern

TOOLS = {
    tool.name: tool
    for tool in (
        ToolDefinition("send_mail", "Sends a letter.", {"properties": {"to": {"description": "A weather station."}}}),
        ToolDefinition("get_weather", "The forecast.", {"properties": {"city": {"type": "string"}}}),
        ToolDefinition("odd", "No schema.", {"properties": {"city": True, "text": {"description": 3}}}),
    )
}


def find(pattern: str, limit: int = 5) -> list[str]:
    return list(asyncio.run(find_by_pattern(pattern, limit, TOOLS)))


def test_names_come_before_descriptions_and_arguments() -> None:
    assert find("(?i)WEATHER") == ["get_weather", "send_mail"]
    assert find("(?i)WEATHER", 1) == ["get_weather"]
    assert find("^city$") == ["get_weather", "odd"]
    assert find("letter|schema") == ["send_mail", "odd"]
    assert find("WEATHER") == []


@pytest.mark.parametrize("pattern", ["(", "[", "(?=a)", r"(a)\1", "a{1000}{1000}", "x" * 201])
def test_a_pattern_that_is_none_or_needs_backtracking_is_refused(pattern: str) -> None:
    with pytest.raises(DefinitionError) as refusal:
        find(pattern)
    assert refusal.value.code == INVALID


def test_a_pattern_made_to_backtrack_costs_no_more_than_another() -> None:
    long = ToolDefinition("long", "a" * 19_000 + "!", {"type": "object"})
    assert list(asyncio.run(find_by_pattern("(a+)+$", 5, {"long": long}))) == []
