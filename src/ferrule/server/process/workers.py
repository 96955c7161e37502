"""Workers: several processes on one port, each started again when it dies. Knows no web and no gateway.

The port is opened once, here, and every worker accepts from that one socket. With a socket each (SO_REUSEPORT) the
kernel deals connections out by a hash into a queue per worker, and what waits in the queue of one that dies is lost;
here it stays for the others. Workers are new interpreters and not forks: what an engine holds (threads, a GPU) does not
live through a fork. uvicorn's own supervisor is not used because it can only be given an application by name, and
because it starts a worker that cannot start again and again.
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

from ferrule.server.config.config import Listening
from ferrule.server.observability.logs import Log
from ferrule.server.process.port import opened_port

_TICK = 0.2
_LIVED = 10.0
"""Who lived that long did not die of how it was started."""
_FIRST_REST, _LONGEST_REST = 0.25, 30.0
_AFTER_DRAIN = 6.0
FAILED = 1


@dataclass(frozen=True, slots=True)
class Place:
    """What a worker is given: its number, the socket that it accepts from, and a folder that it shares with the others.

    `is_first` is true for one worker, once: it speaks for all.
    """

    number: int
    folder: str
    socket: socket.socket
    is_first: bool = False


Work = Callable[..., None]
"""Is called in the worker as `work(place, ready, *arguments)`, calls `ready` when it serves, and must be importable."""


def supervised(listening: Listening, work: Work, arguments: tuple[Any, ...], log: Log) -> int:
    """Until SIGINT or SIGTERM, or until a worker cannot even start. The exit code."""
    with opened_port(listening) as port, tempfile.TemporaryDirectory(prefix="ferrule-") as folder:
        return _Workers(listening, work, arguments, log, port, folder).run()


@dataclass(slots=True)
class _Worker:
    number: int
    process: SpawnProcess | None = None
    ready: Connection | None = None
    was_ready: bool = False
    began: float = 0.0
    deaths: int = 0
    rests_until: float = 0.0


@dataclass(slots=True)
class _Workers:
    listening: Listening
    work: Work
    arguments: tuple[Any, ...]
    log: Log
    port: socket.socket
    folder: str
    workers: list[_Worker] = field(default_factory=list[_Worker])
    signals: int = 0
    code: int = 0

    def run(self) -> int:
        before = {one: signal.signal(one, self._signalled) for one in (signal.SIGTERM, signal.SIGINT)}
        self.workers = [_Worker(number) for number in range(self.listening.workers)]
        try:
            for worker in self.workers:
                self._start(worker, is_first=worker.number == 0)
            self._watch()
            self._stop()
        finally:
            for process in self._living():
                process.kill()
            for one, handler in before.items():
                signal.signal(one, handler)
        return self.code

    def _watch(self) -> None:
        while not self.signals and not self.code:
            self._wait()
            for worker in self.workers:
                self._look(worker)

    def _wait(self) -> None:
        # Those that have spoken already are waited for no more.
        ready = [worker.ready for worker in self.workers if worker.ready is not None]
        wait([*(process.sentinel for process in self._living()), *ready], _TICK)

    def _look(self, worker: _Worker) -> None:
        if worker.ready is not None and worker.ready.poll():
            worker.was_ready = worker.was_ready or _has_spoken(worker.ready)
            worker.ready.close()
            worker.ready = None
        if worker.process is not None and not worker.process.is_alive():
            self._died(worker, worker.process)
        if worker.process is None and time.monotonic() >= worker.rests_until and not self.code:
            self._start(worker)

    def _died(self, worker: _Worker, process: SpawnProcess) -> None:
        process.join()
        self.log.tell("worker_died", worker=worker.number, pid=process.pid or 0, exit=process.exitcode or 0)
        worker.process = None
        if not worker.was_ready:
            # It never served: what is wrong with it is wrong with all of them, and with the next one.
            self.code = FAILED
            return
        has_lived = time.monotonic() - worker.began > _LIVED
        worker.deaths = 0 if has_lived else worker.deaths + 1
        rest = min(_FIRST_REST * 2.0 ** (worker.deaths - 1), _LONGEST_REST) if worker.deaths else 0.0
        worker.rests_until = time.monotonic() + rest

    def _start(self, worker: _Worker, *, is_first: bool = False) -> None:
        context = get_context("spawn")
        worker.ready, theirs = context.Pipe(duplex=False)
        place = Place(worker.number, self.folder, self.port, is_first)
        worker.process = context.Process(target=_begun, args=(self.work, place, theirs, self.arguments))
        worker.process.start()
        theirs.close()
        worker.began = time.monotonic()
        self.log.tell("worker_started", worker=worker.number, pid=worker.process.pid or 0)

    def _stop(self) -> None:
        """Every worker drains by itself. A second signal is passed on too: they then wait no longer."""
        until = time.monotonic() + self.listening.drain_seconds + _AFTER_DRAIN
        told = 0
        while (living := self._living()) and time.monotonic() < until:
            # Told at least once, also where it is not a signal that ends everything.
            while told < max(self.signals, 1):
                _tell(living)
                told += 1
            wait([process.sentinel for process in living], _TICK)

    def _living(self) -> list[SpawnProcess]:
        processes = [worker.process for worker in self.workers if worker.process is not None]
        return [process for process in processes if process.is_alive()]

    def _signalled(self, number: int, frame: FrameType | None) -> None:
        self.signals += 1


def _tell(processes: Iterable[SpawnProcess]) -> None:
    for process in processes:
        process.terminate()


def _has_spoken(ready: Connection) -> bool:
    try:
        return bool(ready.recv())
    except EOFError:
        return False


def _begun(work: Work, place: Place, ready: Connection, arguments: tuple[Any, ...]) -> None:
    """The first thing that a worker does."""
    # A terminal sends it to everybody; whoever watches over us passes it on, once.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_outlived, daemon=True, name="orphan-watch").start()

    def tell() -> None:
        ready.send(True)
        ready.close()

    work(place, tell, *arguments)


def _outlived() -> None:
    """A worker whose watcher was killed would hold the port for ever."""
    parent = parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
