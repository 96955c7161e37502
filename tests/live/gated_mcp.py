"""Servers of `gated_mcp_server.py`, over stdio and HTTP, and gateways that have them."""

from __future__ import annotations

import json
import subprocess
import sys
import urllib.request
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from live.mcp_world import await_port, free_port
from waiting import PATIENCE, eventually

PROGRAM = Path(__file__).with_name("gated_mcp_server.py")


@dataclass(frozen=True, slots=True)
class GatedServer:
    """One server. With a port, it is reached over HTTP and somebody has to start it (`on_http`)."""

    name: str
    folder: Path
    port: int = 0

    @property
    def entry(self) -> dict[str, Any]:
        """Its entry in an mcp.json."""
        if self.port:
            return {"type": "http", "url": f"http://127.0.0.1:{self.port}/mcp", "trusted": True}
        return {"command": sys.executable, "args": self.arguments, "trusted": True}

    @property
    def arguments(self) -> list[str]:
        way = ["http", str(self.port)] if self.port else ["stdio"]
        return [str(PROGRAM), self.name, str(self.folder), *way]

    def calls(self) -> list[dict[str, Any]]:
        """The calls that reached it, with the names that it was called by."""
        file = self.folder / f"{self.name}.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def open(self, number: int) -> None:
        """Let `step` return."""
        (self.folder / f"open-{number}").touch()


@contextmanager
def on_http(name: str, folder: Path) -> Generator[GatedServer]:
    server = GatedServer(name, folder, free_port())
    process = subprocess.Popen(
        [sys.executable, *server.arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        await_port(server.port)
        yield server
    finally:
        process.kill()
        process.wait()


def serve_arguments(folder: Path, model_url: str, servers: Sequence[GatedServer], *more: str) -> list[str]:
    """The arguments of `ferrule serve` for a model and the servers of an mcp.json."""
    config = folder / "ferrule.toml"
    config.write_text(f'[engines.m]\nuse = "openai:m"\nurl = "{model_url}"\nkey = "x"\n', encoding="utf-8")
    arguments = ["--config", str(config), *more]
    if servers:
        file = folder / "mcp.json"
        file.write_text(json.dumps({"mcpServers": {one.name: one.entry for one in servers}}), encoding="utf-8")
        arguments += ["--mcp-config", str(file)]
    return arguments


def offered(url: str) -> set[str]:
    """The names of the gateway's tools."""
    with urllib.request.urlopen(f"{url}/v1/tools", timeout=PATIENCE) as answer:
        return {one["name"] for one in json.load(answer)["data"]}


def wait_for_tools(url: str, names: set[str]) -> None:
    """Return when the gateway offers all of these: its servers may join after it is up."""
    eventually(lambda: names <= offered(url))
