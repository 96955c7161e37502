"""Workers that pause, die and say goodbye, seen by a bus that looks which tools they serve."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection
from ferrule.sources.bus.directory import LOOK_SECONDS, MISSED_LOOKS
from ferrule.sources.bus.subject import changes_subject
from lab.bus_server import NatsServer
from live import bus_victim
from live.bus_parts import nats_client, record_messages, run, worker_process
from waiting import MOMENT, PATIENCE, until

pytestmark = pytest.mark.live


async def names(bus: Bus) -> list[str]:
    return [tool.name for tool in await bus.tools()]


@asynccontextmanager
async def looking_bus(server: NatsServer) -> AsyncGenerator[tuple[Bus, Connection]]:
    """A bus, and a client that can make its list of tools stale."""
    async with Bus(server.url) as bus, nats_client(server.url) as announcer:
        yield bus, announcer


async def look_again(bus: Bus, announcer: Connection) -> list[str]:
    """The tools after a new look."""
    changes = bus._change_count
    await announcer.send(changes_subject("local"))
    await until(lambda: bus._change_count > changes)
    return await names(bus)


def test_the_tools_of_a_worker_that_pauses_stay(tmp_path: Path) -> None:
    async def scenario(server: NatsServer) -> None:
        with worker_process(
            f"{bus_victim.__file__}:TOOLS", "--nats", server.url, env={bus_victim.PLACE: str(tmp_path / "place")}
        ) as process:
            async with looking_bus(server) as (bus, announcer):
                assert await names(bus) == ["happen"]
                process.send_signal(signal.SIGSTOP)
                # Each of these looks is missed, and all of them are one pause.
                for _ in range(MISSED_LOOKS + 1):
                    assert await look_again(bus, announcer) == ["happen"]
                process.send_signal(signal.SIGCONT)
                assert await look_again(bus, announcer) == ["happen"]
                assert await bus.call("happen", {"number": 1}, CallContext()) == Answered(1)

    run(scenario)


def test_a_worker_that_is_killed_disappears_after_the_looks_that_it_missed(tmp_path: Path) -> None:
    async def scenario(server: NatsServer) -> None:
        place = tmp_path / "place"
        with worker_process(
            f"{bus_victim.__file__}:TOOLS", "--nats", server.url, env={bus_victim.PLACE: str(place)}
        ) as process:
            async with looking_bus(server) as (bus, _), record_messages(server.url, "$SRV.INFO.>") as looks:
                assert await names(bus) == ["happen"]
                process.kill()
                process.wait()
                killed_at, looks_before = time.monotonic(), len(looks)
                async with asyncio.timeout(PATIENCE):
                    while await names(bus):
                        # The tool is still listed. A call is refused at once, and certainly did not run.
                        started = time.monotonic()
                        outcome = await bus.call("happen", {"number": 1}, CallContext())
                        assert isinstance(outcome, NotDelivered)
                        assert time.monotonic() - started < MOMENT
                        await asyncio.sleep(0.1)
                assert time.monotonic() - killed_at >= LOOK_SECONDS * (MISSED_LOOKS - 1)
                assert len(looks) - looks_before >= MISSED_LOOKS
        assert not place.exists()

    run(scenario)


def test_a_worker_that_is_stopped_says_goodbye_and_disappears_at_once(tmp_path: Path) -> None:
    async def scenario(server: NatsServer) -> None:
        with worker_process(
            f"{bus_victim.__file__}:TOOLS", "--nats", server.url, env={bus_victim.PLACE: str(tmp_path / "place")}
        ) as process:
            async with looking_bus(server) as (bus, _):
                assert await names(bus) == ["happen"]
                changes = bus._change_count
                process.terminate()
                await until(lambda: bus._change_count > changes)
                assert await names(bus) == []

    run(scenario)


def test_a_goodbye_in_anothers_name_lasts_until_the_next_look(tmp_path: Path) -> None:
    async def scenario(server: NatsServer) -> None:
        with worker_process(
            f"{bus_victim.__file__}:TOOLS", "--nats", server.url, env={bus_victim.PLACE: str(tmp_path / "place")}
        ):
            async with looking_bus(server) as (bus, announcer):
                assert await names(bus) == ["happen"]
                (worker,) = bus._directory.workers
                changes = bus._change_count
                for body in (b'{"gone": "%b"}' % worker.id.encode(), b'{"gone": 7}', b"\xff", b"[]", b'"gone"'):
                    await announcer.send(changes_subject("local"), body)
                await until(lambda: bus._change_count == changes + 5)
                assert await names(bus) == ["happen"]

    run(scenario)
