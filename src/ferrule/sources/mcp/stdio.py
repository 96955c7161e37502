"""ServerProcess: an MCP server as a child process, with lines in and out. It stops within seconds.

The SDK has such a transport too. This one reads in linear time and keeps no line over a limit: the SDK's transport
copies a long line again with every chunk.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress

from ferrule.sources.mcp.config import StdioTransport
from ferrule.sources.mcp.line_reader import LineReader, OverlongLine
from ferrule.sources.mcp.programs import start_error
from ferrule.sources.mcp.sandbox import sandbox_command

# What a program needs to run at all, and nothing that could be a secret. "env" adds more.
_INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
_CHUNK_BYTES = 64 * 1024
_GRACE_SECONDS = 2.0
_POLL_SECONDS = 0.01
_STDERR_BYTES = 2_000


class ServerProcess:
    """A running server process. Always call `stop`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._stderr = b""
        self._stderr_task = asyncio.ensure_future(self._read_stderr())

    @staticmethod
    async def start(transport: StdioTransport) -> ServerProcess:
        """Start the server. Raises `ProgramError` if it cannot be started."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        environment = {**inherited, **transport.env}
        command = [transport.command, *transport.args]
        cwd = transport.cwd
        if transport.sandbox is not None:
            command = sandbox_command(transport.sandbox, transport.command, transport.args, cwd, environment)
            # A directory that is in the sandbox too, if it has one.
            cwd = None
        pipe = asyncio.subprocess.PIPE
        try:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=environment,
                cwd=cwd,
                start_new_session=True,
            )
        except OSError as error:
            path = environment.get("PATH", os.defpath)
            raise start_error(transport.command, transport.cwd, path, error) from error
        return ServerProcess(process)

    @property
    def last_stderr_line(self) -> str:
        """The last line on stderr, which is where servers say why they exit."""
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    async def lines(self, max_bytes: int) -> AsyncGenerator[bytes | OverlongLine]:
        """The lines on stdout, until it closes."""
        assert self._process.stdout is not None
        lines = LineReader(max_bytes)
        while piece := await self._process.stdout.read(_CHUNK_BYTES):
            for line in lines.feed(piece):
                yield line

    async def send(self, line: bytes) -> None:
        """Write a line to stdin. Raises `OSError` if the process does not read any more."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def stop(self) -> None:
        """Stop the process: close stdin, then send SIGTERM, then SIGKILL."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            for kind in (signal.SIGTERM, _KILL_SIGNAL):
                if await self._has_ended():
                    return
                self._signal(kind)
            await self._has_ended()
        finally:
            if self._process.returncode is None:
                self._signal(_KILL_SIGNAL)
            self._stderr_task.cancel()
            self._release()

    async def _has_ended(self) -> bool:
        # Not process.wait(): that also waits for grandchildren that inherited the pipes.
        for _ in range(int(_GRACE_SECONDS / _POLL_SECONDS)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(_POLL_SECONDS)
        return self._process.returncode is not None

    def _signal(self, kind: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, kind)

    def _release(self) -> None:
        """Close our ends of the pipes, even if a grandchild still holds the other ends. No public API does this."""
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            with suppress(PermissionError, ProcessLookupError):
                transport.close()

    async def _read_stderr(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_CHUNK_BYTES):
            self._stderr = (self._stderr + piece)[-_STDERR_BYTES:]


_KILL_SIGNAL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
