"""What workers do in tests: they answer every connection with their number and process, or die as they were told."""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import FrameType

from ferrule.server.config.config import Listening
from ferrule.server.observability.logs import Log
from ferrule.server.process.workers import Place, supervised


def answers(place: Place, ready: Callable[[], None], marks: str) -> None:
    """Until SIGTERM. Leaves a mark when it ends in order."""
    is_told = False

    def told(number: int, frame: FrameType | None) -> None:
        nonlocal is_told
        is_told = True

    signal.signal(signal.SIGTERM, told)
    if place.is_first:
        print(place.socket.getsockname()[1], flush=True)
    ready()
    while not is_told:
        readable, _, _ = select.select([place.socket], [], [], 0.05)
        if not readable:
            continue
        try:
            taken, _ = place.socket.accept()
        except BlockingIOError:
            # Another worker was quicker.
            continue
        with taken:
            taken.sendall(f"{place.number} {os.getpid()}".encode())
    Path(marks, f"{os.getpid()}.ended").touch()


def cannot_start(place: Place, ready: Callable[[], None], marks: str) -> None:
    Path(marks, f"{os.getpid()}.tried").touch()
    raise SystemExit(3)


def dies_at_once(place: Place, ready: Callable[[], None], marks: str) -> None:
    """Serves, and dies: what is done about it must not take the machine."""
    if place.is_first:
        print(place.socket.getsockname()[1], flush=True)
    Path(marks, f"{time.monotonic_ns()}.began").touch()
    ready()
    os._exit(9)


def main() -> None:
    """`worker_work WORK MARKS COUNT`."""
    work = {"answers": answers, "cannot_start": cannot_start, "dies_at_once": dies_at_once}[sys.argv[1]]
    listening = replace(Listening(), port=0, workers=int(sys.argv[3]), drain_seconds=5.0)
    raise SystemExit(supervised(listening, work, (sys.argv[2],), Log.to_stderr()))
