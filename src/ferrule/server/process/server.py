"""Serve an application on a port until a signal stops it. The only module that imports uvicorn."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ferrule.errors import DefinitionError
from ferrule.server.auth.connection_limits import LimitedConnection
from ferrule.server.config.config import GatewayLimits, ServerConfig
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.process.drain import Drain

_BACKLOG = 2048


def open_port(server_config: ServerConfig) -> socket.socket:
    """Open a listening socket. Nothing accepts from it yet."""
    host = server_config.host.strip("[]")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, server_config.port), family=family, backlog=_BACKLOG)
    except OSError as error:
        raise DefinitionError(
            f"cannot listen on {host}:{server_config.port}: {error.strerror}",
            hint="Give another --port (0 selects a free one), or another --host.",
        ) from error
    listener.setblocking(False)
    return listener


_IDLE_SECONDS = 30
"""How long an idle connection is kept: longer than most clients keep theirs, so that the client closes first."""
_CLOSE_SECONDS = 2
"""How long connections may take to close after the last response."""
_DEFAULTS = GatewayLimits()


async def serve(
    application: Any,
    server_config: ServerConfig,
    on_started: Callable[[int], None] = lambda port: None,
    limits: GatewayLimits = _DEFAULTS,
    *,
    telemetry: Telemetry | None = None,
    socket: socket.socket | None = None,
    on_signal: Callable[[], None] = lambda: None,
) -> None:
    """Serve until SIGINT or SIGTERM, then drain. `on_started` is called with the port.

    `socket` is an already listening socket that other processes may share. `on_signal` is called at each signal, also
    while the event loop is blocked.
    """
    telemetry = telemetry or Telemetry()
    config = uvicorn.Config(
        application,
        host=server_config.host,
        port=server_config.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_CLOSE_SECONDS,
        http=limited_protocol(limits),
        limit_concurrency=limits.connections,
        timeout_keep_alive=_IDLE_SECONDS,
        ws_max_size=limits.body_bytes,
    )
    server = _Server(config)
    port = socket or open_port(server_config)
    serve_task = asyncio.ensure_future(server.serve([port]))
    stop = asyncio.Event()
    # Signals are handled before the server is up, so that one that arrives early is not lost.
    with _handle_signals(stop, telemetry.drain, on_signal):
        try:
            while not server.started and not serve_task.done():
                await asyncio.sleep(0.01)
            if server.started:
                port_number = port.getsockname()[1]
                telemetry.log.emit("start", host=server_config.host, port=port_number, pid=os.getpid())
                on_started(port_number)
                await _wait_for_first(serve_task, stop.wait())
                await _drain(telemetry, server_config.drain_seconds)
        finally:
            # Also if this task is cancelled: shut the server down in order.
            server.should_exit = True
            await serve_task
    telemetry.log.emit("stop", pid=os.getpid())


class _Server(uvicorn.Server):
    """Does not handle signals: they start a drain first, and the server stops after it."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextmanager
def _handle_signals(stop: asyncio.Event, drain: Drain, on_signal: Callable[[], None]) -> Generator[None]:
    """The first signal starts a drain; the second one ends the waiting."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def on_loop_signal() -> None:
        if stop.is_set():
            drain.hurry()
        stop.set()

    # A worker ignores SIGINT: its supervisor sends it SIGTERM.
    handled = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) is not signal.SIG_IGN]
    for one in handled:
        loop.add_signal_handler(one, on_loop_signal)
        _call_first(one, on_signal)
    try:
        yield
    finally:
        for one in handled:
            loop.remove_signal_handler(one)


def _call_first(number: signal.Signals, callback: Callable[[], None]) -> None:
    """Call it at each signal, before the event loop learns of it: a tool may block the loop."""
    of_loop = signal.getsignal(number)

    def handle(number: int, frame: FrameType | None) -> None:
        callback()
        if callable(of_loop):
            of_loop(number, frame)

    signal.signal(number, handle)


async def _wait_for_first(serve_task: asyncio.Future[None], stop: Coroutine[Any, Any, Any]) -> None:
    stop_task = asyncio.ensure_future(stop)
    try:
        await asyncio.wait({serve_task, stop_task}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        stop_task.cancel()


async def _drain(telemetry: Telemetry, seconds: float) -> None:
    drain = telemetry.drain
    drain.begin()
    telemetry.log.emit("drain", under_way=len(telemetry.requests), seconds=seconds)
    cancelled = await drain.wait(seconds)
    telemetry.log.emit("drained", count=cancelled)


def limited_protocol(limits: GatewayLimits) -> type[asyncio.Protocol]:
    """uvicorn's httptools protocol with the limits of `auth.connection_limits`."""
    return type("Connection", (LimitedConnection, HttpToolsProtocol), {"limits": limits})
