"""Gateways whose tools are on a bus, and the workers on the bus that run them. Each is a process."""

from __future__ import annotations

import asyncio
from multiprocessing.connection import Connection
from pathlib import Path

from ferrule.sources import Bus, Worker
from lab.ledger_storm.gateway import serve_script
from lab.ledger_storm.script import storm_tools


def run_bus_worker(url: str, effects: str, ready: Connection) -> None:
    """Serve the tools on the bus until the process is killed."""
    asyncio.run(_serve_tools(url, Path(effects), ready))


async def _serve_tools(url: str, effects: Path, ready: Connection) -> None:
    async with Worker(storm_tools(effects), url, server="storm"):
        ready.send(0)
        await asyncio.Event().wait()


def run_bus_gateway(ledger: str, url: str, lease: float, ready: Connection) -> None:
    """Serve on a free port, which is sent over the connection, until the process is killed."""
    asyncio.run(_serve_gateway(ledger, url, lease, ready))


async def _serve_gateway(ledger: str, url: str, lease: float, ready: Connection) -> None:
    async with Bus(url) as bus:
        await serve_script(ledger, bus, lease, ready)
