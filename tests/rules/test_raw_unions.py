"""Values of several possible types, in formats that write them raw, have a length limit like any other text."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule import ToolChoice, ToolDefinition
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher
from ferrule.schema.bounds import apply_bounds, bounds_for
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"description": "The data."},
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        {"type": ["string", "integer"]},
        {
            "anyOf": [
                {"type": "string"},
                {
                    "type": "object",
                    "properties": {"a_long_name": {"type": "integer"}, "the_last_name": {"type": "string"}},
                },
            ]
        },
    ],
)
def test_a_union_that_is_written_raw_ends_inside_the_budget(schema: dict[str, Any]) -> None:
    tool = ToolDefinition("train", "", {"type": "object", "properties": {"data": schema}, "required": ["data"]})
    bounds = bounds_for([tool], 512, 1)
    bounded_tool = ToolDefinition("train", "", apply_bounds(tool.parameters, bounds))
    matcher = ByteMatcher(emit_lark(bind(get_format("qwen_xml"), [bounded_tool], ToolChoice.required())))

    def accepts(value: str) -> bool:
        return matcher.accepts(
            f"<tool_call>\n<function=train>\n<parameter=data>\n{value}\n</parameter>\n</function>\n</tool_call>"
        )

    assert accepts("some data")
    assert accepts('{"a_long_name": 12345, "another_long_name": [1, 2, 3], "the_last_name": "x"}')
    assert accepts('["a", "b"]')
    assert not accepts("and so on, " * 60)
