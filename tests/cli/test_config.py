"""`ferrule config`: shows what would be served, without secrets; errors exit with 1, warnings go to stderr."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule.cli.config import abouts, settings_page
from ferrule.server.config.tables import TABLES
from sources.mcp_servers import PLAIN, tool

CANARY = "s3cret-canary"
FILE = f"""
[server]
ledger = "postgresql://me:{CANARY}@db/ferrule"
drain_seconds = 5

[limits]
streams = 7

[engines.here]
use = "fake:hello"

[engines.far]
use = "openai:gpt-x"
url = "http://gpu.example/v1"
key = "${{FAR_KEY}}"

[models.smol]
engines = ["here", "far"]

[sources]
functions = ["gateway_tools.py:TOOLS"]
mcp_config = "mcp.json"
mcp_pins = "pins.json"
nats = "nats://me:{CANARY}@127.0.0.1:1"

[[keys]]
name = "alice"
sha256 = "{"ab" * 32}"
tools = ["*"]
approve = true
operator = true
rate = 60
"""
TOOLS = """
from ferrule import tool


@tool(side_effects=True)
def order(item: str) -> str:
    return item


TOOLS = [order]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FAR_KEY", CANARY)
    pages = json.dumps([[tool("a")]])
    servers = {
        "good": {"command": sys.executable, "args": [str(PLAIN), pages], "env": {"K": CANARY}},
        "web": {"url": "http://mcp.example/mcp", "headers": {"authorization": CANARY}, "disabled": False},
    }
    (tmp_path / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (tmp_path / "gateway_tools.py").write_text(TOOLS)
    (tmp_path / "ferrule.toml").write_text(FILE)
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_what_would_be_served_is_a_table_without_secrets() -> None:
    ran = run("config", "check")
    assert ran.code == 0, ran.err
    rows = [line.split("\t") for line in ran.out.splitlines()[:-1]]
    assert ran.out.splitlines()[-1] == "ok"
    assert {len(row) for row in rows} == {4}
    assert ["engine", "far", "openai:gpt-x?url=http://gpu.example/v1&key=***", "ferrule.toml line 13"] in rows
    assert ["model", "smol", "the first healthy one of here, far", "ferrule.toml line 17"] in rows
    assert ["source", "gateway_tools.py:TOOLS", "order (side effects)", "ferrule.toml line 21"] in rows
    assert ["limit", "streams", "7", "ferrule.toml line 7"] in rows
    assert ["server", "drain_seconds", "5.0", "ferrule.toml line 4"] in rows
    assert ["limit", "body_bytes", "10000000", "default"] in rows
    assert [
        "key",
        "alice",
        "tenant local; models *; tools *; approve; operator; 60 requests per minute",
        "ferrule.toml line 26",
    ] in rows
    assert CANARY not in ran.out + ran.err
    assert "ab" * 32 not in ran.out


@pytest.mark.usefixtures("folder")
def test_warnings_are_printed_beside_the_table() -> None:
    ran = run("config", "check", "ferrule.toml")
    assert "warning: the engine far is reached over plain http: http://gpu.example/v1\n" in ran.err
    assert "warning: the MCP server web is reached over unencrypted http\n" in ran.err


@pytest.mark.usefixtures("folder")
def test_a_terminal_gets_the_same_drawn() -> None:
    ran = run("config", "check", on_terminal=True)
    assert ran.code == 0
    assert "\t" not in ran.out
    assert "alice" in ran.out
    assert CANARY not in ran.out


def test_what_cannot_be_served_exits_with_1_and_names_the_line(folder: Path) -> None:
    (folder / "ferrule.toml").write_text("[engines.e]\nuse = 'llama:none.gguf'\n[server]\nledger = 'gone/l.db'\n")
    ran = run("config", "check")
    assert ran.code == 1
    assert "engine e: file not found: none.gguf" in ran.err
    assert "ledger: directory not found: gone" in ran.err
    (folder / "ferrule.toml").write_text("[engines.e]\nuse = 'fake:x'\n[server]\nprt = 1\n")
    ran = run("config", "check")
    assert (ran.code, ran.raw) == (1, b"")
    assert "ferrule.toml line 4: server.prt is not known. Did you mean port?" in ran.err


def test_online_each_engine_and_server_is_reached(folder: Path) -> None:
    servers = json.loads((folder / "mcp.json").read_text())
    del servers["mcpServers"]["web"]
    (folder / "mcp.json").write_text(json.dumps(servers))
    text = "[engines.here]\nuse = 'fake:hello'\n[sources]\nmcp_config = 'mcp.json'\n"
    (folder / "ferrule.toml").write_text(text)
    ran = run("config", "check", "--online")
    assert ran.code == 0, ran.err
    requests = [line.split("\t")[:3] for line in ran.out.splitlines() if line.endswith("\tprobe")]
    assert requests == [["engine", "here", "answers (fake)"], ["source", "MCP good", "ready, 1 tools"]]


def test_online_an_engine_or_server_without_an_answer_is_reported_and_exits_with_1(folder: Path) -> None:
    text = (
        "[engines.gone]\nuse = 'openai:m?url=http://127.0.0.1:9/v1&tries=1'\n[sources]\nnats = 'nats://127.0.0.1:9'\n"
    )
    (folder / "ferrule.toml").write_text(text)
    ran = run("config", "check", "--online")
    assert ran.code == 1
    assert "engine\tgone\tdoes not answer\tprobe" in ran.out
    assert "engine gone: " in ran.err
    assert "NATS: " in ran.err


# Nothing listens there: a server that is contacted fails.
LINEAR = {"mcpServers": {"linear": {"url": "http://127.0.0.1:9/mcp", "oauth": {"account": "principal"}}}}


def test_online_a_server_with_an_account_for_each_caller_is_not_contacted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", "0123456789abcdef" * 4)
    (folder / "mcp.json").write_text(json.dumps(LINEAR))
    (folder / "ferrule.toml").write_text(
        "[engines.here]\nuse = 'fake:hello'\n[server]\nledger = 'l.db'\n"
        "[sources]\nmcp_config = 'mcp.json'\nmcp_credentials = 'ledger'\n"
    )
    ran = run("config", "check", "--online")
    assert ran.code == 0, ran.err
    assert "source\tMCP linear\tneeds_login\tprobe\n" in ran.out
    hint = "ferrule mcp login linear --tenant TENANT --principal NAME --config mcp.json --ledger LEDGER"
    assert f"warning: the MCP server linear needs a login: sign in with: {hint}\n" in ran.err
    # The ledger is the gateway's to create.
    assert not (folder / "l.db").exists()


def test_accounts_of_callers_need_a_ledger_as_when_it_is_served(folder: Path) -> None:
    (folder / "mcp.json").write_text(json.dumps(LINEAR))
    (folder / "ferrule.toml").write_text("[engines.here]\nuse = 'fake:hello'\n[sources]\nmcp_config = 'mcp.json'\n")
    ran = run("config", "check", "--online")
    assert ran.code == 1
    assert "the MCP server linear: its callers have accounts of their own, which a ledger keeps" in ran.err


def test_every_setting_has_a_sentence_on_the_page() -> None:
    page = settings_page()
    assert run("config", "settings").out == page
    for table in TABLES.values():
        for setting in table.settings.values():
            assert abouts(setting.owner)[setting.name].endswith("."), (
                f"say what {table.name}.{setting.name} is, under it"
            )
            assert f"| `{setting.name}` | " in page
