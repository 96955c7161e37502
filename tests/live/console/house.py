"""A gateway for the console's tests: a real model, MCP servers, a worker on NATS, and two keys."""

from __future__ import annotations

import json
import secrets
import sys
import time
import urllib.request
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferrule.cli.keys import hash_of, new_key
from ferrule.sources.mcp.config import Process
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

# A small model goes on for as long as it may.
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
class House:
    """A gateway that is up, with where its tools leave their marks. `ann` may everything, `bob` is no admin."""

    url: str
    folder: Path
    ann: str
    bob: str
    log: Path

    def asked(self, path: str, body: dict[str, Any] | None = None, key: str = "") -> Any:
        headers = {"authorization": f"Bearer {key or self.ann}", "content-type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + path, data, headers), timeout=60) as answer:
            return json.load(answer)

    def called(self, name: str, call_id: str, /, **arguments: Any) -> Any:
        """A call by a program; where it waits for leave, the same one again tells what became of it."""
        return self.asked("/v1/tools/call", {"name": name, "arguments": arguments, "call_id": call_id})

    def lines(self, file: str) -> list[str]:
        """What a tool has written: a line for each time that it ran."""
        path = self.folder / file
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def awaited(self, path: str, claim: Any, seconds: float = 60) -> Any:
        until = time.monotonic() + seconds
        while not claim(found := self.asked(path)):
            assert time.monotonic() < until, found
            time.sleep(0.1)
        return found


def _servers() -> dict[str, Any]:
    every = everything().reach
    assert isinstance(every, Process)
    return {
        "every": {"command": every.command, "args": list(every.args)},
        "mail": {"command": sys.executable, "args": [str(_MAIL)], "trusted": True},
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What a gateway has behind it. `more` is put at the end of its configuration; `expected` are tools to wait for."""

    engine: str = SMOL
    ledger: str = "ledger.db"
    functions: str = _NOTES
    servers: dict[str, Any] = field(default_factory=_servers)
    expected: frozenset[str] = frozenset({"switch", "note", "every_get-structured-content", "mail_turn"})
    rounds: int = 1
    more: str = ""


@contextmanager
def house(folder: Path, world: World | None = None) -> Generator[House]:
    world = world or World()
    ann, bob = new_key(), new_key()
    (folder / "lamps.py").write_text(_LAMPS)
    (folder / "own_tools.py").write_text(world.functions)
    (folder / "bus.key").write_text(secrets.token_hex(32))
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": world.servers}))
    with ExitStack() as open_:
        nats = open_.enter_context(nats_server()).url
        words = {"engine": world.engine, "ledger": world.ledger, "rounds": world.rounds, "more": world.more}
        (folder / "ferrule.toml").write_text(_CONFIG.format(**words, nats=nats, ann=hash_of(ann), bob=hash_of(bob)))
        open_.enter_context(worker_process("lamps.py", "--nats", nats, "--key-file", "bus.key", cwd=folder))
        gateway = open_.enter_context(gateway_process(engine=None, prefix=["env", "-C", str(folder)]))
        made = House(gateway.url, folder, ann, bob, gateway.log)
        made.awaited("/v1/tools", lambda found: world.expected <= {one["name"] for one in found["data"]})
        yield made
