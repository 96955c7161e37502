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
    assert ran.code == 0
    headings, good, bad = (line.split("\t") for line in ran.out.splitlines())
    assert headings == ["server", "state", "protocol", "tools", "trust", "notices"]
    assert good[:5] == ["good", "ready", "2025-06-18", "2", "trusted"]
    assert good[5].startswith("'b c' is offered as good_b-c-")
    assert bad[:5] == ["bad", "failed", "", "0", "not trusted"]
    assert "No such file" in bad[5]
    assert ran.err == "odd: unknown type 'pigeon'; write stdio or http\n"


def test_a_terminal_gets_the_same_drawn(config: Path) -> None:
    ran = run("mcp", "list", "--wait", "60", "--config", str(config), on_terminal=True)
    assert ran.code == 0
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
