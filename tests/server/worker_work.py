"""Work functions for tests of workers: serve each connection with the worker's number and PID, or exit."""

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

from ferrule.server.config.config import ServerConfig
from ferrule.server.observability.logs import Log
from ferrule.server.process.workers import WorkerSlot, supervise


def serve_number(slot: WorkerSlot, ready: Callable[[], None], folder: str) -> None:
    """Serve until SIGTERM. Creates a marker file when it ends in order."""
    is_stopped = False

    def on_signal(number: int, frame: FrameType | None) -> None:
        nonlocal is_stopped
        is_stopped = True

    signal.signal(signal.SIGTERM, on_signal)
    if slot.is_first:
        print(slot.socket.getsockname()[1], flush=True)
    ready()
    while not is_stopped:
        readable, _, _ = select.select([slot.socket], [], [], 0.05)
        if not readable:
            continue
        try:
            connection, _ = slot.socket.accept()
        except BlockingIOError:
            # Another worker accepted it first.
            continue
        with connection:
            connection.sendall(f"{slot.number} {os.getpid()}".encode())
    Path(folder, f"{os.getpid()}.ended").touch()


def close_and_linger(slot: WorkerSlot, ready: Callable[[], None], folder: str) -> None:
    """Serve until SIGTERM, close the port, and end when the folder has a file `end`, or with the supervisor."""
    supervisor = os.getppid()
    serve_number(slot, ready, folder)
    slot.socket.close()
    Path(folder, f"{os.getpid()}.closed").touch()
    while not Path(folder, "end").exists() and os.getppid() == supervisor:
        time.sleep(0.02)


def fail_to_start(slot: WorkerSlot, ready: Callable[[], None], folder: str) -> None:
    Path(folder, f"{os.getpid()}.tried").touch()
    raise SystemExit(3)


def exit_at_once(slot: WorkerSlot, ready: Callable[[], None], folder: str) -> None:
    """Report ready and exit at once, so that the supervisor has to back off."""
    if slot.is_first:
        print(slot.socket.getsockname()[1], flush=True)
    Path(folder, f"{time.monotonic_ns()}.began").touch()
    ready()
    os._exit(9)


def main() -> None:
    """Usage: `worker_work WORK FOLDER COUNT`."""
    works = (serve_number, close_and_linger, fail_to_start, exit_at_once)
    work = {one.__name__: one for one in works}[sys.argv[1]]
    server = replace(ServerConfig(), port=0, workers=int(sys.argv[3]), drain_seconds=5.0)
    raise SystemExit(supervise(server, work, (sys.argv[2],), Log.to_stderr()))
