"""Workers that pause, die and say goodbye, seen by a bus that looks which tools they serve."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered
from ferrule.core.tool import ToolDefinition
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection, Message
from ferrule.sources.bus.directory import LOOK_SECONDS, MISSED_LOOKS
from ferrule.sources.bus.micro import Endpoint, Identity, definition_bytes, documents
from ferrule.sources.bus.subject import Capability, changes_subject
from ferrule.sources.bus.worker import Worker
from ferrule.sources.fake import FakeSource
from lab.bus_server import NatsServer
from live import bus_victim
from live.bus_parts import nats_client, record_messages, run, worker_process
from waiting import MOMENT, PATIENCE, until

pytestmark = pytest.mark.live
MANY = [ToolDefinition(f"tool_{number}") for number in range(600)]


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


def test_a_worker_that_serves_what_it_served_sends_a_few_dozen_bytes_for_each_look() -> None:
    async def scenario(server: NatsServer) -> None:
        async with (
            Worker(FakeSource(MANY), server.url, server="big"),
            Worker(FakeSource(MANY), server.url, server="big"),
            looking_bus(server) as (bus, announcer),
            record_messages(server.url) as messages,
        ):
            assert len(await names(bus)) == len(MANY)
            # Three pages of one of the two workers: the list of both has the same hash.
            await until(lambda: sum(b"info_response" in message.data for message in messages) == 3)
            messages.clear()
            assert len(await look_again(bus, announcer)) == len(MANY)
            replies = [message.data for message in messages if message.subject.startswith(bus.connection.inbox)]
            assert [len(data) < 64 for data in replies] == [True, True]

    run(scenario)


class ChangingSource(FakeSource):
    """A source whose list of tools the test changes."""

    changed: asyncio.Event

    async def changes(self) -> AsyncGenerator[None]:
        while True:
            await self.changed.wait()
            self.changed.clear()
            yield


def test_a_worker_that_serves_something_else_is_seen_at_once() -> None:
    async def scenario(server: NatsServer) -> None:
        source = ChangingSource(MANY[:2])
        source.changed = asyncio.Event()
        async with Worker(source, server.url), Worker(FakeSource(MANY[:1]), server.url), Bus(server.url) as bus:
            assert await names(bus) == ["tool_0", "tool_1"]
            for tools in (MANY[:3], [ToolDefinition("tool_1", "Another description.")], []):
                changes = bus._change_count
                source._tools = tuple(tools)
                source.changed.set()
                await until(lambda before=changes: bus._change_count > before)
                expected = sorted({tool.name: tool for tool in (MANY[0], *tools)}.values(), key=lambda tool: tool.name)
                assert [(tool.name, tool.description) for tool in await bus.tools()] == [
                    (tool.name, tool.description) for tool in expected
                ]

    run(scenario)


@asynccontextmanager
async def older_worker(server: NatsServer, tool: ToolDefinition) -> AsyncGenerator[None]:
    """A worker as it was before looks were brief: it answers INFO with its list, whatever the request says."""
    capability = Capability.read(tool.bound_capability or "", tool.bound_version)
    endpoint = Endpoint(capability, capability.subject("local"), tool, tool.fingerprint)
    identity = Identity("0" * 22, "ferrule-local", "0.1.0")
    async with nats_client(server.url) as client:

        async def answer_look(message: Message) -> None:
            for document in documents("INFO", identity, [endpoint]):
                await client.send(message.reply, document)

        async def answer_request(message: Message) -> None:
            is_call = message.subject == endpoint.subject
            await client.send(message.reply, b'{"content": "old"}' if is_call else definition_bytes(tool))

        await client.subscribe("$SRV.INFO.ferrule-local", answer_look)
        await client.subscribe("t.local.old.*.*", answer_request, "q")
        await client.flush()
        yield


def test_workers_of_an_older_version_are_found_beside_new_ones() -> None:
    old_tool = ToolDefinition("ancient", bound_capability="old.ancient", bound_version="1.0")

    async def scenario(server: NatsServer) -> None:
        async with (
            older_worker(server, old_tool),
            Worker(FakeSource(MANY), server.url),
            looking_bus(server) as (bus, announcer),
        ):
            assert len(await names(bus)) == len(MANY) + 1
            assert "ancient" in await look_again(bus, announcer)
            assert await bus.call("ancient", {}, CallContext()) == Answered("old")
            assert await bus.call("tool_7", {}, CallContext()) == Answered("done")

    run(scenario)


def test_whoever_answers_a_look_with_nonsense_hides_nothing() -> None:
    async def scenario(server: NatsServer) -> None:
        async with (
            nats_client(server.url) as strange,
            Worker(FakeSource(MANY[:1]), server.url),
            looking_bus(server) as (bus, announcer),
        ):
            (honest,) = await strange.gather("$SRV.INFO.ferrule-local", b'{"brief":true}')
            hash = honest.data.split(b'"')[3]

            async def babble(message: Message) -> None:
                answers: list[Any] = [
                    b'["liar","unknown hash",1]',
                    b'["greedy","another hash",1000000000]',
                    # It claims to serve what the honest worker serves, and sends something else as its list.
                    b'["parrot","%b",1]' % hash,
                    b'["a b\\r\\nPUB t.local.x 0\\r\\n","%b",1]' % hash,
                    b'{"type": "io.nats.micro.v1.info_response", "id": "parrot", "endpoints": []}',
                    b"[" * 1_000,
                ]
                for body in answers:
                    await strange.send(message.reply, body)

            await strange.subscribe("$SRV.INFO.ferrule-local", babble)
            await strange.flush()
            for _ in range(3):
                assert await look_again(bus, announcer) == ["tool_0"]
            assert await bus.call("tool_0", {}, CallContext()) == Answered("done")

    run(scenario)
