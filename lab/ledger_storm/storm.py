"""The driver of a storm: starts the processes, kills and stops them at random, and lets what was begun end."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Final

import aiohttp

from lab.ledger_storm.approver import run_approver
from lab.ledger_storm.gateway import run_gateway
from lab.ledger_storm.processes import Nursery, Victim, start_process
from lab.ledger_storm.reader import GatewayAddress, Reader
from lab.ledger_storm.script import RESPONSE_PREFIX
from lab.ledger_storm.worker import Board, name_of, run_worker
from lab.servers import ServerFailedError

WORKER, GATEWAY, APPROVER = "worker", "gateway", "approver"
_PAUSE: Final = 0.05
_MAX_EXITS: Final = 20
PATIENCE: Final = 300.0
"""Seconds. Not a measure of speed: it only ends a storm that would wait forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StormSize:
    kills: int
    freezes: int
    workers: int = 4
    gateways: int = 2
    readers: int = 4
    lease: float = 2.0
    between_kills: float = 0.6
    """At most so many seconds pass between two kills."""
    seed: int = 1


@dataclass(frozen=True, slots=True)
class Freeze:
    """A process that was stopped: what it owned then, how long the others took to own all of it, and what was left."""

    kind: str
    held: int
    seconds: float
    blocked_by: str = ""
    """Why the others could not take over what it owned before it woke; empty if they could."""


