"""A bus in virtual time that loses, duplicates and delays messages, under the real `Bus` and the real `Worker`."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ferrule.errors import BusUnavailableError
from ferrule.sources.bus.connection import Message, MessageHandler

_QUICK = (0.0001, 0.02)
_LATE = (0.5, 15.0)


@dataclass(frozen=True, slots=True)
class FakeMessage:
    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] | None = None


@dataclass(slots=True)
class _Interest:
    line: Line
    subject: str
    receive: MessageHandler
    queue: str

    def covers(self, subject: str) -> bool:
        mine, theirs = self.subject.split("."), subject.split(".")
        if mine[-1] == ">":
            mine, theirs = mine[:-1], theirs[: len(mine) - 1]
        return len(mine) == len(theirs) and all(a in ("*", b) for a, b in zip(mine, theirs, strict=True))


@dataclass(slots=True)
class Broker:
    """`trouble` is the share of call messages that are lost, and likewise duplicated, and delayed."""

    luck: random.Random
    trouble: float
    interests: list[_Interest] = field(default_factory=list[_Interest])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def send(self, message: FakeMessage) -> None:
        matching = [one for one in self.interests if one.line.is_alive and one.covers(message.subject)]
        subscribers = [one for one in matching if not one.queue]
        workers = [one for one in matching if one.queue]
        receivers = [*subscribers, *([self.luck.choice(workers)] if workers else [])]
        if not receivers and message.reply:
            self.send(FakeMessage(message.reply, b"", headers={"Status": "503"}))
        for one in receivers:
            for delay in self._delays(message):
                self._later(one, message, delay)

    def _delays(self, message: FakeMessage) -> list[float]:
        """Return the delays of a message, one for each delivery. Discovery is not disturbed: it retries anyway."""
        is_of_a_call = message.subject.startswith("t.") or message.subject.count(".") == 2
        luck = self.luck.random() if is_of_a_call and "==" not in message.subject else 1.0
        quick = self.luck.uniform(*_QUICK)
        if luck < self.trouble:
            return []
        if luck < 2 * self.trouble:
            return [quick, self.luck.uniform(*_QUICK)]
        return [self.luck.uniform(*_LATE)] if luck < 3 * self.trouble else [quick]

    def _later(self, to: _Interest, message: FakeMessage, delay: float) -> None:
        async def deliver() -> None:
            await asyncio.sleep(delay)
            if to.line.is_alive:
                await to.receive(message)

        task = asyncio.ensure_future(deliver())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Line:
    """Replaces a `Connection`. A dead one neither receives nor sends, like that of a dead process."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.is_alive = True
        self.inbox = f"_INBOX_{secrets.token_hex(6)}"
        self.errors: deque[str] = deque()

    async def open(self) -> None:
        return

    async def close(self) -> None:
        self.is_alive = False

    @property
    def is_connected(self) -> bool:
        return self.is_alive

    def fits_payload(self, data: bytes, headers: Mapping[str, str] | None = None) -> bool:
        return True

    async def send(
        self, subject: str, data: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        if self.is_alive:
            self.broker.send(FakeMessage(subject, data, reply, headers))
        return self.is_alive

    async def subscribe(
        self, subject: str, handler: MessageHandler, queue: str = "", *, is_direct: bool = False
    ) -> None:
        self.broker.interests.append(_Interest(self, subject, handler, queue))

    async def flush(self) -> None:
        return

    async def stop_receiving(self) -> None:
        self.broker.interests[:] = [one for one in self.broker.interests if one.line is not self]

    async def gather(
        self,
        subject: str,
        body: bytes = b"",
        *,
        first: float = 1.0,
        quiet: float = 0.1,
        max_messages: int | None = None,
        is_wanted: Callable[[Message], bool] | None = None,
    ) -> list[Message]:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            if is_wanted is None or is_wanted(message):
                messages.append(message)

        reply = f"{self.inbox}.{secrets.token_hex(6)}"
        await self.subscribe(reply, collect)
        if not await self.send(subject, body, reply):
            raise BusUnavailableError("the bus is not connected")
        await asyncio.sleep(first)
        return [one for one in messages if not (one.headers or {}).get("Status")]
