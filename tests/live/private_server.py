"""A running MCP server that wants a sign-in, and a browser that consents to everything."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.credentials import CredentialFile
from ferrule.sources.mcp.loopback import sign_in
from ferrule.sources.mcp.server_connection import ConnectionOptions
from ferrule.sources.mcp.servers import McpServers
from lab.servers import end_group, free_port
from waiting import PATIENCE, eventually

PROGRAM = Path(__file__).parent / "signed_in_mcp_server.py"
KEY = "0123456789abcdef" * 4
SWIFT = ConnectionOptions(refresh=0.2, first_pause=0.1, longest_pause=0.5)


@dataclass(frozen=True, slots=True)
class Private:
    """A running server that wants a sign-in. `told` counts what its authorization server did."""

    url: str
    log: Path
    store: Path

    @property
    def server(self) -> Server:
        return Server("private", HttpTransport(f"{self.url}/mcp"))

    @property
    def told(self) -> Counter[str]:
        return Counter(self.log.read_text(encoding="utf-8").split()) if self.log.exists() else Counter()

    def credentials(self, *keys: str) -> CredentialFile:
        return CredentialFile(self.store, keys or (KEY,))

    def source(self) -> McpServers:
        return McpServers([self.server], credentials=self.credentials(), options=SWIFT, settle_seconds=PATIENCE)

    async def sign_in(self) -> tuple[str, ...]:
        return await sign_in(self.server, self.credentials(), browse, seconds=PATIENCE)


@contextmanager
def private_server(folder: Path, token_seconds: int = 600) -> Generator[Private]:
    port, log = free_port(), folder / "server.log"
    process = subprocess.Popen(
        [sys.executable, str(PROGRAM), str(port), str(token_seconds), str(log)], start_new_session=True
    )
    world = Private(f"http://127.0.0.1:{port}", log, folder / "credentials.json")
    try:
        eventually(lambda: answers(f"{world.url}/.well-known/oauth-authorization-server"))
        yield world
    finally:
        end_group(process)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE):
            return True
    except OSError:
        return False


async def browse(address: str) -> None:
    """Do what a browser does in which everybody consents: follow the redirects, the last of them to loopback."""
    await asyncio.to_thread(lambda: urllib.request.urlopen(address, timeout=PATIENCE).read())
