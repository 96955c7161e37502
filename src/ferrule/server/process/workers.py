"""Workers: several processes that serve one port, and a supervisor that restarts them. Knows neither HTTP nor gateway.

The supervisor opens the port once, and every worker accepts from that socket. With one socket per worker (SO_REUSEPORT)
the kernel would assign connections to a queue per worker, and connections in the queue of a dead worker would be lost;
with a shared socket the other workers take them. Workers are new interpreters and not forks, because the resources of
an engine (threads, a GPU) do not survive a fork. uvicorn's own supervisor is not used: it takes an application only by
name, and it restarts a worker that cannot start forever.
"""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from types import FrameType
from typing import Any

from ferrule.server.config.config import ServerConfig
from ferrule.server.observability.logs import Log
from ferrule.server.process.server import open_port

_TICK = 0.2
_STABLE_SECONDS = 10.0
"""A worker that ran this long started correctly; its exit does not count as early."""
_MIN_RESTART_DELAY, _MAX_RESTART_DELAY = 0.25, 30.0
_AFTER_DRAIN = 6.0
"""How long workers may take to exit after the drain before they are killed."""
FAILED = 1


@dataclass(frozen=True, slots=True)
class WorkerSlot:
    """What a worker receives: its number, the shared socket, and a folder shared with the other workers.

    `is_first` is true for a single worker, and only at its first start: it prints for all of them.
    """

    number: int
    folder: str
    socket: socket.socket
    is_first: bool = False


Work = Callable[..., None]
"""Runs in the worker as `work(slot, ready, *arguments)`. It calls `ready` when it serves, and must be importable."""


Renewal = Callable[[], "tuple[Any, ...] | None"]
"""Called often. Returns other arguments for the workers when there are some: running ones are sent SIGHUP then."""


def _no_renewal() -> None:
    """The default: the arguments stay."""


def supervise(
    server_config: ServerConfig, work: Work, arguments: tuple[Any, ...], log: Log, renewal: Renewal = _no_renewal
) -> int:
    """Run the workers until SIGINT or SIGTERM, or until a worker fails to start. Returns the exit code."""
    with open_port(server_config) as port, tempfile.TemporaryDirectory(prefix="ferrule-") as folder:
        return _Workers(server_config, work, arguments, log, port, folder, renewal).run()


@dataclass(slots=True)
class _Worker:
    number: int
    process: SpawnProcess | None = None
    ready: Connection | None = None
    was_ready: bool = False
    is_behind: bool = False
    """Whether there are other arguments since it was started."""
    started_at: float = 0.0
    early_exits: int = 0
    restart_at: float = 0.0


