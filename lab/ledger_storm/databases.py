"""The databases of a storm, and what a stopped process blocks in them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg

from lab.ledger_storm.storm import Storm, StormSize, new_board
from lab.postgres_server import postgres_server

_LOCKS = """
SELECT pid, state, wait_event, extract(epoch FROM clock_timestamp() - state_change)::int, left(query, 80)
FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
AND (state <> 'idle' OR wait_event_type = 'Lock')
"""


@asynccontextmanager
async def sqlite_storm(size: StormSize, folder: Path) -> AsyncGenerator[Storm]:
    path = folder / "ledger.db"

    def is_locked() -> bool:
        if not path.exists():
            return False
        connection = sqlite3.connect(path, timeout=size.lease, isolation_level=None)
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        else:
            connection.execute("ROLLBACK")
            return False
        finally:
            connection.close()

    async def blockage() -> str:
        # A file has no server that could end the transaction of a process that does not answer.
        return "it holds the lock of the file" if await asyncio.to_thread(is_locked) else ""

    yield Storm(size, str(path), new_board(folder / "board"), blockage)


@asynccontextmanager
async def postgres_storm(size: StormSize, folder: Path) -> AsyncGenerator[Storm]:
    with postgres_server() as server:

        async def no_blockage() -> str:
            # Nothing excuses it: the server outlives a client, and must let the others go on.
            return ""

        yield Storm(size, server.address, new_board(folder / "board"), no_blockage)


def activity(address: str) -> list[tuple[Any, ...]]:
    """Return what the connections of a server do or wait for."""
    with psycopg.connect(address, autocommit=True) as connection:
        return connection.execute(_LOCKS).fetchall()
