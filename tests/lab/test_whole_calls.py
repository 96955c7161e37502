"""What the run of whole calls writes: contents of an exact size, and the agents' own tools."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from ferrule.schema.admission_cache import admit_tools
from lab.whole_calls.agent_tools import AGENTS, CLAUDE_CODE, Agent, with_recorded_tools
from lab.whole_calls.contents import KINDS, content


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 100, 10_000])
def test_a_content_has_its_size_in_bytes(kind: str, size: int) -> None:
    text = content(kind, size, "seed", ("<tool_call>", "｜DSML｜"))
    assert len(text.encode()) == size
    assert text == content(kind, size, "seed", ("<tool_call>", "｜DSML｜"))


@pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.name)
def test_a_write_fits_the_agents_own_tool(agent: Agent) -> None:
    (tool,) = [tool for tool in admit_tools(agent.tools) if tool.name == agent.write]
    jsonschema.validate(agent.arguments("text"), tool.parameters)
    assert agent.arguments("text")[agent.content] == "text"


def test_recorded_tools_take_the_place_of_ours(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"file_path": {"type": "string"}, "content": {"type": "string"}}}
    tools = [{"type": "namespace", "tools": [{"name": "Write", "description": "Writes.", "input_schema": schema}]}]
    (tmp_path / "request.json").write_text(json.dumps({"body": {"tools": tools}}), encoding="utf-8")
    (tmp_path / "other.json").write_text(json.dumps({"body": None}), encoding="utf-8")
    (tool,) = with_recorded_tools(CLAUDE_CODE, tmp_path).tools
    assert tool.description == "Writes."
