"""Reloading the MCP servers of a `ferrule serve` process, with servers made with the official SDK."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from server.gateway_process import ANN, GatewayProcess, gateway_with_config
from server.keys import key
from waiting import eventually

pytestmark = pytest.mark.live
SERVER = Path(__file__).with_name("mcp_server.py")
TOOLS = '''
from ferrule import tool

@tool
def {name}() -> str:
    """Says hello."""
    return "hello"
'''


def tools(gateway: GatewayProcess) -> set[str]:
    return {one["name"] for one in gateway.request("GET", "/v1/tools")[1]["data"]}


def children(gateway: GatewayProcess) -> set[str]:
    """The processes of stdio servers."""
    found: set[str] = set()
    for task in Path(f"/proc/{gateway.process.pid}/task").iterdir():
        found |= set((task / "children").read_text().split())
    return {pid for pid in found if str(SERVER) in Path(f"/proc/{pid}/cmdline").read_text()}


def test_servers_come_and_go_with_the_file_and_those_that_stay_keep_their_process(tmp_path: Path) -> None:
    file, functions = tmp_path / "mcp.json", tmp_path / "my_tools.py"
    server = {"command": sys.executable, "args": [str(SERVER), "stdio"]}
    file.write_text(json.dumps({"mcpServers": {"one": server}}))
    functions.write_text(TOOLS.format(name="first"))
    config = (
        f'[engines.e0]\nuse = "fake:Hello."\n[server]\nport = 0\ndrain_seconds = 1\nledger = "{tmp_path / "l.db"}"\n'
        f'[sources]\nfunctions = ["{functions}"]\nmcp_config = "{file}"\n'
        f'[keys.{ANN}]\nsha256 = "{key(ANN).sha256}"\ntools = ["*"]\nadmin = true'
    )
    with gateway_with_config(tmp_path, config) as gateway:
        eventually(lambda: {"first", "one_add"} <= tools(gateway))
        (kept,) = children(gateway)

        file.write_text(json.dumps({"mcpServers": {"one": server}, "bad": {}}))
        functions.write_text(TOOLS.format(name="second"))
        os.kill(gateway.process.pid, signal.SIGHUP)
        eventually(lambda: {"second", "one_add"} <= tools(gateway) and "first" not in tools(gateway))
        assert children(gateway) == {kept}
        code, result = gateway.call("one_add", a=2, b=3)
        assert code in (200, 202), result

        # Another server beside it: the file is another one, so both are connected anew, and nothing is missing.
        file.write_text(json.dumps({"mcpServers": {"one": server, "two": server}}))
        assert gateway.request("POST", "/v1/reload")[0] == 200
        eventually(lambda: {"second", "one_add", "two_add"} <= tools(gateway))
        eventually(lambda: len(children(gateway)) == 2 and kept not in children(gateway))

        file.write_text("{")
        code, body = gateway.request("POST", "/v1/reload")
        assert (code, "mcp.json" in body["error"]["message"]) == (400, True), body
        assert {"second", "one_add", "two_add"} <= tools(gateway)

        file.write_text(json.dumps({"mcpServers": {}}))
        assert gateway.request("POST", "/v1/reload")[0] == 200
        assert tools(gateway) == {"second"}
        eventually(lambda: not children(gateway))
