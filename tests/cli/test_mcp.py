"""`ferrule mcp list`: every server in the file with its state, whatever it does."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.command_line import run
from ferrule.sources.mcp.pins import Pins
from sources.mcp_servers import PLAIN, tool


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "mcp.json"
    pages = json.dumps([[tool("a"), tool("b c")]])
    servers: dict[str, Any] = {
        "good": {"command": sys.executable, "args": [str(PLAIN), pages], "trusted": True},
        "bad": {"command": "no-such-program-anywhere"},
        "odd": {"type": "pigeon"},
    }
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def test_a_pipe_gets_a_table_and_faults_of_the_file_beside_it(config: Path) -> None:
    ran = run("mcp", "list", "--wait", "60", "--config", str(config))
    # A script can tell that a server cannot be used.
    assert ran.code == 5
    headings, good, bad = (line.split("\t") for line in ran.out.splitlines())
    assert headings == ["server", "state", "protocol", "tools", "trust", "notices"]
    assert good[:5] == ["good", "ready", "2025-06-18", "2", "trusted"]
    assert good[5].startswith("'b c' is offered as good_b-c-")
    assert bad[:5] == ["bad", "failed", "", "0", "not trusted"]
    assert "there is no program 'no-such-program-anywhere' in the PATH" in bad[5]
    assert ran.err == "odd: unknown type 'pigeon'; write stdio or http\n"


def test_a_terminal_gets_the_same_drawn(config: Path) -> None:
    ran = run("mcp", "list", "--wait", "60", "--config", str(config), on_terminal=True)
    assert ran.code == 5
    assert "\t" not in ran.out
    assert "good" in ran.out
    assert "pigeon" in ran.out


def test_json_names_the_tools_and_pins_hold_back_what_changed(config: Path, tmp_path: Path) -> None:
    pins = tmp_path / "pins.json"
    pins.write_text(Pins().pin("good", {"a": "another definition"}).to_json(), encoding="utf-8")
    page = run("mcp", "list", "--wait", "60", "--config", str(config), "--pins", str(pins), "--json").json
    good = page["servers"][0]
    assert len(good["tools"]) == 1
    assert any("has changed since it was pinned" in notice for notice in good["notices"])
    assert page["faults"]


def test_a_file_that_is_not_there_exits_with_1(tmp_path: Path) -> None:
    ran = run("mcp", "list", "--config", str(tmp_path / "none.json"))
    assert (ran.code, ran.raw) == (1, b"")
    assert "cannot be read" in ran.err
    other = tmp_path / "mcp.json"
    other.write_text('{"mcpServers": {}}', encoding="utf-8")
    assert run("mcp", "list", "--config", str(other), "--pins", str(tmp_path / "none")).code == 1


def with_tools(folder: Path, *tools: dict[str, Any], trusted: bool = False) -> Path:
    path = folder / "mcp.json"
    entry = {"command": sys.executable, "args": [str(PLAIN), json.dumps([[*tools]])], "trusted": trusted}
    path.write_text(json.dumps({"mcpServers": {"s": entry}}), encoding="utf-8")
    return path


def test_a_changed_definition_is_shown_and_accepted_by_name(tmp_path: Path) -> None:
    pins = str(tmp_path / "pins.json")

    def ferrule(action: str, *words: str) -> Any:
        return run("mcp", action, *words, "--wait", "60", "--config", str(tmp_path / "mcp.json"), "--pins", pins)

    # The server's identity includes its arguments, so the definition is changed in the file of pins.
    with_tools(tmp_path, tool("a", description="Reads \u202e a file."), tool("b"))
    assert ferrule("pin").out == f"pinned in {pins}: s a, s b\n"
    assert (ferrule("diff").code, ferrule("diff").out) == (0, "no definition has changed\n")
    kept = json.loads(Path(pins).read_text(encoding="utf-8"))
    kept["pins"]["s"]["a"] = kept["pins"]["s"]["b"]
    Path(pins).write_text(json.dumps(kept), encoding="utf-8")
    changed = ferrule("diff")
    assert changed.code == 1
    assert "has changed since it was pinned" in changed.out
    # What would be hidden in a terminal is written out.
    assert "Reads \\u202e a file." in changed.out
    assert ferrule("pin", "s", "b").out == f"pinned in {pins}: nothing new\n"
    assert ferrule("diff").code == 1
    assert ferrule("pin", "s", "a").out == f"pinned in {pins}: s a\n"
    assert ferrule("diff").code == 0


def test_an_entry_that_cannot_be_read_is_exit_1_and_a_call_that_answers_an_error_too(tmp_path: Path) -> None:
    config = with_tools(tmp_path, tool("refuse"), tool("echo"))
    called = run("mcp", "call", "s_refuse", '{"code": 5}', "--yes", "--wait", "60", "--config", str(config))
    assert called.code == 1
    document = json.loads(config.read_text(encoding="utf-8"))
    document["mcpServers"]["odd"] = {"type": "pigeon"}
    config.write_text(json.dumps(document), encoding="utf-8")
    assert run("mcp", "list", "--wait", "60", "--config", str(config)).code == 1


def test_nothing_is_pinned_for_a_server_that_does_not_answer(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"gone": {"command": "no-such-program"}}}', encoding="utf-8")
    pins = tmp_path / "pins.json"
    assert run("mcp", "pin", "--wait", "60", "--config", str(path), "--pins", str(pins)).code == 5
    assert not pins.exists()
    assert run("mcp", "diff", "--wait", "60", "--config", str(path), "--pins", str(pins)).code == 5
    called = run("mcp", "call", "gone_read", "--wait", "60", "--config", str(path))
    # The name may be right: its server is the one that cannot be used.
    assert (called.code, "gone: failed" in called.err) == (5, True)


def test_a_tool_is_called_by_hand_only_with_arguments_that_fit_and_after_a_yes(tmp_path: Path) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    config = with_tools(tmp_path, {"name": "echo", "inputSchema": schema})

    def call(*words: str) -> Any:
        return run("mcp", "call", *words, "--wait", "60", "--config", str(config))

    assert "there is no tool" in call("s_other").err
    assert "do not fit" in call("s_echo", '{"n": "x"}', "--yes").err
    refused = call("s_echo", '{"n": 1}')
    assert (refused.code, "may have side effects" in refused.err) == (1, True)
    assert call("s_echo", '{"n": 1}', "--yes").code == 0
