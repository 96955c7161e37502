"""The processes beside the gateways: an authorization server and MCP servers, each at one port."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.paths import CACHE
from lab.servers import ServerFailedError, free_port

TOKEN_SECONDS: Final = 20
_START_SECONDS: Final = 300.0
"""How long a process may take to start or to end: this machine may be busy."""
_MODULES: Final = CACHE / "oidc"
_HERE: Final = Path(__file__).parent


@dataclass(slots=True)
class PortProcess:
    """A process that listens on a port, and is started again at the same one."""

    folder: Path
    port: int = field(default_factory=free_port)
    restarts: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it writes to its output."""
        return self.folder / "output.log"

    def command(self) -> Sequence[str]:
        raise NotImplementedError

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(self.command(), stdout=out, stderr=out)
        wait_for_port(self.port, _START_SECONDS)

    def stop(self, kind: signal.Signals = signal.SIGKILL) -> None:
        if self._process is not None:
            self._process.send_signal(kind)
            self._process.wait(_START_SECONDS)
            self._process = None


class AuthorizationServer(PortProcess):
    """oidc-provider, from npm."""

    def command(self) -> Sequence[str]:
        if not (_MODULES / ".pins").exists():
            raise ServerFailedError("oidc-provider is not installed", hint="Run scripts/setup-oidc.")
        program = str(_HERE / "authorization_server.mjs")
        return ["node", program, str(_MODULES), str(self.folder), str(self.port), str(TOKEN_SECONDS)]

    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in whole_lines(self.folder / "log.jsonl")]

    def secrets(self) -> list[str]:
        """Every token, code and client secret that it gave away."""
        return whole_lines(self.folder / "secrets")


@dataclass(slots=True)
class McpServer(PortProcess):
    """`server.py`. Without an issuer it wants no tokens."""

    name: str = ""
    issuer: str = ""

    def command(self) -> Sequence[str]:
        notes = str(self.folder / "notes.log")
        return [sys.executable, str(_HERE / "server.py"), self.name, str(self.port), self.issuer, notes]

    def notes(self) -> list[str]:
        return whole_lines(self.folder / "notes.log")


def wait_for_port(port: int, seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with socket.socket() as caller:
            if caller.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise ServerFailedError(f"nothing listens on port {port}")


def whole_lines(file: Path) -> list[str]:
    text = file.read_text(encoding="utf-8") if file.exists() else ""
    return [line.rstrip("\n") for line in text.splitlines(keepends=True) if line.endswith("\n")]
