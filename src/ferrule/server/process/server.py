"""Serving: an application on a port until it is told to stop. The one owner of uvicorn."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from ferrule.server.auth.connection_limits import Watched
from ferrule.server.config.config import Limits, Listening
from ferrule.server.observability.telemetry import Watch
from ferrule.server.process.drain import Drain
from ferrule.server.process.port import opened_port

_IDLE_SECONDS = 30
"""How long a connection is kept for the next request: longer than clients keep theirs, so that they are not cut off."""
_AFTER_DRAIN = 2
"""How long connections may take to close when everything on them is said."""
_DEFAULTS = Limits()


async def serve(
    application: Any,
    listening: Listening,
    started: Callable[[int], None] = lambda port: None,
    limits: Limits = _DEFAULTS,
    *,
    watch: Watch | None = None,
    socket: socket.socket | None = None,
) -> None:
    """Until SIGINT or SIGTERM; then answers under way are given time to end. `started` is told the port.

    `socket` is one that listens already, and that other processes accept from as well.
    """
    watch = watch or Watch()
    config = uvicorn.Config(
        application,
        host=listening.host,
        port=listening.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=_AFTER_DRAIN,
        http=watched(limits),
        limit_concurrency=limits.connections,
        timeout_keep_alive=_IDLE_SECONDS,
        ws_max_size=limits.body_bytes,
    )
    server = _Server(config)
    port = socket or opened_port(listening)
    serving = asyncio.ensure_future(server.serve([port]))
    stopped = asyncio.Event()
    with _signals(stopped, watch.drain):
        try:
            while not server.started and not serving.done():
                await asyncio.sleep(0.01)
            if server.started:
                number = port.getsockname()[1]
                watch.log.tell("start", host=listening.host, port=number, pid=os.getpid())
                started(number)
                await _either(serving, stopped.wait())
                await _drained(watch, listening.drain_seconds)
        finally:
            # Also where this task is cancelled: what was taken on is ended as far as it can be.
            server.should_exit = True
            await serving
    watch.log.tell("stop", pid=os.getpid())


class _Server(uvicorn.Server):
    """Leaves signals alone: they begin a drain, and only what comes after that is the server's."""

    @contextmanager
    def capture_signals(self) -> Generator[None]:
        yield


@contextmanager
def _signals(stopped: asyncio.Event, drain: Drain) -> Generator[None]:
    """The first asks for an end, the next one for an end now."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()

    def told() -> None:
        if stopped.is_set():
            drain.hurry()
        stopped.set()

    # A worker is told by its watcher alone, who set this.
    taken = [one for one in (signal.SIGTERM, signal.SIGINT) if signal.getsignal(one) is not signal.SIG_IGN]
    for one in taken:
        loop.add_signal_handler(one, told)
    try:
        yield
    finally:
        for one in taken:
            loop.remove_signal_handler(one)


async def _either(serving: asyncio.Future[None], stopped: Coroutine[Any, Any, Any]) -> None:
    waiting = asyncio.ensure_future(stopped)
    try:
        await asyncio.wait({serving, waiting}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        waiting.cancel()


async def _drained(watch: Watch, seconds: float) -> None:
    drain = watch.drain
    drain.begin()
    watch.log.tell("drain", under_way=len(watch.requests), seconds=seconds)
    cut = await drain.ended(seconds)
    watch.log.tell("drained", count=cut)


def watched(limits: Limits) -> type[asyncio.Protocol]:
    """uvicorn's protocol over httptools, with limits that it has not: see `door.connection`."""
    return type("Connection", (Watched, HttpToolsProtocol), {"limits": limits})
