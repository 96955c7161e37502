"""Serving: an application on a port until it is told to stop. The one owner of uvicorn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import uvicorn

from ferrule.server.config import Listening


async def serve(application: Any, listening: Listening, started: Callable[[int], None] = lambda port: None) -> None:
    """Until SIGINT or SIGTERM; then answers under way are given time to end. `started` is told the port."""
    config = uvicorn.Config(
        application,
        host=listening.host,
        port=listening.port,
        log_config=None,
        access_log=False,
        lifespan="off",
        server_header=False,
        date_header=False,
        timeout_graceful_shutdown=int(listening.drain_seconds),
        h11_max_incomplete_event_size=65_536,
        ws_max_size=16_000_000,
    )
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve())
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        started(server.servers[0].sockets[0].getsockname()[1])
    await serving
