"""Tool lists of MCP servers: every list can be read, and an invalid tool affects only itself."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mcp.types import ListToolsResult

from ferrule.core.json_text import canonical
from ferrule.sources.mcp.tool_list import tool_of, valid_tools
from schema.json_values import json_values

fields = st.sampled_from(["name", "description", "inputSchema", "outputSchema", "annotations", "execution", "title"])
schemas = st.just({"type": "object"}) | st.just({}) | st.just({"type": None, "properties": {"a": {"type": "string"}}})
tools = st.dictionaries(fields, json_values | schemas | st.text(max_size=5), max_size=7) | json_values


@given(st.lists(tools, max_size=5), st.booleans())
def test_the_sdk_accepts_the_valid_tools_of_any_list_and_the_others_are_reported(
    raw: list[object], is_modern: bool
) -> None:
    saved, faults = valid_tools(raw, is_modern=is_modern)
    assert len(saved) + len(faults) == len(raw)
    read = ListToolsResult.model_validate({"tools": saved}, by_name=False)
    for tool, one in zip(saved, read.tools, strict=True):
        again = tool_of(one.model_dump(mode="json", by_alias=True, exclude_none=True))
        assert again.name == tool["name"]
        assert canonical(dict(again.parameters)) == canonical(tool["inputSchema"])


def test_a_tool_with_a_number_that_is_no_json_costs_only_itself() -> None:
    odd = {"name": "odd", "inputSchema": {"maximum": float("nan")}}
    saved, faults = valid_tools([odd, {"name": "fine", "inputSchema": {}}], is_modern=True)
    assert [tool["name"] for tool in saved] == ["fine"]
    assert "not JSON" in faults[0]


def test_hints_count_only_as_booleans() -> None:
    hints = {"readOnlyHint": "yes", "destructiveHint": False, "made_up": True}
    (tool,), _ = valid_tools([{"name": "t", "inputSchema": {}, "annotations": hints}], is_modern=True)
    assert tool_of(tool).hints == {"destructiveHint": False}
    assert not tool_of(tool).claims_read_only


def test_an_output_schema_of_no_object_is_kept_only_in_the_era_that_has_it() -> None:
    raw = [{"name": "t", "inputSchema": {}, "outputSchema": {"type": "array"}}]
    assert tool_of(valid_tools(raw, is_modern=True)[0][0]).output == {"type": "array"}
    assert tool_of(valid_tools(raw, is_modern=False)[0][0]).output is None
