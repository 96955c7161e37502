"""A gateway for the console's tests: a real model, MCP servers, a worker on NATS, and two keys."""

from __future__ import annotations

import json
import secrets
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferrule.cli.keys import hash_of, new_key
from ferrule.sources.mcp.config import StdioTransport
from lab.bus_server import nats_server
from lab.gateway_process import SMOL, gateway_process
from live.bus_parts import worker_process
from live.mcp_world import everything

_MAIL = Path(__file__).with_name("mail_server.py")
_LAMPS = """
from pathlib import Path
from typing import Literal

from ferrule import tool


@tool(side_effects=True, bound_to=("home.switch", "1.0"))
def switch(lamp: Literal["hall", "attic"], on: bool) -> str:
    \"\"\"Switches a lamp.\"\"\"
    with Path("switched.txt").open("a") as file:
        file.write(f"{lamp} {on}\\n")
    return f"{lamp} is {'on' if on else 'off'}"
"""
_NOTES = """
from pathlib import Path

from ferrule import tool


@tool(side_effects=True)
def note(text: str, copies: int = 1) -> str:
    \"\"\"Writes a note down.\"\"\"
    with Path("noted.txt").open("a") as file:
        file.write(text * copies + "\\n")
    return "noted"


TOOLS = [note]
"""
_CONFIG = """
[server]
ledger = "{ledger}"
drain_seconds = 1

[engines.smol]
use = "{engine}"

# A small model writes until it reaches the limit.
[limits]
max_tokens = 64

[tools]
tools_max_iterations = {rounds}

[sources]
functions = ["own_tools.py:TOOLS"]
mcp_config = "mcp.json"
mcp_pins = "pins.json"
nats = "{nats}"
nats_key_file = "bus.key"

[[keys]]
name = "ann"
sha256 = "{ann}"
tools = ["*"]
approve = true
admin = true

[[keys]]
name = "bob"
sha256 = "{bob}"
tools = ["*"]
approve = true
{more}
"""


@dataclass(frozen=True, slots=True)
class ConsoleGateway:
    """A running gateway, and the folder in which its tools write files. `ann` is an admin, `bob` is not."""

    url: str
    folder: Path
    ann: str
    bob: str
    log: Path

    def request(self, path: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
        headers = {"authorization": f"Bearer {key or self.ann}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=60) as response:
            return json.load(response)

    def call_tool(self, name: str, call_id: str, /, **arguments: Any) -> Any:
        """Call a tool like a program does: while the same call runs, because it was just approved, ask again.

        While it waits for approval, repeat the call to get its outcome.
        """
        body = {"name": name, "arguments": arguments, "call_id": call_id}
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.request("/v1/tools/call", body)
            except urllib.error.HTTPError as refused:
                with refused:
                    error = json.load(refused)["error"]
                assert error["code"] == "call_running", error
                assert time.monotonic() < deadline, error
            time.sleep(0.1)

    def lines(self, file: str) -> list[str]:
        """Return the lines that a tool has written: one per run."""
        path = self.folder / file
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def wait_for(self, path: str, condition: Any, seconds: float = 60) -> Any:
        deadline = time.monotonic() + seconds
        while not condition(response := self.request(path)):
            assert time.monotonic() < deadline, response
            time.sleep(0.1)
        return response


def _servers() -> dict[str, Any]:
    transport = everything().transport
    assert isinstance(transport, StdioTransport)
    return {
        "every": {"command": transport.command, "args": list(transport.args)},
        "mail": {"command": sys.executable, "args": [str(_MAIL)], "trusted": True},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewaySetup:
    """What to start a gateway with. `more` is appended to its configuration; `expected` are the tools to wait for."""

    engine: str = SMOL
    ledger: str = "ledger.db"
    functions: str = _NOTES
    servers: dict[str, Any] = field(default_factory=_servers)
    expected: frozenset[str] = frozenset({"switch", "note", "every_get-structured-content", "mail_turn"})
    rounds: int = 1
    more: str = ""


@contextmanager
def start_gateway(folder: Path, setup: GatewaySetup | None = None) -> Generator[ConsoleGateway]:
    """Run a gateway with its NATS server and worker, and wait for its tools."""
    setup = setup or GatewaySetup()
    ann, bob = new_key(), new_key()
    (folder / "lamps.py").write_text(_LAMPS)
    (folder / "own_tools.py").write_text(setup.functions)
    (folder / "bus.key").write_text(secrets.token_hex(32))
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": setup.servers}))
    with ExitStack() as stack:
        nats = stack.enter_context(nats_server()).url
        values = {"engine": setup.engine, "ledger": setup.ledger, "rounds": setup.rounds, "more": setup.more}
        (folder / "ferrule.toml").write_text(_CONFIG.format(**values, nats=nats, ann=hash_of(ann), bob=hash_of(bob)))
        stack.enter_context(worker_process("lamps.py", "--nats", nats, "--key-file", "bus.key", cwd=folder))
        process = stack.enter_context(gateway_process(engine=None, prefix=["env", "-C", str(folder)]))
        gateway = ConsoleGateway(process.url, folder, ann, bob, process.log)
        gateway.wait_for("/v1/tools", lambda tools: setup.expected <= {tool["name"] for tool in tools["data"]})
        yield gateway