@dataclass(slots=True)
class Storm:
    """`blockage` says what a stopped process blocks in the database; empty if the others could go on."""

    size: StormSize
    address: str
    board: Board
    blockage: Callable[[], Awaitable[str]]
    kills: dict[str, int] = field(default_factory=dict[str, int])
    freezes: list[Freeze] = field(default_factory=list[Freeze])
    readers: list[Reader] = field(default_factory=list[Reader])
    exits: list[str] = field(default_factory=list[str])
    """Processes that ended by themselves."""
    urls: list[str] = field(default_factory=list[str])
    """The gateways that serve at the end."""
    _nursery: Nursery = field(init=False)
    _gateways: list[GatewayAddress] = field(default_factory=list[GatewayAddress])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _held: dict[int, dict[str, None]] = field(default_factory=dict[int, dict[str, None]])
    """The conversations that each process owns, by its own account."""
    _holds_position: int = 0

    def __post_init__(self) -> None:
        self._nursery = Nursery(str(self.board.log))

    @asynccontextmanager
    async def run(self) -> AsyncGenerator[aiohttp.ClientSession]:
        """Run the whole storm. In the block everything that was begun has ended, and the gateways still serve."""
        chance = random.Random(self.size.seed)
        self.board.create()
        try:
            self._start()
            async with aiohttp.ClientSession() as session:
                is_over = asyncio.Event()
                readers = [asyncio.create_task(self._keep_reading(session, is_over)) for _ in range(self.size.readers)]
                work = asyncio.create_task(self._run_until_ended(chance, is_over, readers))
                watch = asyncio.create_task(self._restart_exited())
                try:
                    for task in (await asyncio.wait((work, watch), return_when=asyncio.FIRST_COMPLETED))[0]:
                        task.result()
                finally:
                    for task in (work, watch, *readers):
                        task.cancel()
                    await asyncio.gather(work, watch, *readers, return_exceptions=True)
                self.urls = [one.url for one in self._gateways if one.url]
                yield session
        finally:
            await self._nursery.end()

    async def _run_until_ended(
        self, chance: random.Random, is_over: asyncio.Event, readers: list[asyncio.Task[None]]
    ) -> None:
        await asyncio.gather(self._kill_often(chance), self._freeze_often(chance))
        is_over.set()
        await self._drain()
        async with asyncio.timeout(PATIENCE):
            await asyncio.gather(*readers)

    def _start(self) -> None:
        size, folder = self.size, str(self.board.folder)
        for _ in range(size.workers):
            self._nursery.add(WORKER, run_worker, (self.address, folder, size.lease))
        self._nursery.add(APPROVER, run_approver, (self.address,))
        for _ in range(size.gateways):
            self._add_gateway()

    def _add_gateway(self) -> None:
        addresses: list[GatewayAddress] = []

        def start() -> ForkServerProcess:
            receiving, sending = Pipe(duplex=False)
            arguments = (self.address, str(self.board.effects), self.size.lease, sending)
            process = start_process(run_gateway, arguments, self._nursery.log)
            sending.close()
            for address in addresses:
                address.url = ""

            async def learn() -> None:
                with contextlib.suppress(EOFError, OSError):
                    while not receiving.poll():
                        await asyncio.sleep(_PAUSE)
                    port = receiving.recv()
                    for address in addresses:
                        if address.victim.process is process:
                            address.url = f"http://127.0.0.1:{port}"
                receiving.close()

            tasks.add(task := asyncio.create_task(learn()))
            task.add_done_callback(tasks.discard)
            return process

        tasks: set[asyncio.Task[None]] = set()
        addresses.append(GatewayAddress(self._nursery.add_started(GATEWAY, start)))
        self._gateways += addresses

    def _serving(self) -> list[GatewayAddress]:
        return [one for one in self._gateways if one.url]

    async def _keep_reading(self, session: aiohttp.ClientSession, is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            reader = Reader(f"{RESPONSE_PREFIX}{next(self._numbers)}")
            self.readers.append(reader)
            await reader.read(session, self._serving)

    async def _restart_exited(self) -> None:
        """Start what ended by itself again, and record it: no process of a storm may."""
        while True:
            for victim in self._nursery.victims:
                if victim.has_exited and not victim.is_being_killed:
                    self.exits.append(f"{victim.kind} {victim.pid}: exit code {victim.process.exitcode}")
                    victim.process = victim.start_process()
            if len(self.exits) > _MAX_EXITS:
                raise ServerFailedError(f"the processes end by themselves: {self.exits[-1]}")
            await asyncio.sleep(_PAUSE)

    async def _kill_often(self, chance: random.Random) -> None:
        for _ in range(self.size.kills):
            await asyncio.sleep(chance.uniform(0, self.size.between_kills))
            victim = await self._choose(chance, (WORKER, WORKER, WORKER, WORKER, GATEWAY, GATEWAY, APPROVER))
            for address in self._gateways:
                if address.victim is victim:
                    address.url = ""
            await victim.kill()
            self.kills[victim.kind] = self.kills.get(victim.kind, 0) + 1

    async def _freeze_often(self, chance: random.Random) -> None:
        for _ in range(self.size.freezes):
            await asyncio.sleep(chance.uniform(0, 2 * self.size.between_kills))
            self.freezes.append(await self._freeze(await self._choose(chance, (WORKER, WORKER, WORKER, GATEWAY))))

    async def _choose(self, chance: random.Random, kinds: Sequence[str]) -> Victim:
        """Choose a process that is at work: one that has only just started has nothing to lose."""
        kind = chance.choice(kinds)
        while True:
            all_of_kind = [one for one in self._nursery.victims if one.kind == kind]
            if at_work := [one for one in all_of_kind if self._is_at_work(one)]:
                return chance.choice(at_work)
            if any(is_last_awake(one, all_of_kind) for one in all_of_kind if not one.is_frozen):
                kind = chance.choice(kinds)
            await asyncio.sleep(_PAUSE)

    def _is_at_work(self, victim: Victim) -> bool:
        if victim.is_being_killed or victim.is_frozen or is_last_awake(victim, self._nursery.victims):
            return False
        return victim.kind == APPROVER or bool(self._held_by(victim) or self._readers_of(victim))

    async def _freeze(self, victim: Victim) -> Freeze:
        """Stop a process until the others own all that it owned, or until its lock on the database stops them."""
        victim.freeze()
        began = time.monotonic()
        held, readers = self._held_by(victim), self._readers_of(victim)
        start = self._holds_position if held else self.board.holds.stat().st_size
        blocked_by = ""
        try:
            # Past its lease in any case: it must find out by itself that it owns nothing when it wakes.
            await asyncio.sleep(1.5 * self.size.lease)
            while left := self._not_taken_over(held, start) + [one.task for one in readers if not one.is_over]:
                if time.monotonic() - began > 2 * self.size.lease and (blocked_by := await self.blockage()):
                    break
                if time.monotonic() - began > PATIENCE:
                    blocked_by = f"nothing that is known: {', '.join(left[:5])}"
                    break
                await asyncio.sleep(_PAUSE)
        finally:
            victim.wake()
        return Freeze(victim.kind, len(held) + len(readers), time.monotonic() - began, blocked_by)

    def _held_by(self, victim: Victim) -> list[str]:
        if victim.kind != WORKER:
            return []
        self._read_holds()
        return list(self._held.get(victim.pid, ()))

    def _read_holds(self) -> None:
        """Read the lines that were appended since the last look."""
        with self.board.holds.open(encoding="utf-8") as file:
            file.seek(self._holds_position)
            lines = file.readlines()
            self._holds_position = file.tell()
        for what, pid, name in map(str.split, lines):
            held = self._held.setdefault(int(pid), {})
            if what == "opened":
                held[name] = None
            else:
                held.pop(name, None)

    def _readers_of(self, victim: Victim) -> list[Reader]:
        if victim.kind != GATEWAY:
            return []
        return [one for one in self.readers if one.served_by == victim.pid and one.id and not one.is_over]

    def _not_taken_over(self, held: list[str], start: int) -> list[str]:
        with self.board.holds.open(encoding="utf-8") as file:
            file.seek(start)
            opened = {line.split()[2] for line in file if line.startswith("opened")}
        left = [name for name in held if name not in opened]
        return [name for name in left if name not in self.board.read_ended()] if left else []

    async def _drain(self) -> None:
        """Let no new conversation begin, and wait until all that were begun have ended."""
        lines = self.board.holds.read_text(encoding="utf-8").splitlines()
        numbers = [int(line.split()[2][1:]) for line in lines]
        # As a whole: workers read it at any moment.
        unfinished = self.board.limit.with_suffix(".new")
        unfinished.write_text(str(max(numbers, default=-1) + 1), encoding="utf-8")
        unfinished.replace(self.board.limit)
        limit = self.board.read_limit() or 0
        async with asyncio.timeout(PATIENCE):
            while not {name_of(number) for number in range(limit)} <= self.board.read_ended():
                await asyncio.sleep(_PAUSE)


def is_last_awake(victim: Victim, victims: Sequence[Victim]) -> bool:
    """Whether all others of its kind are stopped, and it alone can take over what they own.

    Killed each time that a client comes to it, it never would, and a client would wait for as long as they are stopped.
    """
    others = [one for one in victims if one is not victim and one.kind == victim.kind]
    return bool(others) and all(one.is_frozen for one in others)


def new_board(folder: Path) -> Board:
    folder.mkdir(parents=True, exist_ok=True)
    return Board(folder)
