"""A server as a process of ours: lines in, lines out, an end within seconds. It knows nothing of what the lines say.

The SDK has such a transport too. This one reads in linear time and keeps no line over a limit: with the SDK's, every
piece of a long line is copied again with all that came before it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress

from ferrule.sources.mcp.config import Process
from ferrule.sources.mcp.line_reader import Lines, Overlong

# What a program needs to run at all; nothing of ours that could be a secret. More is for "env" to say.
_INHERITED = (
    *("HOME", "LANG", "LC_ALL", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"),
    *("APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROCESSOR_ARCHITECTURE"),
    *("SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE"),
)
_PIECE = 64 * 1024
_GRACE = 2.0
_POLL = 0.01
_LAST_WORDS = 2_000


class Pipe:
    """A running server. `stop` it, whatever happens."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._words = b""
        self._hearing = asyncio.ensure_future(self._hear())

    @staticmethod
    async def start(reach: Process) -> Pipe:
        """Starts the server; `OSError` where it cannot be started."""
        inherited = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *(reach.command, *reach.args),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env={**inherited, **reach.env},
            cwd=reach.cwd,
            start_new_session=True,
        )
        return Pipe(process)

    @property
    def last_words(self) -> str:
        """The last line that it wrote to stderr, which is where servers say why they end."""
        lines = self._words.decode("utf-8", "replace").strip().splitlines()
        return lines[-1].strip()[:300] if lines else ""

    async def lines(self, most_bytes: int) -> AsyncGenerator[bytes | Overlong]:
        """What it says, until it says no more."""
        assert self._process.stdout is not None
        lines = Lines(most_bytes)
        while piece := await self._process.stdout.read(_PIECE):
            for line in lines.feed(piece):
                yield line

    async def send(self, line: bytes) -> None:
        """Writes a line; `OSError` where nobody reads any more."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + b"\n")
        await self._process.stdin.drain()

    async def stop(self) -> None:
        """Closes its input, which asks it to end; then asks with signals."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.close()
            for kind in (signal.SIGTERM, _HARD):
                if await self._has_ended():
                    return
                self._signal(kind)
            await self._has_ended()
        finally:
            if self._process.returncode is None:
                self._signal(_HARD)
            self._hearing.cancel()
            self._release()

    async def _has_ended(self) -> bool:
        # Not process.wait(): that also waits for whoever inherited the pipes.
        for _ in range(int(_GRACE / _POLL)):
            if self._process.returncode is not None:
                return True
            await asyncio.sleep(_POLL)
        return self._process.returncode is not None

    def _signal(self, kind: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, kind)

    def _release(self) -> None:
        """Closes our ends of the pipes, also where a grandchild still holds the others. Nothing public does."""
        transport = getattr(self._process, "_transport", None)
        if transport is not None:
            with suppress(PermissionError, ProcessLookupError):
                transport.close()

    async def _hear(self) -> None:
        assert self._process.stderr is not None
        while piece := await self._process.stderr.read(_PIECE):
            self._words = (self._words + piece)[-_LAST_WORDS:]


_HARD = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
