import json
from argparse import ArgumentTypeError
from pathlib import Path

import pytest

from cli.command_line import TOOLS, run
from ferrule.cli.tools_file import read_tools, tools_of
from ferrule.errors import DefinitionError, SchemaError

FUNCTION = TOOLS[0]["function"]


@pytest.mark.parametrize("shape", [TOOLS, [FUNCTION], {"tools": TOOLS}, [{"type": "function", **FUNCTION}]])
def test_every_spelling_gives_the_same_tools(shape: object, tmp_path: Path) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(shape), encoding="utf-8")
    (tool,) = read_tools(str(path))
    assert tool.as_function() == TOOLS[0]


def test_a_tool_without_parameters_takes_none() -> None:
    (tool,) = tools_of([{"name": "ping"}])
    assert (tool.description, dict(tool.properties)) == ("", {})


def test_every_schema_is_validated() -> None:
    with pytest.raises(SchemaError, match="f: ") as refusal:
        tools_of([{"name": "f", "parameters": {"$ref": "https://example.org/schema.json"}}])
    assert refusal.value.hint


@pytest.mark.parametrize(
    "value",
    [
        {},
        "tools",
        ["f"],
        [{"description": "no name"}],
        [{"name": "f", "description": 5}],
        [{"type": "web_search"}],
        [{"type": "function", "function": "f"}],
        [{"name": "f"}, {"name": "f"}],
        [{"name": "not a name"}],
    ],
)
def test_what_is_no_list_of_tools_is_refused(value: object) -> None:
    with pytest.raises(DefinitionError) as refusal:
        tools_of(value)
    assert refusal.value.hint


@pytest.mark.parametrize("content", [b"{", b"\xff\xfe", b"[NaN]", b"[" * 100_000])
def test_a_file_that_is_not_json_is_an_error_that_names_it(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    ran = run("parse", "-f", "hermes", "--tools", str(path), stdin="")
    assert ran.code == 1
    assert ran.err.startswith("error: ")
    assert "broken.json" in ran.err


def test_a_file_that_is_not_there_is_wrong_usage(tmp_path: Path) -> None:
    with pytest.raises(ArgumentTypeError, match="cannot read"):
        read_tools(str(tmp_path / "missing.json"))
