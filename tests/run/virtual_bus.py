"""A bus in virtual time that loses, doubles and delays messages, under the real `Bus` and the real `Worker`."""

from __future__ import annotations

import asyncio
import random
import secrets
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from ferrule.errors import BusUnavailableError
from ferrule.sources.bus.connection import Message, Receive

_QUICK = (0.0001, 0.02)
_LATE = (0.5, 15.0)


@dataclass(frozen=True, slots=True)
class Sent:
    subject: str
    data: bytes
    reply: str = ""
    headers: Mapping[str, str] | None = None


@dataclass(slots=True)
class _Interest:
    line: Line
    subject: str
    receive: Receive
    queue: str

    def covers(self, subject: str) -> bool:
        mine, theirs = self.subject.split("."), subject.split(".")
        if mine[-1] == ">":
            mine, theirs = mine[:-1], theirs[: len(mine) - 1]
        return len(mine) == len(theirs) and all(a in ("*", b) for a, b in zip(mine, theirs, strict=True))


@dataclass(slots=True)
class Broker:
    """`trouble` is the share of messages of calls that are lost, that come twice, and that come late, each."""

    luck: random.Random
    trouble: float
    interests: list[_Interest] = field(default_factory=list[_Interest])
    tasks: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    def send(self, sent: Sent) -> None:
        found = [one for one in self.interests if one.line.is_alive and one.covers(sent.subject)]
        plain = [one for one in found if not one.queue]
        queued = [one for one in found if one.queue]
        chosen = [*plain, *([self.luck.choice(queued)] if queued else [])]
        if not chosen and sent.reply:
            self.send(Sent(sent.reply, b"", headers={"Status": "503"}))
        for one in chosen:
            for delay in self._delays(sent):
                self._later(one, sent, delay)

    def _delays(self, sent: Sent) -> list[float]:
        """When a message arrives, and how often. Discovery is left in peace: it is asked again by itself."""
        is_of_a_call = sent.subject.startswith("t.") or sent.subject.count(".") == 2
        luck = self.luck.random() if is_of_a_call and "==" not in sent.subject else 1.0
        quick = self.luck.uniform(*_QUICK)
        if luck < self.trouble:
            return []
        if luck < 2 * self.trouble:
            return [quick, self.luck.uniform(*_QUICK)]
        return [self.luck.uniform(*_LATE)] if luck < 3 * self.trouble else [quick]

    def _later(self, to: _Interest, sent: Sent, delay: float) -> None:
        async def deliver() -> None:
            await asyncio.sleep(delay)
            if to.line.is_alive:
                await to.receive(sent)

        task = asyncio.ensure_future(deliver())
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


class Line:
    """What a `Connection` is to its owner. One that is cut hears nothing and says nothing, like a dead process's."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.is_alive = True
        self.inbox = f"_INBOX_{secrets.token_hex(6)}"
        self.complaints: deque[str] = deque()

    async def open(self) -> None:
        return

    async def close(self) -> None:
        self.is_alive = False

    @property
    def is_connected(self) -> bool:
        return self.is_alive

    def carries(self, data: bytes, headers: Mapping[str, str] | None = None) -> bool:
        return True

    async def send(
        self, subject: str, data: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        if self.is_alive:
            self.broker.send(Sent(subject, data, reply, headers))
        return self.is_alive

    async def receive(self, subject: str, receive: Receive, queue: str = "") -> None:
        self.broker.interests.append(_Interest(self, subject, receive, queue))

    async def flush(self) -> None:
        return

    async def stop_receiving(self) -> None:
        self.broker.interests[:] = [one for one in self.broker.interests if one.line is not self]

    async def gather(
        self, subject: str, *, first: float = 1.0, quiet: float = 0.1, least: int | None = None
    ) -> list[Message]:
        found: list[Message] = []

        async def keep(message: Message) -> None:
            found.append(message)

        reply = f"{self.inbox}.{secrets.token_hex(6)}"
        await self.receive(reply, keep)
        if not await self.send(subject, reply=reply):
            raise BusUnavailableError("the bus is not connected")
        await asyncio.sleep(first)
        return [one for one in found if not (one.headers or {}).get("Status")]
