"""A task of an MCP server, and gateways that are killed while it runs: one task is begun, and it has one result."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from architecture.source_tree import SRC
from live.task_world import TaskServer, on_http
from run.ledger_databases import Database, postgres_cluster, postgres_database, sqlite_database
from waiting import PATIENCE, until

pytestmark = pytest.mark.live
PROGRAM = Path(__file__).with_name("task_gateway.py")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@dataclass(slots=True)
class Client:
    """A client of one gateway after another. Only one runs at a time."""

    ledger: str
    server: TaskServer
    session: aiohttp.ClientSession
    url: str = ""
    processes: list[asyncio.subprocess.Process] = field(default_factory=list[asyncio.subprocess.Process])

    async def start(self) -> None:
        arguments = (str(PROGRAM), self.ledger, str(self.server.folder), str(self.server.port))
        path = os.pathsep.join((str(SRC), str(PROGRAM.parents[1])))
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, *arguments), stdout=asyncio.subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
        )
        self.processes.append(process)
        assert process.stdout is not None
        said = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        self.url = f"http://127.0.0.1:{int(said.split()[1])}"

    async def end(self, kind: signal.Signals = signal.SIGKILL) -> None:
        process = self.processes[-1]
        if process.returncode is None:
            process.send_signal(kind)
            await asyncio.wait_for(process.wait(), PATIENCE)

    async def restart(self, kind: signal.Signals = signal.SIGKILL) -> None:
        await self.end(kind)
        await self.start()

    async def get(self, path: str) -> Any:
        async with self.session.get(f"{self.url}{path}") as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def post(self, path: str, body: Any) -> Any:
        async with self.session.post(f"{self.url}{path}", json=body) as answer:
            assert answer.status == 200, await answer.text()
            return await answer.json()

    async def pending(self) -> list[Any]:
        return (await self.get("/v1/approvals?state=pending"))["data"]

    async def approve(self, tool: str, answer: Any = None) -> None:
        """Approve what waits, as soon as it does. A question of a gateway that was killed waits too, for nobody."""
        async with asyncio.timeout(PATIENCE):
            while not (waiting := [one for one in await self.pending() if one["tool"] == tool]):
                await asyncio.sleep(0.05)
        for one in waiting:
            changed = {} if answer is None else {"arguments": {**json.loads(one["arguments"]), "answer": answer}}
            await self.post(f"/v1/approvals/{one['id']}", {"approve": True, **changed})

    async def polled_again(self) -> None:
        """Wait until the gateway that runs now waits for the task."""
        seen = len(self.server.lines("polled"))
        await until(lambda: len(self.server.lines("polled")) > seen)

    async def response(self, id: str) -> Any:
        async with asyncio.timeout(PATIENCE):
            while True:
                response = await self.get(f"/v1/responses/{id}")
                if response["status"] not in ("queued", "in_progress"):
                    return response
                await asyncio.sleep(0.05)


@asynccontextmanager
async def opened(home: Database, server: TaskServer) -> AsyncGenerator[Client]:
    async with aiohttp.ClientSession() as session:
        client = Client(home.where, server, session)
        try:
            await client.start()
            yield client
        finally:
            for process in client.processes:
                if process.returncode is None:
                    process.kill()
                    await process.wait()


def check(server: TaskServer, response: Any) -> None:
    assert response["status"] == "completed", response["error"]
    assert "The result: rain is done {'colour': 'blue'}" in json.dumps(response["output"])
    assert len(server.lines("started")) == 1
    assert not server.lines("cancelled")


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_killed_three_times_a_gateway_begins_one_task_and_has_one_result(
    kind: str, cluster: Path, tmp_path: Path
) -> None:
    home = sqlite_database(tmp_path) if kind == "sqlite" else postgres_database(cluster)

    async def run(server: TaskServer) -> Any:
        async with opened(home, server) as client:
            response = await client.post("/v1/responses", {"input": "go", "background": True})
            await client.approve("tasks_research")
            await client.polled_again()
            await client.restart()
            await client.polled_again()
            server.make("ask")
            async with asyncio.timeout(PATIENCE):
                while not await client.pending():
                    await asyncio.sleep(0.05)
            # In the middle of the question, which the next gateway asks again.
            asked = len(await client.pending())
            await client.restart()
            async with asyncio.timeout(PATIENCE):
                while len(await client.pending()) == asked:
                    await asyncio.sleep(0.05)
            await client.approve("tasks asks", {"colour": "blue"})
            await until(lambda: bool(list(server.folder.glob("answer-*"))))
            await client.restart()
            await client.polled_again()
            server.make("finish")
            return await client.response(response["id"])

    with on_http(tmp_path) as server:
        check(server, asyncio.run(run(server)))


def test_a_gateway_that_is_stopped_leaves_the_task_to_the_next_one(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> Any:
        async with opened(sqlite_database(tmp_path), server) as client:
            response = await client.post("/v1/responses", {"input": "go", "background": True})
            await client.approve("tasks_research")
            await client.polled_again()
            await client.restart(signal.SIGTERM)
            await client.polled_again()
            server.make("finish")
            return await client.response(response["id"])

    with on_http(tmp_path) as server:
        response = asyncio.run(run(server))
        assert response["status"] == "completed", response["error"]
        assert len(server.lines("started")) == 1
        assert not server.lines("cancelled")


def test_a_cancelled_response_cancels_its_task(tmp_path: Path) -> None:
    async def run(server: TaskServer) -> Any:
        async with opened(sqlite_database(tmp_path), server) as client:
            response = await client.post("/v1/responses", {"input": "go", "background": True})
            await client.approve("tasks_research")
            await client.polled_again()
            await client.post(f"/v1/responses/{response['id']}/cancel", {})
            await until(lambda: bool(server.lines("cancelled")))

    with on_http(tmp_path) as server:
        asyncio.run(run(server))
