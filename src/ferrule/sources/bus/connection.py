"""A connection to NATS. This is the only module that imports nats-py; it carries bytes and knows nothing of tools.

Seven properties of that library decide how it is used here:

- It runs a subscription's callback one message at a time, so a callback must not block.
- Without a server it buffers publishes and sends them later. So nothing is sent unless a server is connected now.
- It retries the first connection for ever, so connecting has a timeout.
- It learns of a permission violation only later, in `error_cb`. So errors are kept where a user can read them.
- Its `flush` writes the ping ahead of buffered data, so one flush proves nothing; its `drain` loses messages that
  arrive meanwhile.
- It sends a ping after CONNECT without waiting. A server that refuses the client may close on unread bytes, and its
  reason is lost in a TCP reset. So after a reset the connection is tried once more in verbose mode.
- After some server errors it closes for good. A new client then replaces the old one.

Two paths of that library cost more than all that the bus does with a call: a publish passes four coroutines and checks
every character of its headers, and a message waits in a queue for a task of its subscription. `send` therefore appends
to the library's buffer itself, and a subscription that `is_direct` gets its messages where they are read. Both use
attributes that are not public. Where a version of the library lacks them, the public methods are used.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

from ferrule.errors import BusError, BusUnavailableError, DefinitionError
from ferrule.sources.status import SourceState

if TYPE_CHECKING:
    from nats.aio.client import Client
    from nats.aio.subscription import Subscription

DEFAULT_URL = "nats://127.0.0.1:4222"
_CONNECT_SECONDS = 5.0
_PING_SECONDS, _MAX_PINGS = 5, 2
_MAX_ERRORS = 20
_POLL_SECONDS, _RETRY_SECONDS = 0.005, 1.0
# If nobody subscribes, NATS says so at once. So only a busy worker makes a caller wait for the first answer.
_FIRST_SECONDS, _QUIET_SECONDS = 1.5, 0.2
_SERVER_ERROR_PREFIX = "nats: '"
_HEADER_OVERHEAD = len(b"NATS/1.0\r\n\r\n")
_HEADER_START = b"NATS/1.0\r\n"
_WHITE_SPACE = re.compile(rb"[\t-\r\x1c-\x20]")
_LINE_BREAKS = str.maketrans("\r\n", "  ")
_log = logging.getLogger(__name__)


class Message(Protocol):
    """A received message."""

    @property
    def subject(self) -> str: ...
    @property
    def reply(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str] | None: ...
    @property
    def data(self) -> bytes: ...


MessageHandler = Callable[[Message], Awaitable[None]]
_BUFFER = ("_pending", "_pending_data_size", "_max_pending_size", "_flush_queue", "_flush_pending", "stats")
"""The attributes of the library's client that `send` uses."""


@dataclass(slots=True)
class _ReceivedMessage:
    subject: str
    reply: str
    headers: Mapping[str, str] | None
    data: bytes


class _OneLine(str):
    """A header value that is known to contain no line break.

    The library checks every character of every header, which takes longer than the rest of a publish.
    """

    __slots__ = ()

    def strip(self, chars: str | None = None, /) -> str:
        return self

    def translate(self, table: object, /) -> str:
        return self


