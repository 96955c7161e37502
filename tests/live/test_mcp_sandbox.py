"""A real server in a sandbox of bubblewrap: what it tries is refused by the kernel, and what it may do works.

No probe writes outside the directories of the test: rights on other paths are only looked up.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered
from ferrule.sources.mcp.config import Server, StdioTransport
from ferrule.sources.mcp.sandbox import Sandbox
from ferrule.sources.mcp.servers import McpServers
from waiting import PATIENCE

PROGRAM = Path(__file__).with_name("sandbox_server.py")
PYTHON = os.path.realpath(sys.executable)
# What the interpreter needs. It may be in a home directory, of which nothing else is visible.
NEEDED = (sys.base_prefix, str(PROGRAM))


pytestmark = pytest.mark.live


def why_impossible() -> str:
    """Why this machine's kernel, or the container that it is in, allows no namespaces; empty if it does."""
    program = shutil.which("bwrap")
    if program is None:
        # The tests say so: scripts/setup-bubblewrap installs it.
        return ""
    command = [program, "--unshare-user", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "true"]
    tried = subprocess.run(command, capture_output=True, text=True, check=False)
    return tried.stderr.strip() if tried.returncode else ""


REASON = why_impossible()


@contextmanager
def listener() -> Generator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def in_sandbox(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test; where namespaces are impossible, see instead that the server is not run without its sandbox."""

    @wraps(test)
    def run(*given: Any, **named: Any) -> None:
        if not REASON:
            test(*given, **named)
            return

        async def refused() -> None:
            transport = StdioTransport(PYTHON, ("-I", str(PROGRAM)), sandbox=Sandbox(readable=NEEDED))
            async with McpServers([Server("probe", transport)], settle_seconds=PATIENCE) as source:
                assert await source.tools() == ()
                assert "bwrap" in source.notices[0]

        asyncio.run(refused())

    return run


def ask(sandbox: Sandbox | None, *calls: tuple[str, dict[str, Any]]) -> list[Any]:
    async def run() -> list[Any]:
        transport = StdioTransport(PYTHON, ("-I", str(PROGRAM)), sandbox=sandbox)
        async with McpServers([Server("probe", transport)], settle_seconds=PATIENCE) as source:
            assert not source.notices
            answers: list[Any] = []
            for name, arguments in calls:
                outcome = await source.call(f"probe_{name}", arguments, CallContext())
                assert isinstance(outcome, Answered), outcome
                answers.append(json.loads(outcome.content))
            return answers

    return asyncio.run(run())


@in_sandbox
def test_a_sandboxed_server_reads_no_home_and_reaches_no_network(tmp_path: Path) -> None:
    secret = tmp_path / "home" / "secret"
    secret.parent.mkdir()
    secret.write_text("the key", encoding="utf-8")
    with listener() as port:
        calls = (
            ("read", {"path": str(secret)}),
            ("connect", {"port": port}),
            ("list", {"path": os.path.expanduser("~")}),
            ("read", {"path": "/etc/shadow"}),
        )
        free = ask(None, *calls[:3])
        read, connect, home, shadow = ask(Sandbox(readable=NEEDED), *calls)
    assert free[:2] == ["the key", "connected"]
    assert read.startswith("refused: ")
    assert connect.startswith("refused: ")
    # A home directory is there only if the interpreter is in it, and then it holds nothing else.
    visible = [] if isinstance(home, str) else home
    assert [name for name in visible if not sys.base_prefix.startswith(os.path.expanduser(f"~/{name}"))] == []
    assert shadow.startswith("refused: ")


@in_sandbox
def test_a_sandboxed_server_has_no_capability_and_could_write_nothing_of_the_kernel() -> None:
    paths = [
        *("/proc/sys", "/proc/sys/kernel", "/proc/sys/kernel/hostname", "/proc/sys/kernel/core_pattern"),
        *("/proc/sys/vm", "/proc/sys/net", "/proc/sysrq-trigger", "/sys", "/usr", "/usr/bin", "/etc", "/opt", "/lib"),
        *NEEDED,
    ]
    status, rights = ask(Sandbox(readable=NEEDED), ("status", {}), ("rights", {"paths": paths}))
    assert status["capabilities"] == 0
    assert status["uid"] != 0
    assert rights == []


@in_sandbox
def test_it_writes_to_its_scratch_directory_and_to_what_is_named_and_to_nothing_else(tmp_path: Path) -> None:
    out, read_only = tmp_path / "out", tmp_path / "docs"
    for folder in (out, read_only):
        folder.mkdir()
    (read_only / "page").write_text("a page", encoding="utf-8")
    sandbox = Sandbox(readable=(*NEEDED, str(read_only)), writable=(str(out),))
    written, page, refused, scratch = ask(
        sandbox,
        ("write", {"path": str(out / "result")}),
        ("read", {"path": str(read_only / "page")}),
        ("write", {"path": str(read_only / "page")}),
        ("write", {"path": "/tmp/scratch"}),
    )
    assert (written, page, scratch) == ("written", "a page", "written")
    assert refused.startswith("refused: ")
    assert (out / "result").read_text(encoding="utf-8") == "written"
    assert (read_only / "page").read_text(encoding="utf-8") == "a page"


@in_sandbox
def test_the_network_can_be_allowed() -> None:
    with listener() as port:
        assert ask(Sandbox(network=True, readable=NEEDED), ("connect", {"port": port})) == ["connected"]


def test_a_program_outside_of_its_sandbox_is_reported_with_what_to_write(tmp_path: Path) -> None:
    program = tmp_path / "server"
    program.touch(mode=0o755)

    async def run() -> str:
        transport = StdioTransport(str(program), sandbox=Sandbox())
        async with McpServers([Server("probe", transport)], settle_seconds=PATIENCE) as source:
            return source.notices[0]

    assert 'is not in its sandbox; name its directory in "readable"' in asyncio.run(run())


def test_without_bubblewrap_the_server_is_not_started_and_the_notice_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "defpath", str(tmp_path))

    async def run() -> str:
        transport = StdioTransport(PYTHON, env={"PATH": str(tmp_path)}, sandbox=Sandbox())
        async with McpServers([Server("probe", transport)], settle_seconds=PATIENCE) as source:
            return source.notices[0]

    assert "install bubblewrap (Debian: apt install bubblewrap)" in asyncio.run(run())
