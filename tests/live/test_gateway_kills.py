"""Gateways on one Postgres, one of them killed in the middle of its tool rounds, again and again.

Whoever reads comes back to another process and asks for the rest: every event comes once, every response ends, and
nothing that a tool does happens twice.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from architecture.source_tree import SRC
from lab.gateway_process import SMOL
from live.kills_gateway import SCRIPT
from run.ledger_databases import Database, postgres_cluster, postgres_database

pytestmark = pytest.mark.live
KILLS = int(os.environ.get("FERRULE_KILLS", "3"))
SMOL_KILLS = 1
LEASE = 1.0
LAST = ("response.completed", "response.incomplete", "response.failed")
PATIENCE = 90.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@dataclass(slots=True)
class Gateway:
    """`url` is empty until it serves."""

    process: asyncio.subprocess.Process
    url: str = ""

    async def kill(self) -> None:
        self.url = ""
        if self.process.returncode is None:
            self.process.kill()
            await self.process.wait()


@dataclass(slots=True)
class Fleet:
    """Gateways on one ledger. The first is the next to be killed."""

    ledger: str
    effects: Path
    engine: str
    gateways: list[Gateway] = field(default_factory=list[Gateway])

    async def start(self) -> None:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, str(Path(__file__).with_name("kills_gateway.py"))),
            *(self.ledger, str(self.effects), self.engine, str(LEASE)),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(SRC)},
        )
        gateway = Gateway(process)
        self.gateways.append(gateway)
        assert process.stdout is not None
        said = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        gateway.url = f"http://127.0.0.1:{int(said.split()[1])}"

    @property
    def alive(self) -> list[Gateway]:
        return [one for one in self.gateways if one.url]


@asynccontextmanager
async def fleet_of(home: Database, effects: Path, engine: str) -> AsyncGenerator[Fleet]:
    fleet = Fleet(home.where, effects, engine)
    try:
        await asyncio.gather(fleet.start(), fleet.start())
        yield fleet
    finally:
        for gateway in fleet.gateways:
            await gateway.kill()


@dataclass(slots=True)
class Reader:
    """One client: what it was told, and how often it had to come back."""

    body: dict[str, Any]
    id: str = ""
    events: list[Any] = field(default_factory=list[Any])
    returns: int = 0
    has_begun: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        return bool(self.events) and self.events[-1]["type"] in LAST

    async def read(self, session: aiohttp.ClientSession, fleet: Fleet, first: Gateway) -> None:
        until = time.monotonic() + PATIENCE
        with suppress(aiohttp.ClientError, ConnectionError):
            if self.body.get("background"):
                async with session.post(f"{first.url}/v1/responses", json=self.body) as answer:
                    self.id = (await answer.json())["id"]
                await self._take(session.get(f"{first.url}/v1/responses/{self.id}", params={"stream": "true"}))
            else:
                await self._take(session.post(f"{first.url}/v1/responses", json=self.body))
        while self.id and not self.is_over:
            assert time.monotonic() < until, f"not over: {[event['type'] for event in self.events[-3:]]}"
            asked = {"stream": "true", "starting_after": str(len(self.events) - 1)}
            self.returns += 1
            with suppress(aiohttp.ClientError, ConnectionError):
                await self._take(session.get(f"{fleet.alive[-1].url}/v1/responses/{self.id}", params=asked))

    async def _take(self, asking: Any) -> None:
        async with asking as answer:
            assert answer.status == 200, await answer.text()
            async for line in answer.content:
                if line.startswith(b"data: {"):
                    event = json.loads(line.removeprefix(b"data: "))
                    # The very next one: neither lost nor told again.
                    assert event["sequence_number"] == len(self.events)
                    self.events.append(event)
                    self.id = self.events[0]["response"]["id"]
                    self.has_begun.set()


@dataclass(slots=True)
class Tally:
    kills: int = 0
    in_the_middle: int = 0
    ended: int = 0
    unheard: int = 0
    returns: int = 0
    events: int = 0
    unknown: int = 0


async def killed_once(fleet: Fleet, session: aiohttp.ClientSession, bodies: Sequence[Any], chance: Any, tally: Tally):  # type: ignore[no-untyped-def]
    """Ask the first gateway, kill it at some moment, and read to the end elsewhere."""
    victim = fleet.alive[0]
    readers = [Reader(dict(body)) for body in bodies]
    reading = [asyncio.ensure_future(one.read(session, fleet, victim)) for one in readers]
    begun = [asyncio.ensure_future(one.has_begun.wait()) for one in readers]
    # A real model keeps a stream's first word back for long: who has heard nothing yet knows no id to come back with.
    enough = asyncio.FIRST_COMPLETED if fleet.engine == SCRIPT else asyncio.ALL_COMPLETED
    await asyncio.wait(begun, return_when=enough, timeout=PATIENCE)
    await asyncio.sleep(chance())
    tally.in_the_middle += sum(not one.is_over for one in readers)
    await victim.kill()
    tally.kills += 1
    starting = asyncio.ensure_future(fleet.start())
    await asyncio.gather(*reading)
    await starting
    for task in begun:
        task.cancel()
    for one in readers:
        if one.events:
            check(one.events)
            tally.ended += 1
            tally.unknown += sum("unknown: " in json.dumps(item) for item in one.events[-1]["response"]["output"])
        else:
            tally.unheard += 1
        tally.returns += one.returns
        tally.events += len(one.events)


def check(events: Sequence[Any]) -> None:
    """A whole stream: every item is begun and ended once, and the response holds them in order."""
    added = [event["item"]["id"] for event in events if event["type"] == "response.output_item.added"]
    done = [event["item"]["id"] for event in events if event["type"] == "response.output_item.done"]
    response = events[-1]["response"]
    assert sorted(added) == sorted(done)
    assert len(set(done)) == len(done)
    assert [item["id"] for item in response["output"]] == added
    assert response["status"] in ("completed", "incomplete"), response["error"]


async def settled(home: Database) -> list[tuple[Any, ...]]:
    """How every response in the ledger ended, once all have, also those that nobody reads."""
    until = time.monotonic() + PATIENCE
    while True:
        found = home.execute("SELECT status, COUNT(*) FROM ferrule_response GROUP BY status ORDER BY status", ())
        if not {status for status, _ in found} & {"queued", "in_progress"}:
            return found
        assert time.monotonic() < until, found
        await asyncio.sleep(0.2)


async def killed_often(
    home: Database, effects: Path, engine: str, kills: int, bodies: Sequence[Any], chance: Any
) -> Tally:
    tally = Tally()
    timeout = aiohttp.ClientTimeout(total=None, sock_read=PATIENCE)
    async with fleet_of(home, effects, engine) as fleet, aiohttp.ClientSession(timeout=timeout) as session:
        for _ in range(kills):
            await killed_once(fleet, session, bodies, chance, tally)
        ends = await settled(home)
    lines = effects.read_text().splitlines()
    twice = [line for line, times in Counter(lines).items() if times > 1]
    print(
        f"\n{engine.partition(':')[0]}: {tally.kills} kills with {tally.in_the_middle} responses under way; "
        f"{tally.ended} read to the end over {tally.returns} returns, {tally.events} events each once; "
        f"{tally.unheard} unheard of; in the ledger {dict(ends)}; {len(lines)} effects, {len(twice)} twice, "
        f"{tally.unknown} of unknown outcome"
    )
    assert twice == []
    assert tally.kills == kills
    assert tally.in_the_middle >= kills
    assert tally.ended >= 2 * kills
    return tally


def test_killed_again_and_again_every_response_ends_and_no_effect_and_no_event_comes_twice(
    cluster: Path, tmp_path: Path
) -> None:
    home, effects = postgres_database(cluster), tmp_path / "effects"
    effects.touch()
    bodies = [{"input": "go", "stream": True}, {"input": "go", "stream": True}, {"input": "go", "background": True}]
    moment = random.Random(20)
    asyncio.run(killed_often(home, effects, SCRIPT, KILLS, bodies, lambda: moment.uniform(0.0, 0.9)))


@pytest.mark.long
def test_with_a_real_model_it_is_the_same(cluster: Path, tmp_path: Path) -> None:
    home, effects = postgres_database(cluster), tmp_path / "effects"
    effects.touch()
    notes = {"type": "mcp", "server_label": "notes", "require_approval": "never"}
    asked = {"input": "Note that Paris is large.", "tools": [notes], "tool_choice": "required", "max_output_tokens": 60}
    bodies = [{**asked, "stream": True}, {**asked, "background": True}]
    moment = random.Random(3)
    asyncio.run(killed_often(home, effects, SMOL, SMOL_KILLS, bodies, lambda: moment.uniform(0.0, 2.0)))