@dataclass(slots=True)
class Connection:
    """One connection to NATS. `inbox` is the prefix of its reply subjects; permissions keep other clients out of it."""

    url: str = DEFAULT_URL
    credentials: str = ""
    """The path of a .creds file, if the server requires one."""
    name: str = "ferrule"
    inbox: str = ""
    errors: deque[str] = field(default_factory=lambda: deque(maxlen=_MAX_ERRORS))
    """Errors from the server, newest last. A refused publish gets no other answer."""
    on_error: Callable[[str], None] | None = None
    """Called with each error."""
    _client: Client | None = None
    _error_type: type[Exception] = BusError
    """The library's base error, set once it is imported."""
    _subscriptions: list[Subscription] = field(default_factory=list[Any])
    _handlers: list[tuple[str, MessageHandler, str, bool]] = field(default_factory=list[Any])
    """The current subscriptions, so that a new client can subscribe again."""
    _reconnect_task: asyncio.Task[None] | None = None
    _buffer: Any = None
    """The client, if it has a buffer that `send` can append to."""

    async def open(self) -> None:
        """Connect. Raises `BusUnavailableError` if that takes too long or is refused."""
        self.inbox = self.inbox or f"_INBOX_{secrets.token_hex(12)}"
        self._client = await self._new_client()

    async def _new_client(self) -> Client:
        try:
            import nats.errors
        except ImportError as missing:
            raise DefinitionError(
                "the bus needs nats-py", code="missing_package", hint='pip install "ferrule[nats]"'
            ) from missing

        self._error_type = nats.errors.Error
        options: dict[str, Any] = {"user_credentials": self.credentials} if self.credentials else {}
        client = _direct_client_type()()
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await client.connect(
                    self.url.split(","),
                    name=self.name,
                    inbox_prefix=self.inbox,
                    error_cb=self._on_error,
                    closed_cb=self._on_closed,
                    # Once connected, wait for a restarting server for ever. The timeout above bounds the first attempt.
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=1,
                    connect_timeout=2,
                    ping_interval=_PING_SECONDS,
                    max_outstanding_pings=_MAX_PINGS,
                    # Every subject is made by the module `subject`, which encodes names.
                    skip_subject_validation=True,
                    **options,
                )
        except (TimeoutError, OSError, nats.errors.Error) as problem:
            await client.close()
            reason = await self._reason(options)
            raise BusUnavailableError(
                f"cannot connect to NATS at {_without_password(self.url)}: {reason}",
                hint="Is nats-server running there, and does it know this user?",
            ) from problem
        self._buffer = client if all(hasattr(client, name) for name in _BUFFER) else None
        return client

    async def _reason(self, options: Mapping[str, Any]) -> str:
        """Why there is no connection: the server's own message if it sent one."""
        if not self.errors:
            return f"no answer within {_CONNECT_SECONDS:g} seconds"
        if self.errors[-1].startswith(_SERVER_ERROR_PREFIX):
            return self.errors[-1]
        import nats.errors
        from nats.aio.client import Client

        client = Client()
        try:
            async with asyncio.timeout(_RETRY_SECONDS):
                await client.connect(
                    self.url.split(","),
                    name=self.name,
                    error_cb=self._on_error,
                    verbose=True,
                    allow_reconnect=False,
                    **options,
                )
        except (TimeoutError, OSError, nats.errors.Error):
            _log.debug("bus: the second attempt in verbose mode was refused too")
        finally:
            await client.close()
        return next(
            (message for message in reversed(self.errors) if message.startswith(_SERVER_ERROR_PREFIX)), self.errors[-1]
        )

    async def close(self) -> None:
        """Flush buffered messages and disconnect."""
        client, self._client, self._buffer = self._client, None, None
        self._subscriptions.clear()
        self._handlers.clear()
        if self._reconnect_task is not None:
            self._reconnect_task.cancel()
            await asyncio.gather(self._reconnect_task, return_exceptions=True)
        if client is not None and not client.is_closed:
            await client.close()

    @property
    def is_connected(self) -> bool:
        return self._client is not None and self._client.is_connected

    @property
    def status(self) -> tuple[SourceState, str]:
        """Whether a server is connected, and if not, the last error."""
        if self._client is None:
            return SourceState.CLOSED, ""
        if self._client.is_connected:
            return SourceState.READY, ""
        return SourceState.FAILED, self.errors[-1] if self.errors else "not connected"

    def fits_payload(self, data: bytes, headers: Mapping[str, str] | None = None) -> bool:
        """Whether a message fits the server's limit. It counts headers too, and disconnects clients that exceed it."""
        size = len(data)
        if headers:
            size += _HEADER_OVERHEAD
            for name, text in headers.items():
                size += len(name) + len(text) + 4
        return self._client is None or size <= self._client.max_payload

    async def send(
        self, subject: str, data: bytes = b"", reply: str = "", headers: Mapping[str, str] | None = None
    ) -> bool:
        """Publish a message. False means that it was certainly not sent."""
        client = self._client
        if client is None or not client.is_connected or not self.fits_payload(data, headers):
            return False
        try:
            buffer = self._buffer
            if buffer is None:
                await client.publish(subject, data, reply, None if headers is None else _one_line(headers))
                return True
            command = publish_command(subject, data, reply, headers)
            buffer.stats["out_msgs"] += 1
            buffer.stats["out_bytes"] += len(data)
            buffer._pending.append(command)
            buffer._pending_data_size += len(command)
            if buffer._pending_data_size > buffer._max_pending_size > 0:
                await buffer._flush_pending(force_flush=True)
            elif buffer._flush_queue.empty():
                await buffer._flush_pending()
        except self._error_type as problem:
            self.errors.append(str(problem))
            return False
        return True

    async def subscribe(
        self, subject: str, handler: MessageHandler, queue: str = "", *, is_direct: bool = False
    ) -> None:
        """Subscribe. `handler` is called with one message after the other.

        If the subscription `is_direct`, no message of the connection is read while the handler runs, so it must wait
        for nothing but `send`.
        """
        self._handlers.append((subject, handler, queue, is_direct))
        self._subscriptions.append(await self._new_subscription(subject, handler, queue, is_direct))

    async def flush(self) -> None:
        """Wait until the server has read everything that was sent before."""
        import nats.errors

        try:
            # The first ping may overtake buffered data. When its pong is here, that data has been written.
            await self._open_client.flush()
            await self._open_client.flush()
        except nats.errors.Error as problem:
            raise BusUnavailableError("NATS does not answer", hint="Is nats-server running?") from problem

    async def stop_receiving(self) -> None:
        """Stop receiving. Returns when the messages that were already on their way have been handled."""
        client: Any = self._client
        subscriptions: list[Any] = [*self._subscriptions]
        self._subscriptions.clear()
        self._handlers.clear()
        if client is None or not client.is_connected:
            return
        for subscription in subscriptions:
            # Not `unsubscribe`: it drops the subscription here before the server knows.
            await client._send_unsubscribe(subscription._id)
        await self.flush()
        await asyncio.sleep(_POLL_SECONDS)
        while any(subscription.pending_msgs for subscription in subscriptions):
            await asyncio.sleep(_POLL_SECONDS)
        for subscription in subscriptions:
            await subscription.unsubscribe()

    async def gather(
        self,
        subject: str,
        body: bytes = b"",
        *,
        first: float = _FIRST_SECONDS,
        quiet: float = _QUIET_SECONDS,
        max_messages: int | None = None,
        is_wanted: Callable[[Message], bool] | None = None,
    ) -> list[Message]:
        """Publish a request and collect the replies that are wanted.

        It ends when no first reply came within `first` seconds, no further one within `quiet` seconds, or with
        `max_messages` replies.
        """
        messages: list[Message] = []
        received = asyncio.Event()

        async def collect(message: Message) -> None:
            if is_wanted is None or _is_no_responders(message) or is_wanted(message):
                messages.append(message)
                received.set()

        reply = f"{self.inbox}.{secrets.token_hex(12)}"
        subscription = await self._new_subscription(reply, collect)
        try:
            if not await self.send(subject, body, reply):
                raise BusUnavailableError("not connected to NATS", hint="Is nats-server running?")
            while max_messages is None or len(messages) < max_messages:
                async with asyncio.timeout(quiet if messages else first):
                    await received.wait()
                received.clear()
                if _is_no_responders(messages[0]):
                    return []
            return messages
        except TimeoutError:
            return messages
        finally:
            if self.is_connected:
                await subscription.unsubscribe()

    async def _new_subscription(
        self, subject: str, handler: MessageHandler, queue: str = "", is_direct: bool = False
    ) -> Subscription:
        client: Any = self._open_client  # the library leaves a part of this method's type open
        subscription = await client.subscribe(subject, queue, handler)
        if is_direct:
            client.direct_handlers[subscription._id] = handler
        return subscription

    @property
    def _open_client(self) -> Client:
        if self._client is None:
            raise BusError("the connection is not open", hint="Use it with `async with`.")
        return self._client

    async def _on_closed(self) -> None:
        if self._client is not None:
            self._reconnect_task = asyncio.create_task(self._reconnect())

    async def _reconnect(self) -> None:
        while True:
            try:
                self._client = await self._new_client()
            except BusUnavailableError:
                await asyncio.sleep(_RETRY_SECONDS)
            else:
                break
        self._subscriptions[:] = [await self._new_subscription(*handler) for handler in self._handlers]

    async def _on_error(self, problem: Exception) -> None:
        message = str(problem) or type(problem).__name__
        self.errors.append(message)
        if self.on_error is not None:
            self.on_error(message)
        if self._client is not None:
            _log.warning("bus: %s", message)


