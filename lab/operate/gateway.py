"""A gateway of the day: `ferrule serve` with two workers, which can be signalled, ended and started again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lab.servers import ServerFailedError, end_group
from waiting import eventually

WORKERS: Final = 2
_EVENTS: Final = tuple(
    f'"{name}"'.encode() for name in ("start", "worker_started", "reloaded", "reload_failed", "quota_store_failed")
)
DRAIN_SECONDS: Final = 10


@dataclass(slots=True)
class Gateway:
    """`file` is its configuration, and `log` what it has written since it was started first."""

    name: str
    port: int
    file: Path
    log: Path
    process: subprocess.Popen[bytes] | None = None
    _position: int = 0
    _counts: Counter[str] = field(default_factory=Counter[str])
    _workers: dict[int, int] = field(default_factory=dict[int, int])
    _serving: set[int] = field(default_factory=set[int])

    def __post_init__(self) -> None:
        self.log.touch()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until all of its workers serve."""
        before = self.count("start")
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ferrule", "serve", "--config", str(self.file)],
                stdout=out,
                stderr=out,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )
        process = self.process
        eventually(lambda: self.count("start") >= before + WORKERS or process.poll() is not None)
        if process.poll() is not None:
            raise ServerFailedError(f"the gateway {self.name} did not start: {self.log.read_text()[-600:]}")

    def signal(self, number: signal.Signals) -> None:
        """Signal the process that was started; it passes on what concerns its workers."""
        assert self.process is not None
        os.kill(self.process.pid, number)

    def drain(self) -> int:
        """End it with SIGTERM, and return its exit code."""
        assert self.process is not None
        self.signal(signal.SIGTERM)
        code = self.process.wait()
        self.process = None
        return code

    def end(self) -> None:
        if self.process is not None:
            end_group(self.process)
            self.process = None

    def count(self, event: str) -> int:
        self._read_log()
        return self._counts[event]

    def workers(self) -> dict[int, int]:
        """The newest process of each worker, by its number."""
        self._read_log()
        return dict(self._workers)

    def serving(self) -> set[int]:
        """The processes that have begun to serve."""
        self._read_log()
        return set(self._serving)

    def _read_log(self) -> None:
        """Take up what was written since the last time: a day writes more than can be read again and again."""
        with self.log.open("rb") as log:
            log.seek(self._position)
            text = log.read()
        # The last line may be half written.
        whole = text[: text.rfind(b"\n") + 1]
        self._position += len(whole)
        for line in whole.splitlines():
            if line.startswith(b"{") and any(event in line for event in _EVENTS):
                self._take(json.loads(line))

    def _take(self, line: dict[str, Any]) -> None:
        self._counts[line["event"]] += 1
        if line["event"] == "worker_started":
            self._workers[line["worker"]] = line["pid"]
        elif line["event"] == "start":
            self._serving.add(line["pid"])
