"""Use a ledger as a program does: a process that `ledger_costs` asks by turns with another checkout's.

It reads one JSON object per line and answers with one. It takes `ferrule` from wherever PYTHONPATH points, and uses
only what every version of it has. It measures what only this process knows: its CPU and wall time, and what it writes
to files. The server's share is measured by `ledger_server`. Ledgers stay open between requests.

    {"measure": "turns", "address": "ledger.db", "script": "pay 1", "conversations": 2, "turns": 1}
    {"cpu": 0.031, "seconds": 0.05, "smallest": 0.02, "written": 40960, "done": 2}
"""

import asyncio
import itertools
import json
import sqlite3
import sys
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg

import ferrule.ledger
from ferrule import ToolConversation
from lab.ledger_content import call_recorder, fill, list_once, rare_conversations
from lab.ledger_script import LEASE_SECONDS, ROUNDS, TENANT, ScriptedEngine, history, open_conversation

Request = Mapping[str, Any]
Answer = dict[str, Any]
_ROW: Final = json.dumps({"tool": "pay", "arguments": {"order": 1, "note": "for the order of last Tuesday"}}) * 3


class Session:
    """The ledgers, connections and conversations that are open."""

    def __init__(self) -> None:
        self.engine = ScriptedEngine()
        self._ledgers: dict[str, Any] = {}
        self._connections: dict[str, list[Any]] = {}
        self._conversations: dict[str, ToolConversation] = {}
        self._holders: list[asyncio.Task[Any]] = []
        self._old: list[str] = []

    async def ledger(self, address: str) -> Any:
        """The open ledger of an address; None for the empty one."""
        if address and address not in self._ledgers:
            self._ledgers[address] = await ferrule.ledger.open(address)
        return self._ledgers.get(address)

    async def turns(self, request: Request) -> Answer:
        """Conversations one after another, each opened, with so many turns, and closed."""
        ledger = await self.ledger(request["address"])

        async def converse() -> None:
            conversation = await open_conversation(ledger, _new_id(), self.engine)
            for _ in range(request["turns"]):
                await conversation.send_message(request["script"])
            await conversation.close()

        return await _measured(request["conversations"], 1, converse)

    async def prepare(self, request: Request) -> Answer:
        """Open a conversation that has so many messages, for `turn`."""
        ledger = await self.ledger(request["address"])
        conversation = await open_conversation(ledger, _new_id(), self.engine)
        await conversation.send_message(history(request["messages"] - 1))
        self._conversations[request["name"]] = conversation
        return {"messages": len(conversation.messages)}

    async def turn(self, request: Request) -> Answer:
        """Turns in a conversation that `prepare` has opened."""
        conversation = self._conversations[request["name"]]

        async def converse() -> None:
            await conversation.send_message(request["script"])

        return await _measured(request["turns"], 1, converse)

    async def calls(self, request: Request) -> Answer:
        """Calls with side effects, so many at once, each in a conversation of its own: five calls in each turn."""
        ledger = await self.ledger(request["address"])
        conversations = [await open_conversation(ledger, _new_id(), self.engine) for _ in range(request["width"])]
        free = list(conversations)

        async def converse() -> None:
            conversation = free.pop()
            await conversation.send_message(f"rounds {ROUNDS}")
            free.append(conversation)

        answer = await _measured(request["turns"], request["width"], converse)
        for conversation in conversations:
            await conversation.close()
        return {**answer, "done": answer["done"] * ROUNDS}

    async def direct(self, request: Request) -> Answer:
        """Calls recorded by the ledger's own methods, so many at once; nothing is done where they are not known."""
        ledger = await self.ledger(request["address"])
        recorders = [await call_recorder(ledger, _new_id()) for _ in range(request["width"])]
        free = [recorder for recorder in recorders if recorder is not None]
        if not free:
            return {"done": 0}

        async def call() -> None:
            recorder = free.pop()
            await recorder()
            free.append(recorder)

        return await _measured(request["calls"], request["width"], call)

    async def bare(self, request: Request) -> Answer:
        """Two rows for each call, each inserted and committed by itself, over so many connections."""
        if not request["address"].startswith("postgresql:"):
            return await asyncio.to_thread(_bare_sqlite, request["address"], request["calls"])
        connections = self._connections.setdefault(request["address"], [])
        while len(connections) < request["connections"]:
            connections.append(await psycopg.AsyncConnection.connect(request["address"], autocommit=True))
        await connections[0].execute("CREATE TABLE IF NOT EXISTS bare (id BIGSERIAL PRIMARY KEY, data TEXT)")
        free: asyncio.Queue[Any] = asyncio.Queue()
        for connection in connections[: request["connections"]]:
            free.put_nowait(connection)

        async def call() -> None:
            for _ in range(2):
                connection = await free.get()
                await connection.execute("INSERT INTO bare (data) VALUES (%s)", (_ROW,))
                free.put_nowait(connection)

        return await _measured(request["calls"], request["width"], call)

    async def hold(self, request: Request) -> Answer:
        """Begin turns that do not end, each in a conversation of its own, until `release`."""
        ledger = await self.ledger(request["address"])
        numbers = iter(range(request["count"]))

        async def keep_opening() -> None:
            for _ in numbers:
                conversation = await open_conversation(ledger, _new_id(), self.engine, lease=LEASE_SECONDS)
                waiting = self.engine.waiting
                self._holders.append(asyncio.ensure_future(conversation.send_message("hold")))
                while self.engine.waiting == waiting:
                    await asyncio.sleep(0.002)

        await asyncio.gather(*(keep_opening() for _ in range(8)))
        while self.engine.waiting < request["count"]:
            await asyncio.sleep(0.01)
        return {"held": self.engine.waiting}

    async def release(self, request: Request) -> Answer:
        """End the turns that `hold` began, and return how many failed, such as those whose lease ran out."""
        self.engine.release.set()
        results = await asyncio.gather(*self._holders, return_exceptions=True)
        self.engine.release.clear()
        self._holders.clear()
        self.engine.waiting = 0
        return {"failed": sum(isinstance(result, BaseException) for result in results)}

    async def idle(self, request: Request) -> Answer:
        """Wait, and return the CPU that was spent meanwhile."""
        started = time.process_time()
        await asyncio.sleep(request["seconds"])
        return {"cpu": time.process_time() - started}

    async def fill(self, request: Request) -> Answer:
        """Add conversations to a ledger: see `ledger_content`."""
        ledger = await self.ledger(request["address"])
        return await fill(ledger, self.engine, request["first"], request["count"], request["width"])

    async def model(self, request: Request) -> Answer:
        """Add one conversation with an effect, as a model for others."""
        ledger = await self.ledger(request["address"])
        conversation = await open_conversation(ledger, request["id"], self.engine)
        await conversation.send_message("pay 1")
        await conversation.close()
        return {}

    async def list(self, request: Request) -> Answer:
        """A list of a ledger, so many times: see `ledger_content`."""
        ledger = await self.ledger(request["address"])
        counts: list[int] = []

        async def read() -> None:
            counts.append(len(await list_once(ledger, request["list"], TENANT)))

        return {**await _measured(request["times"], 1, read), "rows": counts[-1]}

    async def old_conversations(self, request: Request) -> Answer:
        """Open conversations that are in the ledger, or run a turn with an effect in them after that."""
        ledger = await self.ledger(request["address"])
        if not self._old:
            self._old = await rare_conversations(ledger, TENANT)
        opened: list[ToolConversation] = []

        async def open_next() -> None:
            opened.append(await open_conversation(ledger, self._old[len(opened) % len(self._old)], self.engine))
            if not request["with_turn"]:
                await opened[-1].close()

        answer = await _measured(min(request["times"], len(self._old)), 1, open_next)
        if request["with_turn"]:
            ready = [conversation for conversation in opened if not conversation.is_unfinished]
            waiting = iter(ready)

            async def converse() -> None:
                await next(waiting).send_message("pay 1")

            answer = await _measured(len(ready), 1, converse)
            for conversation in opened:
                await conversation.close()
        return answer

    async def close(self, request: Request) -> Answer:
        """Close what belongs to an address."""
        address = request["address"]
        self._conversations.clear()
        self._old.clear()
        for connection in self._connections.pop(address, []):
            await connection.close()
        ledger = self._ledgers.pop(address, None)
        if ledger is not None:
            await ledger.close()
        return {}


