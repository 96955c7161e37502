"""`ferrule serve` at one port, which a long run kills with SIGKILL and starts again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from lab.servers import ServerFailedError

PATIENCE: Final = 300.0
"""Seconds that a gateway has to start, on a busy machine."""
_PAUSE: Final = 0.1


@dataclass(slots=True)
class ServedGateway:
    """One gateway and the processes that served it. `config` names its port; all processes write to one log."""

    config: Path
    port: int
    environment: Mapping[str, str] = field(default_factory=dict[str, str])
    kills: list[float] = field(default_factory=list[float])
    """When it was killed, in seconds since the epoch."""
    away: list[float] = field(default_factory=list[float])
    """How many seconds passed from each kill until it served again."""
    _process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.config.with_suffix(".log")

    async def start(self) -> None:
        with self.log.open("ab") as out:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ferrule", "serve", "--config", str(self.config)],
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1", **self.environment},
                start_new_session=True,
            )
        end = time.monotonic() + PATIENCE
        async with aiohttp.ClientSession() as session:
            while time.monotonic() < end and self._process.poll() is None:
                if await _answers(session, f"{self.url}/healthz"):
                    return
                await asyncio.sleep(_PAUSE)
        raise ServerFailedError(f"the gateway did not start; the end of its log: {self._end_of_log()}")

    def kill(self) -> None:
        """Send SIGKILL to all of its processes. Without effect if it does not run."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    async def restart(self, pause: float = 0.0) -> None:
        """Kill it, and start it again after a pause."""
        killed_at = time.time()
        self.kill()
        self.kills.append(killed_at)
        await asyncio.sleep(pause)
        await self.start()
        self.away.append(time.time() - killed_at)

    def _end_of_log(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-600:]


async def _answers(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(url) as answer:
            return answer.status == 200
    except aiohttp.ClientError:
        return False
