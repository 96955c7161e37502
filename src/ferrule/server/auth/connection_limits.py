"""Limits of one connection that apply before the application is called.

They cover a head that is too long or never complete, a body that continues after the response, and a response that the
client does not read. uvicorn has no limits for these, and an application cannot have any: it is called only when the
head is complete. So `LimitedConnection` overrides methods of the protocol that uvicorn creates for each connection.
This module must not import uvicorn: `process.server` does, and combines this class with uvicorn's httptools protocol.
"""

from __future__ import annotations

import socket as sockets
from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections.abc import Callable
from socket import AF_INET, AF_INET6, IPPROTO_TCP, socket
from typing import TYPE_CHECKING, Any

from ferrule.server.config.config import GatewayLimits

_REFUSAL = "HTTP/1.1 {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = "431 Request Header Fields Too Large"
_TOO_SLOW = "408 Request Timeout"
_REST_OF_BODY_SECONDS = 5.0
"""How long the rest of a body is still read after the response: a client that is disconnected while it sends never
reads the response."""

_LAST_READ_SECONDS = 0.05
_NOTSENT_LOWAT: int | None = getattr(sockets, "TCP_NOTSENT_LOWAT", None)
"""None on systems without this option."""
# Enough for throughput, small enough that a stalled client is noticed soon.
_MAX_UNSENT_BYTES = 131_072

if TYPE_CHECKING:

    class _Connection:
        """The parts of uvicorn's protocol that are used here."""

        loop: AbstractEventLoop
        transport: Transport
        url: bytes
        headers: list[tuple[bytes, bytes]]
        cycle: Any

        def __init__(self, *arguments: Any, **named: Any) -> None: ...
        def connection_made(self, transport: Any) -> None: ...
        def connection_lost(self, exc: Exception | None) -> None: ...
        def data_received(self, data: bytes) -> None: ...
        def on_headers_complete(self) -> None: ...
        def on_message_complete(self) -> None: ...
        def on_response_complete(self) -> None: ...
        def pause_writing(self) -> None: ...
        def resume_writing(self) -> None: ...
else:
    # uvicorn's protocol follows this class in the method resolution order: see `process.server`.
    _Connection = object


class LimitedConnection(_Connection):
    """A mixin for uvicorn's protocol. A subclass lists it first and sets `limits`."""

    limits: GatewayLimits

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_in_head = True
        self.is_in_body = False
        self._head_bytes = 0
        self._timers: dict[str, TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        _limit_unsent_bytes(transport.get_extra_info("socket"))
        self._start_timer("head", self.limits.header_seconds, self._on_head_timeout)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop_timer(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.is_in_head:
            # Any byte starts the timer: blank lines between two requests are no head and could continue forever.
            self._start_timer("head", self.limits.header_seconds, self._on_head_timeout)
            self._head_bytes += len(data)
        super().data_received(data)
        if self.is_in_head and self._head_bytes > self.limits.header_bytes:
            self._refuse(_TOO_LONG)

    def on_headers_complete(self) -> None:
        self._stop_timer("head")
        self.is_in_head, self.is_in_body, self._head_bytes = False, True, 0
        self._use_target_host()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.is_in_head, self.is_in_body = True, False
        self._stop_timer("rest")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_in_body:
            self._start_timer("rest", _REST_OF_BODY_SECONDS, self.transport.abort)
        if self.transport.get_write_buffer_size():
            self._start_timer("unread", self.limits.send_seconds, self._abort_if_unread)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_timer("unread", self.limits.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_timer("unread")

    def _start_timer(self, name: str, seconds: float, callback: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, callback)

    def _stop_timer(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _on_head_timeout(self) -> None:
        # A process that was stopped for a while finds the timer due and the head still unread in the socket. The loop
        # reads once more before the connection is closed, so that a stall of ours does not cost a client its request.
        self._timers["head"] = self.loop.call_later(_LAST_READ_SECONDS, self._end_head)

    def _end_head(self) -> None:
        if self._head_bytes:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, status: str) -> None:
        self._stop_timer("head")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_REFUSAL.format(status).encode())
            self.transport.close()
            self._start_timer("unread", self.limits.send_seconds, self.transport.abort)
        else:
            # Another response is being sent on this connection; anything written now would become part of it.
            self.transport.abort()

    def _abort_if_unread(self) -> None:
        self._stop_timer("unread")
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _use_target_host(self) -> None:
        """Use the host of an absolute request target instead of the Host header (RFC 9112, section 3.2.2)."""
        _, separator, rest = self.url.partition(b"://")
        if separator and not self.url.startswith(b"/"):
            host = rest.split(b"/", 1)[0].split(b"?", 1)[0]
            self.headers[:] = [(b"host", host), *(one for one in self.headers if one[0] != b"host")]


def _limit_unsent_bytes(connection: socket | None) -> None:
    """Limit the kernel's send buffer, so that unread data stays in this process, where the timers notice it."""
    if connection is not None and connection.family in (AF_INET, AF_INET6) and _NOTSENT_LOWAT is not None:
        connection.setsockopt(IPPROTO_TCP, _NOTSENT_LOWAT, _MAX_UNSENT_BYTES)
