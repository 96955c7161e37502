"""Restarts of Postgres and a failover, under load: what happens, the checks, and the report."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Final

import aiohttp

import ferrule.ledger
from lab.bus_server import nats_server
from lab.failover.bus import run_bus_gateway, run_bus_worker
from lab.failover.chat_client import ChatClient
from lab.failover.forwarder import Forwarder, forwarder
from lab.ledger_storm.checks import Findings, check_effects, check_reader
from lab.ledger_storm.processes import Nursery, Victim, start_process
from lab.ledger_storm.reader import GatewayAddress, Reader
from lab.ledger_storm.script import RESPONSE_PREFIX, answer_of, read_effects
from lab.postgres_server import PgBouncer, PostgresServer, pgbouncer, postgres_server, standby_server

STANDBY: Final = "standby"
_PAUSE: Final = 0.05
PATIENCE: Final = 300.0
"""Seconds. Not a measure of speed: it only ends a run that would wait forever."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FailoverSize:
    restarts: int = 3
    """How often Postgres is restarted before the failover, in turn in order and like a crash."""
    answers: int = 8
    """How many requests must be answered between two events, so that each comes under load."""
    clients: int = 3
    """How many clients of the chat API, and as many readers of stored responses."""
    gateways: int = 2
    workers: int = 2
    lease: float = 2.0


@asynccontextmanager
async def _bouncer(target: PostgresServer) -> AsyncGenerator[PgBouncer]:
    with pgbouncer(target) as front:
        yield front


FRONTS: Final = {"forwarder": forwarder, "pgbouncer": _bouncer}
"""What stands before Postgres, and is pointed to the standby."""


@dataclass(slots=True)
class Failover:
    """The load, and what its clients saw."""

    size: FailoverSize
    effects: Path
    log: Path
    chats: list[ChatClient] = field(default_factory=list[ChatClient])
    readers: list[Reader] = field(default_factory=list[Reader])
    events: list[str] = field(default_factory=list[str])
    findings: Findings = field(default_factory=Findings)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def answered(self) -> int:
        return sum(bool(one.answer) for one in self.chats) + sum(one.is_over for one in self.readers)

    async def run(self, front_name: str) -> None:
        self.effects.touch()
        nursery = Nursery(str(self.log))
        with postgres_server() as primary, standby_server(primary, STANDBY) as standby, nats_server() as nats:
            _make_synchronous(primary)
            async with FRONTS[front_name](primary) as front:
                try:
                    await _start_workers(nursery, self.size.workers, nats.url, str(self.effects))
                    arguments = (front.address, nats.url, self.size.lease)
                    gateways = [await _start_gateway(nursery, arguments) for _ in range(self.size.gateways)]
                    async with aiohttp.ClientSession() as session:
                        await self._run_events(session, gateways, front, primary, standby)
                        await self._check(session, gateways[0].url, standby.address)
                finally:
                    await nursery.end()

    async def _run_events(
        self,
        session: aiohttp.ClientSession,
        gateways: list[GatewayAddress],
        front: Forwarder | PgBouncer,
        primary: PostgresServer,
        standby: PostgresServer,
    ) -> None:
        is_over = asyncio.Event()
        urls = [one.url for one in gateways]
        load = [asyncio.create_task(self._chat(session, urls, is_over)) for _ in range(self.size.clients)]
        load += [asyncio.create_task(self._read(session, gateways, is_over)) for _ in range(self.size.clients)]
        try:
            for number in range(self.size.restarts):
                await self._wait_for_answers(load)
                mode = ("fast", "immediate")[number % 2]
                await asyncio.to_thread(primary.stop, mode)
                await asyncio.to_thread(primary.start)
                self.events.append(f"restart ({mode}) after {self.answered} answers")
            await self._wait_for_answers(load)
            await asyncio.to_thread(primary.stop, "immediate")
            await asyncio.to_thread(standby.promote)
            front.point_to(standby)
            self.events.append(f"failover after {self.answered} answers")
            await self._wait_for_answers(load)
            is_over.set()
            async with asyncio.timeout(PATIENCE):
                await asyncio.gather(*load)
        finally:
            for task in load:
                task.cancel()
            await asyncio.gather(*load, return_exceptions=True)

    async def _wait_for_answers(self, load: Sequence[asyncio.Task[None]]) -> None:
        wanted = self.answered + self.size.answers
        async with asyncio.timeout(PATIENCE):
            while self.answered < wanted:
                for task in load:
                    if task.done():
                        task.result()
                await asyncio.sleep(_PAUSE)

    async def _chat(self, session: aiohttp.ClientSession, urls: Sequence[str], is_over: asyncio.Event) -> None:
        while not is_over.is_set():
            client = ChatClient(f"{RESPONSE_PREFIX}{next(self._numbers)}")
            self.chats.append(client)
            await client.ask(session, urls)

    async def _read(
        self, session: aiohttp.ClientSession, gateways: list[GatewayAddress], is_over: asyncio.Event
    ) -> None:
        while not is_over.is_set():
            reader = Reader(f"{RESPONSE_PREFIX}{next(self._numbers)}")
            self.readers.append(reader)
            await reader.read(session, lambda: gateways)

    async def _check(self, session: aiohttp.ClientSession, url: str, address: str) -> None:
        effects = read_effects(self.effects)
        check_effects(effects, self.findings)
        by_item = {one.item: one for one in effects}
        for client in self.chats:
            self.findings.counts["chat answers"] += 1
            self.findings.counts["chat attempts"] += client.attempts
            self.findings.require(
                client.answer.endswith(answer_of(client.task)), f"{client.task} was answered with {client.answer!r}"
            )
            for refusal, count in client.refusals.items():
                self.findings.counts[f"chat client saw: {refusal}"] += count
        for reader in self.readers:
            await check_reader(session, url, reader, by_item, self.findings)
        async with ferrule.ledger.open(address) as ledger:
            breach = await ledger.verify()
        self.findings.require(breach is None, f"the audit log: {breach}")

    @property
    def unretryable(self) -> list[str]:
        """Errors that forbade a client to send its request again, although sending it again ended well."""
        return [error for client in self.chats for error in client.unretryable]


