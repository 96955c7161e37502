"""What one connection may take before any application hears of it: a head that never ends, or that nobody sends, a
body that goes on after the answer, an answer that nobody reads.

uvicorn has no limit for these, and an application cannot have one: it is called when the head is complete. So the
protocol that uvicorn makes for each connection is watched from inside. Must not import uvicorn: `serving` owns it, and
puts this before its protocol over httptools, whose methods are named here.
"""

from __future__ import annotations

import socket as sockets
from asyncio import AbstractEventLoop, TimerHandle, Transport
from collections.abc import Callable
from socket import AF_INET, AF_INET6, IPPROTO_TCP, socket
from typing import TYPE_CHECKING, Any

from ferrule.server.config.config import Limits

_REFUSAL = "HTTP/1.1 {}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
_TOO_LONG = "431 Request Header Fields Too Large"
_TOO_SLOW = "408 Request Timeout"
_AFTERTHOUGHT_SECONDS = 5.0
"""How long the rest of a body is still taken when it has been answered: a client that is cut off while it sends never
reads why."""


_UNSENT: int | None = getattr(sockets, "TCP_NOTSENT_LOWAT", None)
"""Not every system has it."""
_UNSENT_BYTES = 131_072

if TYPE_CHECKING:

    class _Connection:
        """What is used here of uvicorn's protocol."""

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
    # The real one stands beside this class, after it: see `serving`.
    _Connection = object


class Watched(_Connection):
    """To be inherited before uvicorn's protocol, by a class that sets `limits`."""

    limits: Limits

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.is_in_head = True
        self.is_in_body = False
        self._head_bytes = 0
        self._timers: dict[str, TimerHandle] = {}

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        _keep_little_unsent(transport.get_extra_info("socket"))
        self._start("head", self.limits.header_seconds, self._head_is_late)

    def connection_lost(self, exc: Exception | None) -> None:
        for name in list(self._timers):
            self._stop(name)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self.is_in_head:
            # Armed by any byte: blank lines between two requests are no head and would go on for ever.
            self._start("head", self.limits.header_seconds, self._head_is_late)
            self._head_bytes += len(data)
        super().data_received(data)
        if self.is_in_head and self._head_bytes > self.limits.header_bytes:
            self._refuse(_TOO_LONG)

    def on_headers_complete(self) -> None:
        self._stop("head")
        self.is_in_head, self.is_in_body, self._head_bytes = False, True, 0
        self._believe_the_address()
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self.is_in_head, self.is_in_body = True, False
        self._stop("rest")
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.is_in_body:
            self._start("rest", _AFTERTHOUGHT_SECONDS, self.transport.abort)
        if self.transport.get_write_buffer_size():
            self._start("unread", self.limits.send_seconds, self._end_unread)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start("unread", self.limits.send_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop("unread")

    def _start(self, name: str, seconds: float, then: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = self.loop.call_later(seconds, then)

    def _stop(self, name: str) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    def _head_is_late(self) -> None:
        if self._head_bytes:
            self._refuse(_TOO_SLOW)
        else:
            self.transport.close()

    def _refuse(self, why: str) -> None:
        self._stop("head")
        if self.cycle is None or self.cycle.response_complete:
            self.transport.write(_REFUSAL.format(why).encode())
            self.transport.close()
            self._start("unread", self.limits.send_seconds, self.transport.abort)
        else:
            # In the middle of another answer on this connection, where a word of ours would become part of it.
            self.transport.abort()

    def _end_unread(self) -> None:
        self._stop("unread")
        if self.transport.get_write_buffer_size():
            self.transport.abort()

    def _believe_the_address(self) -> None:
        """An address that names a host counts, and not the header beside it: so RFC 9112, section 3.2.2."""
        _, mark, rest = self.url.partition(b"://")
        if mark and not self.url.startswith(b"/"):
            host = rest.split(b"/", 1)[0].split(b"?", 1)[0]
            self.headers[:] = [(b"host", host), *(one for one in self.headers if one[0] != b"host")]


def _keep_little_unsent(connection: socket | None) -> None:
    """What a reader does not take is to wait here, where it is noticed, and not by the megabyte in the system."""
    if connection is not None and connection.family in (AF_INET, AF_INET6) and _UNSENT is not None:
        connection.setsockopt(IPPROTO_TCP, _UNSENT, _UNSENT_BYTES)
