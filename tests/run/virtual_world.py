"""One conversation among people, processes and workers that start and die, in virtual time, from one seed."""

from __future__ import annotations

import asyncio
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.errors import EngineUnavailableError, FencedError, LedgerError
from ferrule.run.conversation import ToolConversation
from ferrule.run.executor import ToolExecutor
from ferrule.run.ledger.heartbeat import Beat, Heartbeat
from ferrule.run.ledger.ledger import ApprovalState
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.sqlite import make_tables, run_transaction
from ferrule.run.ledger.transaction import Transaction
from ferrule.run.machine import State
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Functions
from run.virtual_bus import Broker, Line

T = TypeVar("T")
ANN = CallContext(principal=Principal("ann", "local"))
LEASE = 10.0
LONGEST = 20_000.0
STEPS = (("look",), ("pay", "look"), ("post",), ("pay", "post", "look"))


class MemoryLedger(SqlLedger):
    """The real ledger over SQLite without a file or a thread. `is_alive` is that of the owning process."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        super().__init__()
        self.connection = connection
        self.is_alive = True

    async def _transact(self, transaction: Transaction[T], *, is_atomic: bool = False) -> T:
        # A pause, so that other tasks run in between.
        await asyncio.sleep(0.0001)
        if not self.is_alive:
            await asyncio.Event().wait()
        return run_transaction(self.connection, transaction, is_atomic=is_atomic)

    def _make_heartbeat(self, owner: str, lease: float, clock: Callable[[], float]) -> Heartbeat:
        return VirtualHeartbeat(self._held, owner, lease, clock, self._open_beat)

    def _open_beat(self) -> Beat:
        raise NotImplementedError

    async def close(self) -> None:
        return


class VirtualHeartbeat(Heartbeat):
    """Signs of life in virtual time, which no thread has. They end with the process: see `MemoryLedger`."""

    _beating: asyncio.Task[None] | None = None

    async def begin(self, write: Callable[[float], Awaitable[None]]) -> None:
        await self._write_first(write)
        if self._beating is None:
            self._beating = asyncio.ensure_future(self._beat_for_ever(write))

    async def _beat_for_ever(self, write: Callable[[float], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(self._lease / 3)
            if self._held.keeps_any(self._owner):
                await self._write_first(write)


@dataclass(slots=True)
class World:
    seed: int
    trouble: float = 0.04
    luck: random.Random = field(init=False)
    broker: Broker = field(init=False)
    connection: sqlite3.Connection = field(init=False)
    effects: Counter[str] = field(default_factory=Counter[str])
    keys: dict[str, str] = field(default_factory=dict[str, str])
    deaths: Counter[str] = field(default_factory=Counter[str])
    tasks: list[asyncio.Task[None]] = field(default_factory=list[Any])

    def __post_init__(self) -> None:
        self.luck = random.Random(self.seed)
        self.broker = Broker(self.luck, self.trouble)
        self.connection = sqlite3.connect(":memory:", isolation_level=None)
        make_tables(self.connection)

    async def run(self) -> ToolConversation:
        """Run until the conversation is over; new processes resume it as often as needed."""
        for number in range(2):
            self._spawn(self._run_worker(number))
        for name in ("bob", "eve"):
            self._spawn(self._run_approver(name))
        async with asyncio.timeout(LONGEST):
            talk = None
            while talk is None:
                talk = await self._run_owner()
        return talk

    def _spawn(self, work: Awaitable[None]) -> None:
        self.tasks.append(asyncio.ensure_future(work))

    async def _run_worker(self, number: int) -> None:
        """Run a worker, and the next one when it dies."""
        while True:
            worker = Worker(Functions(self._tools()), server="home")
            line = worker.connection = cast("Any", Line(self.broker))
            await worker.open()
            await asyncio.sleep(self.luck.uniform(5, 120))
            line.is_alive = False
            self.deaths["worker"] += 1
            for running in (*worker._running._calls.values(),):  # pyright: ignore[reportPrivateUsage]
                if running.task is not None:
                    running.task.cancel()
            await asyncio.sleep(self.luck.uniform(0, 10))

    def _tools(self) -> list[Any]:
        async def happen(name: str, context: CallContext) -> str:
            await asyncio.sleep(self.luck.choice([0, 0.1, 2, 6]))
            self.effects[context.call_id] += 1
            self.keys[context.call_id] = name
            await asyncio.sleep(self.luck.choice([0, 0.1, 2, 6]))
            return f"{name} happened"

        @tool
        async def look(context: CallContext) -> str:
            return await happen("look", context)

        @tool(side_effects=True)
        async def pay(context: CallContext) -> str:
            return await happen("pay", context)

        @tool(side_effects=True)
        async def post(context: CallContext) -> str:
            return await happen("post", context)

        return [look, pay, post]

    async def _run_approver(self, name: str) -> None:
        ledger = MemoryLedger(self.connection)
        while True:
            await asyncio.sleep(self.luck.uniform(0.5, 5))
            for approval in await ledger.approvals(ApprovalState.PENDING):
                now = asyncio.get_running_loop().time()
                # Another one was faster, or it has expired.
                with suppress(LedgerError):
                    if self.luck.random() < 0.15:
                        await ledger.deny(approval.id, name, "no", now=now)
                    else:
                        await ledger.approve(approval.id, name, now=now)

    async def _run_owner(self) -> ToolConversation | None:
        """Run a process that resumes the conversation until it is over, or dies before that."""
        ledger = MemoryLedger(self.connection)
        bus = Bus(heartbeat_timeout=3.0)
        bus.connection = cast("Any", Line(self.broker))
        bus._requests._connection = bus.connection  # pyright: ignore[reportPrivateUsage]
        working = asyncio.ensure_future(self._drive(ledger, bus))
        life = self.luck.uniform(0, 60) if self.luck.random() < 0.6 else None
        done, _ = await asyncio.wait({working}, timeout=life)
        if done:
            await bus.close()
            return working.result()
        # From now on the process sends and writes nothing more.
        self.deaths["owner"] += 1
        ledger.is_alive = bus.connection.is_alive = False
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)
        await asyncio.sleep(self.luck.uniform(0, 2 * LEASE))
        return None

    async def _drive(self, ledger: SqlLedger, bus: Bus) -> ToolConversation:
        await bus.open()
        while True:
            tools = await bus.tools()
            if len(tools) == len({name for step in STEPS for name in step}):
                break
            await asyncio.sleep(5)
        executor = ToolExecutor(bus, per_tool_timeout_seconds=20, max_iterations=len(STEPS) + 1)
        talk = await self._open(ledger, executor)
        while True:
            try:
                turn = await (talk.resume() if talk.is_unfinished else talk.send_message("go"))
            except EngineUnavailableError:
                await asyncio.sleep(1)
                continue
            if turn.state is State.DONE:
                return talk
            await asyncio.sleep(self.luck.uniform(1, 20))

    async def _open(self, ledger: SqlLedger, executor: ToolExecutor) -> ToolConversation:
        while True:
            try:
                return await ToolConversation.open(
                    *(ledger, "c", Unsteady(self.luck), executor),
                    context=ANN,
                    lease=LEASE,
                    patience=self.luck.choice([0, 5, 60]),
                    clock=asyncio.get_running_loop().time,
                )
            except FencedError:
                await asyncio.sleep(1)


class Unsteady(Engine):
    """Makes the calls of one step after the other; sometimes slow, sometimes unavailable."""

    traits = Traits(name="unsteady", honours=ALL_CHOICES)

    def __init__(self, luck: random.Random) -> None:
        self._luck = luck

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        await asyncio.sleep(self._luck.choice([0, 0.2, 3]))
        if self._luck.random() < 0.1:
            raise EngineUnavailableError("the engine is unavailable")
        result_count = sum(message.role is Role.TOOL for message in request.messages)
        calls = STEPS[result_count] if result_count < len(STEPS) else ()
        # Kimi's and others' models count their calls from zero in every turn.
        tool_calls = [ToolCall.of(name, {}, id=f"functions.{name}:{number}") for number, name in enumerate(calls)]
        for event in events_of(Reply.of(*tool_calls) if tool_calls else Reply.of("all done")):
            yield event

    async def close(self) -> None:
        return