def _make_synchronous(primary: PostgresServer) -> None:
    """From now on a commit waits for the standby. Not in the files of the server, which the standby has a copy of."""
    primary.stop("fast")
    primary.settings["synchronous_standby_names"] = STANDBY
    primary.start()


async def _start_workers(nursery: Nursery, count: int, url: str, effects: str) -> None:
    for _ in range(count):
        await _start(nursery, "worker", run_bus_worker, (url, effects))


async def _start_gateway(nursery: Nursery, arguments: tuple[Any, ...]) -> GatewayAddress:
    victim, port = await _start(nursery, "gateway", run_bus_gateway, arguments)
    return GatewayAddress(victim, f"http://127.0.0.1:{port}")


async def _start(
    nursery: Nursery, kind: str, target: Callable[..., None], arguments: tuple[Any, ...]
) -> tuple[Victim, int]:
    receiving, sending = Pipe(duplex=False)
    victim = nursery.add_started(kind, lambda: start_process(target, (*arguments, sending), nursery.log))
    sending.close()
    with contextlib.closing(receiving):
        return victim, await asyncio.to_thread(receiving.recv)


@dataclass(frozen=True, slots=True)
class FailoverResult:
    failover: Failover
    seconds: float


async def run_failover(front: str, size: FailoverSize, folder: Path) -> FailoverResult:
    began = time.monotonic()
    failover = Failover(size, folder / "effects", folder / "log")
    await failover.run(front)
    return FailoverResult(failover, time.monotonic() - began)


def report(front: str, result: FailoverResult) -> str:
    """Return the counts of a run as text."""
    failover = result.failover
    lines = [f"{front}: {len(failover.events)} events, {result.seconds:.0f} s"]
    lines += [f"  {event}" for event in failover.events]
    lines += [f"  {name}: {count}" for name, count in sorted(failover.findings.counts.items())]
    lines += [f"  marked as not to be sent again: {code} x {n}" for code, n in _codes(failover.unretryable).items()]
    lines += [f"  failed by an owner that was late: {one}" for one in failover.findings.broken_off]
    lines.append(f"  breaches: {len(failover.findings.breaches)}")
    lines += [f"    {breach}" for breach in failover.findings.breaches[:50]]
    return "\n".join(lines)


def _codes(errors: list[str]) -> Counter[str]:
    return Counter(error.split(": ", 2)[1] for error in errors)
