import json
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule.cli.grammars import TARGETS


@pytest.fixture
def hard_tools(tmp_path: Path) -> str:
    properties = {
        "tags": {"type": "array", "items": {"type": "string", "pattern": "^a"}, "uniqueItems": True},
        "when": {"type": "string", "format": "date"},
    }
    tools = [
        {"name": "easy", "parameters": {"type": "object", "properties": {"n": {"type": "integer"}}}},
        {"name": "hard", "parameters": {"type": "object", "properties": properties, "not": {"required": ["z"]}}},
    ]
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(tools), encoding="utf-8")
    return str(path)


def places(tool: dict[str, list[dict[str, str]]]) -> list[str]:
    return [after["path"] for after in tool["checked_after"]]


def test_what_is_only_checked_after_is_listed_with_its_place_and_a_hint(hard_tools: str) -> None:
    easy, hard = run("explain", hard_tools, "--json").json
    assert easy == {"tool": "easy", "enforced": ["type", "properties"], "passed_on": [], "checked_after": []}
    assert set(places(hard)) == {"/properties/tags/uniqueItems", "/not", "/properties/when/format"}
    assert all(after["hint"] and after["how"] for after in hard["checked_after"])
    assert "pattern" in hard["enforced"]
    assert "uniqueItems" not in hard["enforced"]


def test_another_encoding_enforces_less(hard_tools: str) -> None:
    for options in (("-f", "qwen_xml"), ("-f", "pythonic"), ("--target", "gbnf")):
        _, hard = run("explain", hard_tools, "--json", *options).json
        assert "/properties/tags/items/pattern" in places(hard)


def test_a_schema_that_goes_out_as_it_is_is_passed_on_and_nothing_is_claimed(hard_tools: str) -> None:
    for options in ((), ("-f", "qwen_xml")):
        _, hard = run("explain", hard_tools, "--json", "--target", "json_schema", *options).json
        assert {"pattern", "uniqueItems", "not", "format"} <= set(hard["passed_on"])
        assert (hard["enforced"], hard["checked_after"]) == ([], [])
    rows = [line.split("\t") for line in run("explain", hard_tools, "--target", "json_schema").out.splitlines()]
    assert [row[3].partition(":")[0] for row in rows[1:]] == ["passed on", "passed on"]
    assert all("checked after" in row[4] for row in rows[1:])


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_explained(target: str, hard_tools: str) -> None:
    assert run("explain", hard_tools, "--target", target).code == 0


def test_a_pipe_gets_one_line_per_row(hard_tools: str) -> None:
    lines = run("explain", hard_tools).out.splitlines()
    assert lines[0].split("\t") == ["tool", "place", "keyword", "while decoding", "what to change"]
    assert {line.count("\t") for line in lines} == {4}
    assert [line.split("\t")[0] for line in lines[1:]] == ["easy", "hard", "hard", "hard", "hard"]


def test_a_terminal_gets_a_table(hard_tools: str) -> None:
    ran = run("explain", hard_tools, on_terminal=True)
    assert ran.code == 0
    assert "uniqueItems" in ran.out
    assert "\t" not in ran.out