def _is_no_responders(message: Message) -> bool:
    return message.headers is not None and message.headers.get("Status") == "503"


@cache
def _direct_client_type() -> type[Client]:
    """The library's client, with handlers that get their messages where they are read."""
    from nats.aio.client import Client

    class DirectClient(Client):
        def __init__(self) -> None:
            super().__init__()
            self.direct_handlers: dict[int, MessageHandler] = {}

        async def _process_msg(self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: Any) -> None:
            handler = self.direct_handlers.get(sid)
            if handler is None or sid not in self._subs:
                await super()._process_msg(sid, subject, reply, data, headers)
                return
            self.stats["in_msgs"] += 1
            self.stats["in_bytes"] += len(data)
            fields = None
            if headers and headers.startswith(_HEADER_START):
                fields = read_headers(headers)
            elif headers:
                client: Any = self  # the library leaves a part of the next method's type open
                fields = await client._process_headers(headers)
            try:
                await handler(_ReceivedMessage(subject.decode(), reply.decode(), fields, data))
            # The library reports what a handler raises and reads on; otherwise one message would end the connection.
            except Exception as problem:
                await self._error_cb(problem)

    return DirectClient


def publish_command(subject: str, data: bytes, reply: str, headers: Mapping[str, str] | None) -> bytes:
    """The bytes that publish a message. A line break in a header becomes a space, as in the library."""
    if headers is None:
        return b"PUB %b %b %d\r\n%b\r\n" % (subject.encode(), reply.encode(), len(data), data)
    lines = "".join([f"{name}: {_header_value(text)}\r\n" for name, text in headers.items()])
    block = b"%b%b\r\n" % (_HEADER_START, lines.encode())
    size = len(block)
    return b"HPUB %b %b %d %d\r\n%b%b\r\n" % (subject.encode(), reply.encode(), size, size + len(data), block, data)


def read_headers(block: bytes) -> dict[str, str]:
    """The headers of a message without a status, as the library reads them. An invalid line is left out."""
    fields: dict[str, str] = {}
    for line in block[len(_HEADER_START) :].split(b"\r\n"):
        name, colon, text = line.partition(b":")
        name = name.strip()
        if colon and name.isascii() and not _WHITE_SPACE.search(name):
            fields[name.decode()] = text.strip().decode("utf-8", "replace")
    return fields


def _header_value(text: str) -> str:
    text = text.strip()
    return text.translate(_LINE_BREAKS) if "\n" in text or "\r" in text else text


def _one_line(headers: Mapping[str, str]) -> dict[str, str]:
    return {name: text if "\n" in text or "\r" in text else _OneLine(text.strip()) for name, text in headers.items()}


def _without_password(url: str) -> str:
    return re.sub(r"//[^/@,]*@", "//", url)
