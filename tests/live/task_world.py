"""Servers of `task_server.py`, over stdio and HTTP, and what a test does with their tasks."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ferrule.sources.mcp.config import HttpTransport, Server, StdioTransport, Timeouts
from live.mcp_world import free_port
from waiting import eventually

PROGRAM = Path(__file__).with_name("task_server.py")


@dataclass(frozen=True, slots=True)
class TaskServer:
    """One server. With a port, it is reached over HTTP and somebody has to start it (`on_http`)."""

    folder: Path
    port: int = 0
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list["subprocess.Popen[bytes]"])

    def start(self) -> None:
        command = [sys.executable, str(PROGRAM), str(self.folder), "http", str(self.port)]
        self._processes.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        eventually(self._listens)

    def _listens(self) -> bool:
        with socket.socket() as caller:
            return caller.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        while self._processes:
            process = self._processes.pop()
            process.kill()
            process.wait()

    def restart(self) -> None:
        self.kill()
        self.start()

    def server(self, task_seconds: float = 600.0) -> Server:
        timeouts = Timeouts(call=60.0, task=task_seconds)
        if self.port:
            return Server("tasks", HttpTransport(f"http://127.0.0.1:{self.port}/mcp"), True, timeouts)
        return Server(
            "tasks", StdioTransport(sys.executable, (str(PROGRAM), str(self.folder), "stdio")), True, timeouts
        )

    def lines(self, name: str) -> list[Any]:
        file = self.folder / f"{name}.jsonl"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def make(self, name: str) -> None:
        """Make the tasks go on: `step-1`, `ask`, `fail`, `finish`."""
        (self.folder / name).touch()


@contextmanager
def on_http(folder: Path) -> Generator[TaskServer]:
    server = TaskServer(folder, free_port())
    server.start()
    try:
        yield server
    finally:
        server.kill()
