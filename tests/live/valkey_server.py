"""A real Valkey or Redis server on a free port of loopback, which a test may kill and start again."""

from __future__ import annotations

import shutil
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from waiting import eventually


@dataclass(slots=True)
class ValkeyServer:
    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"valkey://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        program = shutil.which("valkey-server") or shutil.which("redis-server")
        assert program is not None, "run scripts/setup-valkey"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self.folder)]
        with (self.folder / "valkey.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        eventually(self._answers)

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def keys(self) -> list[bytes]:
        """The names of all counters."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=10) as connection:
            connection.sendall(b"KEYS *\r\n")
            return connection.recv(1_000_000).split(b"\r\n")[2::2]

    def _answers(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=1) as connection:
                connection.sendall(b"PING\r\n")
                return connection.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


@contextmanager
def valkey_server(folder: Path) -> Generator[ValkeyServer]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = ValkeyServer(folder, port)
    server.start()
    try:
        yield server
    finally:
        server.stop()