_ids = itertools.count(1)


def _new_id() -> str:
    return f"{uuid.uuid4().hex[:8]}-{next(_ids)}"


async def _measured(times: int, width: int, work: Callable[[], Awaitable[None]]) -> Answer:
    """Do the work so many times, so many at once, and return what it cost this process."""
    remaining = iter(range(times))
    smallest = float("inf")

    async def keep_working() -> None:
        nonlocal smallest
        for _ in remaining:
            began = time.perf_counter()
            await work()
            smallest = min(smallest, time.perf_counter() - began)

    cpu, started, written = time.process_time(), time.perf_counter(), _written()
    await asyncio.gather(*(keep_working() for _ in range(width)))
    return {
        "cpu": time.process_time() - cpu,
        "seconds": time.perf_counter() - started,
        "smallest": smallest,
        "written": _written() - written,
        "done": times,
    }


def _written() -> int:
    """The bytes that this process has written, to files and sockets."""
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


def _bare_sqlite(address: str, calls: int) -> Answer:
    with closing(sqlite3.connect(address, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("CREATE TABLE IF NOT EXISTS bare (id INTEGER PRIMARY KEY, data TEXT)")
        cpu, started, written = time.process_time(), time.perf_counter(), _written()
        for _ in range(2 * calls):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO bare (data) VALUES (?)", (_ROW,))
            connection.execute("COMMIT")
        return {
            "cpu": time.process_time() - cpu,
            "seconds": time.perf_counter() - started,
            "written": _written() - written,
            "done": calls,
        }


async def _serve() -> None:
    session = Session()
    while line := await asyncio.to_thread(sys.stdin.readline):
        request = json.loads(line)
        print(json.dumps(await getattr(session, request["measure"])(request)), flush=True)


def main() -> None:
    asyncio.run(_serve())


if __name__ == "__main__":
    main()
