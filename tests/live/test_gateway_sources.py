"""`ferrule serve` with tools from everywhere at once: functions, an MCP server, and a bus with a tenant and its key."""

from __future__ import annotations

import json
import secrets
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from ferrule.cli.keys import hash_of, new_key
from lab.bus_server import nats_server
from lab.gateway_process import gateway_process
from live.bus_parts import worker_process
from sources.mcp_servers import PLAIN, tool

pytestmark = pytest.mark.live
ON_BUS = """
from ferrule import CallContext, tool


@tool(bound_to=("kitchen.brew", "1.0"))
def brew(cups: int, context: CallContext) -> str:
    return f"{cups} cups for {context.principal.tenant}"
"""
HERE = """
from ferrule import tool


@tool
def look() -> str:
    return "nothing to see"
"""


def asked(url: str, key: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(url, None if body is None else json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def test_tools_of_every_source_are_offered_and_run_with_the_callers_tenant(tmp_path: Path) -> None:
    (tmp_path / "on_bus.py").write_text(ON_BUS)
    (tmp_path / "here.py").write_text(HERE)
    (tmp_path / "bus.key").write_text(secrets.token_hex(32))
    key = new_key()
    pages = json.dumps([[tool("read")]])
    with nats_server() as server:
        (tmp_path / "ferrule.toml").write_text(
            f"""
[engines.e]
use = "fake:hello"

[sources]
functions = ["here.py:look"]
mcp_command = '{sys.executable}'
mcp_args = ['{PLAIN}', '{pages}']
mcp_pins = "pins.json"
nats = "{server.url}"
nats_tenant = "acme"
nats_key_file = "bus.key"

[[keys]]
name = "ann"
sha256 = "{hash_of(key)}"
tenant = "acme"
tools = ["*"]
"""
        )
        bus = ["on_bus.py", "--nats", server.url, "--tenant", "acme", "--key-file", "bus.key"]
        there = ["env", "-C", str(tmp_path)]
        with worker_process(*bus, cwd=tmp_path), gateway_process(engine=None, prefix=there) as gateway:
            listed = asked(f"{gateway.url}/v1/tools", key)["data"]
            until = time.monotonic() + 60
            # On a busy machine the MCP server joins after the gateway is up.
            while len(listed) < 3 and time.monotonic() < until:
                time.sleep(0.2)
                listed = asked(f"{gateway.url}/v1/tools", key)["data"]
            assert {(one["name"], one["source"]) for one in listed} == {
                ("look", "python"),
                ("mcp_read", "mcp"),
                ("brew", "bus"),
            }
            told = asked(f"{gateway.url}/v1/tools/call", key, {"name": "brew", "arguments": {"cups": 2}})
            assert "2 cups for acme" in json.dumps(told)
    assert "read" in json.loads((tmp_path / "pins.json").read_text())["pins"]["mcp"]
