"""Hang-ups and changed files: what asks a running process to reload. Knows neither gateways nor configurations."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable
from multiprocessing import parent_process
from pathlib import Path
from types import FrameType


class HangUps:
    """Takes SIGHUP from its creation on, which would otherwise end the process."""

    def __init__(self) -> None:
        self._has_come = False
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGHUP, self._handle)

    def take(self) -> bool:
        """Whether one has come since the last time."""
        has_come, self._has_come = self._has_come, False
        return has_come

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._has_come = True


def hang_up_supervisor() -> None:
    """Ask the supervisor of this worker to let all workers reload."""
    parent = parent_process()
    if parent is not None and parent.pid is not None:
        os.kill(parent.pid, signal.SIGHUP)


class FileWatch:
    """Sees when one of some files was written, replaced, made or removed."""

    def __init__(self, files: Iterable[Path]) -> None:
        self._files = tuple(dict.fromkeys(files))
        self._seen = self._look()
        self._changing: object = self._seen

    def has_changed(self) -> bool:
        """Whether a file has changed since the last time, and is the same as when it was last looked at.

        An editor may write a file in several steps: it is read when it has come to rest.
        """
        now = self._look()
        has_changed = now != self._seen and now == self._changing
        self._changing = now
        if has_changed:
            self._seen = now
        return has_changed

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_look_at, self._files))


def _look_at(file: Path) -> tuple[int, int, int] | None:
    try:
        status = file.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
