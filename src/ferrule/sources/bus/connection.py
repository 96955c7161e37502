"""A connection to NATS: the only file that knows nats-py. It carries bytes and knows nothing of tools.

Seven things about that library decide how it is used. It runs a subscription's callback one message at a time, so a
callback here must not wait. While it has no server it keeps what is published and sends it later, so nothing is sent
unless there is a server now. It tries for ever to reach a first server, so that is given a time. What it may not do by
its permissions it learns only later, in `error_cb`, so that is kept where a person can read it. Its `flush` writes the
ping ahead of what waits to be written, so one flush proves nothing, and its `drain` loses what comes meanwhile. It
sends a ping after its name without waiting, so a server that refuses it may close on unread bytes and its reason is
lost in a reset: whoever was reset asks once more, waiting for each answer. And after some errors of the server it
closes for good, so then a new client takes the place of the old.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.errors import BusError, BusUnavailableError
from ferrule.sources.status import State

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription

DEFAULT_URL = "nats://127.0.0.1:4222"
_PATIENCE = 5.0
_PING_SECONDS, _PINGS = 5, 2
_KEPT_COMPLAINTS = 20
_MOMENT, _PAUSE = 0.005, 1.0
# Whoever is alone says so at once, so only a busy worker makes anybody wait for the first answer.
_FIRST_SECONDS, _QUIET_SECONDS = 1.5, 0.2
_SERVER_SAYS = "nats: '"
_HEADER_LINE = len(b"NATS/1.0\r\n\r\n")
_log = logging.getLogger(__name__)


class Message(Protocol):
    """What arrived."""

    @property
    def subject(self) -> str: ...
    @property
    def reply(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str] | None: ...
    @property
    def data(self) -> bytes: ...


Receive = Callable[[Message], Awaitable[None]]


class _OneLine(str):
    """A header's text that is known to have no line break.

    The library looks for one in every character of every header, which takes longer than all else that it does to send.
    """

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        return self

    def translate(self, table: object, /) -> str:
        return self


@dataclass(slots=True)
class Connection:
    """`inbox` is the prefix of this client's own reply subjects; permissions keep everybody else from reading there."""

    url: str = DEFAULT_URL
    credentials: str = ""
    """The path of a .creds file, where the server asks for one."""
    name: str = "ferrule"
    inbox: str = ""
    complaints: deque[str] = field(default_factory=lambda: deque(maxlen=_KEPT_COMPLAINTS))
    """What the server refused, newest last. A refused publish has no other answer than silence."""
    _client: Client | None = None
    _failure: type[Exception] = BusError
    """The library's own, known once it is imported."""
    _subscriptions: list[Subscription] = field(default_factory=list[Any])
    _wanted: list[tuple[str, Receive, str]] = field(default_factory=list[Any])
    """What is subscribed to, for a client that takes the place of another."""
    _healing: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Connects; `BusUnavailableError` where that takes too long or is refused."""
        self.inbox = self.inbox or f"_INBOX_{secrets.token_hex(12)}"
        self._client = await self._new_client()

    async def _new_client(self) -> Client:
        import nats.errors
        from nats.aio.client import Client

        self._failure = nats.errors.Error
        options: dict[str, Any] = {"user_credentials": self.credentials} if self.credentials else {}
        client = Client()
        try:
            async with asyncio.timeout(_PATIENCE):
                await client.connect(
                    self.url.split(","),
                    name=self.name,
                    inbox_prefix=self.inbox,
                    error_cb=self._complained,
                    closed_cb=self._closed,
                    # For ever once it runs: a server that restarts is waited for. At first the time above ends it.
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    connect_timeout=2,
                    ping_interval=_PING_SECONDS,
                    max_outstanding_pings=_PINGS,
                    # Every subject comes out of `subject`, which writes no other.
                    skip_subject_validation=True,
                    **options,
                )
        except (TimeoutError, OSError, nats.errors.Error) as problem:
            await client.close()
            told = await self._reason(options)
            raise BusUnavailableError(
                f"the bus at {_without_password(self.url)} cannot be used: {told}",
                hint="Is nats-server running there, and does it know this user?",
            ) from problem
        return client

    async def _reason(self, options: Mapping[str, Any]) -> str:
        """Why there is no connection, in the server's words where it has any."""
        if not self.complaints:
            return f"no answer within {_PATIENCE:g} seconds"
        if self.complaints[-1].startswith(_SERVER_SAYS):
            return self.complaints[-1]
        import nats.errors
        from nats.aio.client import Client

        patient = Client()
        try:
            async with asyncio.timeout(_PAUSE):
                await patient.connect(
                    self.url.split(","),
                    name=self.name,
                    error_cb=self._complained,
                    verbose=True,
                    allow_reconnect=False,
                    **options,
                )
        except (TimeoutError, OSError, nats.errors.Error):
            _log.debug("bus: asked once more, refused once more")
        finally:
            await patient.close()
        return next((told for told in reversed(self.complaints) if told.startswith(_SERVER_SAYS)), self.complaints[-1])

    async def close(self) -> None:
        """Sends what is waiting to be sent, and leaves."""
        client, self._client = self._client, None
        self._subscriptions.clear()
        self._wanted.clear()
        if self._healing is not None:
            self._healing.cancel()
            await asyncio.gather(self._healing, return_exceptions=True)
        if client is not None and not client.is_closed:
            await client.close()

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def standing(self) -> tuple[State, str]:
        """Whether there is a server now, and if not, what was heard last."""
        if self._client is None:
            return State.CLOSED, ""
        if self._client.is_connected:
            return State.READY, ""
        return State.FAILED, self.complaints[-1] if self.complaints else "the server is not there"

    def carries(self, data: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Whether a message is small enough. The server counts headers too, and throws out who sends more."""
        size = len(data)
        if headers:
            size += _HEADER_LINE
            for name, text in headers.items():
                size += len(name) + len(text) + 4
        return self._client is None or size <= self._client.max_payload

    async def send(
        self, subject: str, data: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Hands a message to the server; False where it surely was not handed over."""
        client = self._client
        if client is None or not client.is_connected or not self.carries(data, headers):
            return False
        try:
            await client.publish(subject, data, reply, None if headers is None else _one_line(headers))
        except self._failure as problem:
            self.complaints.append(str(problem))
            return False
        return True

    async def receive(self, subject: str, receive: Receive, queue: str = "") -> None:
        """Calls `receive` with each message, one after the other."""
        self._wanted.append((subject, receive, queue))
        self._subscriptions.append(await self._subscribed(subject, receive, queue))

    async def flush(self) -> None:
        """Comes back when the server has read everything that was sent before."""
        import nats.errors

        try:
            # The first ping may overtake what it should follow; when its answer is here, that has been written.
            await self._connected.flush()
            await self._connected.flush()
        except nats.errors.Error as problem:
            raise BusUnavailableError("the bus does not answer", hint="Is nats-server running?") from problem

    async def stop_receiving(self) -> None:
        """No new messages from now on; comes back when those that were on their way have been received."""
        client: Any = self._client
        subscriptions: list[Any] = [*self._subscriptions]
        self._subscriptions.clear()
        self._wanted.clear()
        if client is None or not client.is_connected:
            return
        for subscription in subscriptions:
            # Not `unsubscribe`: that forgets the subscription here before the server has heard of it.
            await client._send_unsubscribe(subscription._id)
        await self.flush()
        await asyncio.sleep(_MOMENT)
        while any(subscription.pending_msgs for subscription in subscriptions):
            await asyncio.sleep(_MOMENT)
        for subscription in subscriptions:
            await subscription.unsubscribe()

    async def gather(
        self, subject: str, *, first: float = _FIRST_SECONDS, quiet: float = _QUIET_SECONDS, least: int | None = None
    ) -> list[Message]:
        """The answers to one question: until none came within `first` or `quiet` seconds, or `least` are there."""
        found: list[Message] = []
        came = asyncio.Event()

        async def keep(message: Message) -> None:
            found.append(message)
            came.set()

        reply = f"{self.inbox}.{secrets.token_hex(12)}"
        subscription = await self._subscribed(reply, keep)
        try:
            if not await self.send(subject, reply=reply):
                raise BusUnavailableError("the bus is not connected", hint="Is nats-server running?")
            while least is None or len(found) < least:
                async with asyncio.timeout(quiet if found else first):
                    await came.wait()
                came.clear()
                if found[0].headers and found[0].headers.get("Status") == "503":
                    return []
            return found
        except TimeoutError:
            return found
        finally:
            if self.is_connected:
                await subscription.unsubscribe()

    async def _subscribed(self, subject: str, receive: Receive, queue: str = "") -> Subscription:
        client: Any = self._connected  # the library leaves a part of this method's type open
        return await client.subscribe(subject, queue, receive)

    @property
    def _connected(self) -> Client:
        if self._client is None:
            raise BusError("the connection is not open", hint="Use it as a context: async with.")
        return self._client

    async def _closed(self) -> None:
        if self._client is not None:
            self._healing = asyncio.create_task(self._heal())

    async def _heal(self) -> None:
        while True:
            try:
                self._client = await self._new_client()
            except BusUnavailableError:
                await asyncio.sleep(_PAUSE)
            else:
                break
        self._subscriptions[:] = [await self._subscribed(*wanted) for wanted in self._wanted]

    async def _complained(self, problem: Exception) -> None:
        told = str(problem) or type(problem).__name__
        self.complaints.append(told)
        if self._client is not None:
            _log.warning("bus: %s", told)


def _one_line(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text if "\n" in text or "\r" in text else _OneLine(text.strip()) for name, text in headers.items()}


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@,]*@", "//", url)