@dataclass(slots=True)
class _Workers:
    server_config: ServerConfig
    work: Work
    arguments: tuple[Any, ...]
    log: Log
    port: socket.socket
    folder: str
    renewal: Renewal
    workers: list[_Worker] = field(default_factory=list[_Worker])
    signals: int = 0
    code: int = 0

    def run(self) -> int:
        previous_handlers = {one: signal.signal(one, self._on_signal) for one in (signal.SIGTERM, signal.SIGINT)}
        self.workers = [_Worker(number) for number in range(self.server_config.workers)]
        try:
            for worker in self.workers:
                self._start(worker, is_first=worker.number == 0)
            self._supervise()
            self._stop()
        finally:
            for process in self._live_processes():
                process.kill()
            for one, handler in previous_handlers.items():
                signal.signal(one, handler)
        return self.code

    def _supervise(self) -> None:
        while not self.signals and not self.code:
            self._wait()
            for worker in self.workers:
                self._check(worker)
            self._renew()

    def _renew(self) -> None:
        arguments = self.renewal()
        if arguments is not None:
            # Before the signal: a worker that starts now has them from the beginning.
            self.arguments = arguments
            for worker in self.workers:
                # One that starts just now would be ended by the signal: it gets it when it serves.
                worker.is_behind = True
                self._hang_up(worker)

    def _hang_up(self, worker: _Worker) -> None:
        process = worker.process
        if worker.is_behind and worker.ready is None and process is not None and process.is_alive() and process.pid:
            worker.is_behind = False
            os.kill(process.pid, signal.SIGHUP)

    def _wait(self) -> None:
        # Only workers that have not reported ready yet still have a pipe.
        ready = [worker.ready for worker in self.workers if worker.ready is not None]
        wait([*(process.sentinel for process in self._live_processes()), *ready], _TICK)

    def _check(self, worker: _Worker) -> None:
        if worker.ready is not None and worker.ready.poll():
            worker.was_ready = worker.was_ready or _is_ready(worker.ready)
            worker.ready.close()
            worker.ready = None
            self._hang_up(worker)
        if worker.process is not None and not worker.process.is_alive():
            self._handle_exit(worker, worker.process)
        if worker.process is None and time.monotonic() >= worker.restart_at and not self.code:
            self._start(worker)

    def _handle_exit(self, worker: _Worker, process: SpawnProcess) -> None:
        process.join()
        self.log.emit("worker_died", worker=worker.number, pid=process.pid or 0, exit=process.exitcode or 0)
        worker.process = None
        if not worker.was_ready:
            # It never served: the others and a restarted one would fail for the same reason.
            self.code = FAILED
            return
        was_stable = time.monotonic() - worker.started_at > _STABLE_SECONDS
        worker.early_exits = 0 if was_stable else worker.early_exits + 1
        delay = (
            min(_MIN_RESTART_DELAY * 2.0 ** (worker.early_exits - 1), _MAX_RESTART_DELAY) if worker.early_exits else 0.0
        )
        worker.restart_at = time.monotonic() + delay

    def _start(self, worker: _Worker, *, is_first: bool = False) -> None:
        # "spawn" starts a new interpreter; see the module docstring for why not "fork".
        context = get_context("spawn")
        worker.ready, child_end = context.Pipe(duplex=False)
        slot = WorkerSlot(worker.number, self.folder, self.port, is_first)
        worker.process = context.Process(target=_worker_main, args=(self.work, slot, child_end, self.arguments))
        worker.is_behind = False
        worker.process.start()
        child_end.close()
        worker.started_at = time.monotonic()
        self.log.emit("worker_started", worker=worker.number, pid=worker.process.pid or 0)

    def _stop(self) -> None:
        """Stop all workers; each drains by itself. A second signal is passed on and ends their waiting."""
        # A worker closes the port when its drain is over. Kept open here, it would take connections until the last
        # worker has closed its engines and sources, and then reset them. Refused, they go to another gateway at once.
        self.port.close()
        deadline = time.monotonic() + self.server_config.drain_seconds + _AFTER_DRAIN
        signals_sent = 0
        while (processes := self._live_processes()) and time.monotonic() < deadline:
            # Signal at least once, also if a failed worker and not a signal is the reason to stop.
            while signals_sent < max(self.signals, 1):
                _terminate(processes)
                signals_sent += 1
            wait([process.sentinel for process in processes], _TICK)

    def _live_processes(self) -> list[SpawnProcess]:
        processes = [worker.process for worker in self.workers if worker.process is not None]
        return [process for process in processes if process.is_alive()]

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1


def _terminate(processes: Iterable[SpawnProcess]) -> None:
    for process in processes:
        process.terminate()


def _is_ready(ready: Connection) -> bool:
    try:
        return bool(ready.recv())
    except EOFError:
        return False


def _worker_main(work: Work, slot: WorkerSlot, ready: Connection, arguments: tuple[Any, ...]) -> None:
    """The entry point of a worker process."""
    # A terminal sends SIGINT to all processes; the supervisor passes it on as SIGTERM, once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_exit_with_parent, daemon=True, name="orphan-watch").start()

    def report_ready() -> None:
        ready.send(True)
        ready.close()

    work(slot, report_ready, *arguments)


def _exit_with_parent() -> None:
    """Stop this worker when its supervisor is killed; otherwise it would keep the port forever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
