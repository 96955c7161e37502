"""Processes to be killed and stopped, forked from a server that has imported everything, so that a start is cheap."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from typing import Any, Final

_PAUSE: Final = 0.01
_PRELOADED: Final = (
    "lab.ledger_storm.worker",
    "lab.ledger_storm.approver",
    "lab.ledger_storm.gateway",
    "lab.failover.bus",
)


@dataclass(slots=True)
class Victim:
    """A process that is started again each time it is killed.

    `is_frozen` is set while it is stopped; it is not killed then, so that what happens when it wakes is seen.
    """

    kind: str
    start_process: Callable[[], ForkServerProcess]
    process: ForkServerProcess
    is_frozen: bool = False
    is_being_killed: bool = False

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def has_exited(self) -> bool:
        return not self.process.is_alive()

    async def kill(self) -> None:
        self.is_being_killed = True
        self.process.kill()
        await self._join()
        self.process = self.start_process()
        self.is_being_killed = False

    def freeze(self) -> None:
        self.is_frozen = True
        os.kill(self.pid, signal.SIGSTOP)

    def wake(self) -> None:
        os.kill(self.pid, signal.SIGCONT)
        self.is_frozen = False

    async def end(self) -> None:
        self.process.kill()
        await self._join()

    async def _join(self) -> None:
        while self.process.is_alive():
            await asyncio.sleep(_PAUSE)
        self.process.join()


@dataclass(slots=True)
class Nursery:
    """Starts processes. `end` ends all that are left."""

    log: str
    """The file with the output of all processes."""
    victims: list[Victim] = field(default_factory=list[Victim])

    def __post_init__(self) -> None:
        multiprocessing.set_forkserver_preload(list(_PRELOADED))

    def add(self, kind: str, target: Callable[..., None], arguments: Sequence[Any]) -> Victim:
        """Start a process that has the same arguments each time."""

        def start() -> ForkServerProcess:
            return start_process(target, arguments, self.log)

        return self.add_started(kind, start)

    def add_started(self, kind: str, start: Callable[[], ForkServerProcess]) -> Victim:
        victim = Victim(kind, start, start())
        self.victims.append(victim)
        return victim

    async def end(self) -> None:
        for victim in self.victims:
            await victim.end()


def end_on_sigterm() -> None:
    """Let SIGTERM end this program as an error does, so that the processes and servers that it started end too."""

    def leave(number: int, frame: object) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, leave)


def start_process(target: Callable[..., None], arguments: Sequence[Any], log: str) -> ForkServerProcess:
    context = multiprocessing.get_context("forkserver")
    process = context.Process(target=_run_logged, args=(log, target, *arguments), daemon=True)
    process.start()
    return process


def _run_logged(log: str, target: Callable[..., None], *arguments: Any) -> None:
    """Run a function with all output in a file: hundreds of processes lose their connections in a storm."""
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)
    target(*arguments)
