"""Time what retention costs in Postgres: a week that is dropped, beside the same week deleted row by row.

    .venv/bin/python -m lab.ledger_retention --conversations 100000

Two databases are filled alike with one week of conversations that have ended, by COPY and with true hash chains. In one
of them a conversation of that week is still in use, so that the week cannot be dropped.
"""

import argparse
import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from dataclasses import astuple, replace
from typing import Any, Final

import psycopg

from ferrule.core.context import Principal
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.audit_chain import GENESIS, hash_of
from ferrule.run.ledger.ledger import AuditRecord
from ferrule.run.ledger.partitions import DAY_SECONDS, day_of, week_of
from ferrule.run.ledger.sql import SqlLedger
from lab.ledger_server import PostgresServer, postgres_server

_MESSAGES: Final = 6
_AUDIT_ROWS: Final = 4
_TEXT: Final = "All work and no play makes a long conversation. " * 10
_PRINCIPAL: Final = Principal("ann", "acme")
_YEAR: Final = 365 * DAY_SECONDS
_CONVERSATION: Final = (
    "id, tenant, principal, owner, epoch, lease_until, version, state, audit_seq, audit_head, messages, opened_at, "
    "changed_at, title, born"
)


def _chain(id: str, at: float) -> list[AuditRecord]:
    rows: list[AuditRecord] = []
    previous = GENESIS
    for seq in range(1, _AUDIT_ROWS + 1):
        row = AuditRecord(id, seq, at, "saved", "", "", "one", 1, '{"n":1}', previous, "")
        rows.append(replace(row, hash=hash_of(row)))
        previous = rows[-1].hash
    return rows


def _copy(connection: psycopg.Connection[Any], table: str, columns: str, rows: Iterator[Sequence[object]]) -> None:
    with connection.cursor() as cursor, cursor.copy(f"COPY {table} ({columns}) FROM STDIN".encode()) as copy:
        for row in rows:
            copy.write_row(row)


def fill(server: PostgresServer, database: str, conversations: int) -> None:
    """Fill a database with conversations of this week."""
    address = server.create(database)
    asyncio.run(_work(address, _nothing))
    at = time.time()
    born = day_of(at)
    chains = {f"c-{number}": _chain(f"c-{number}", at) for number in range(conversations)}
    audit = "conversation, seq, at, kind, call_id, approval, decided_by, epoch, detail, previous, hash, born"
    body = json.dumps({"role": "user", "content": _TEXT})
    with psycopg.connect(address, autocommit=True) as connection:
        _copy(
            connection,
            "ferrule_conversation",
            _CONVERSATION,
            (
                (id, "acme", "ann", "one", 1, 0.0, 1, "{}", len(rows), rows[-1].hash, _MESSAGES, at, at, "", born)
                for id, rows in chains.items()
            ),
        )
        _copy(connection, "ferrule_audit", audit, ((*astuple(row), born) for rows in chains.values() for row in rows))
        _copy(
            connection,
            "ferrule_message",
            "born, conversation, n, body",
            ((born, id, n, body) for id in chains for n in range(_MESSAGES)),
        )
    server.analyze(database)


async def _nothing(ledger: SqlLedger) -> None:
    """Opening it makes its tables."""


async def _work(address: str, work: Callable[[SqlLedger], Coroutine[Any, Any, object]]) -> object:
    async with await open_ledger(address) as ledger:
        return await work(ledger)


def timed(address: str, what: str, work: Callable[[SqlLedger], Coroutine[Any, Any, object]]) -> None:
    began = time.perf_counter()
    result = asyncio.run(_work(address, work))
    print(f"{what}: {time.perf_counter() - began:.2f} s  {result}", flush=True)


def _timed_sql(address: str, what: str, *texts: str) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        began = time.perf_counter()
        for text in texts:
            connection.execute(text.encode())
        print(f"{what}: {time.perf_counter() - began:.3f} s", flush=True)


def main() -> None:
    reader = argparse.ArgumentParser(prog="python -m lab.ledger_retention", description=(__doc__ or "").split("\n")[0])
    reader.add_argument("--conversations", type=int, default=100_000)
    count = reader.parse_args().conversations
    later = time.time() + _YEAR
    cutoff = later - 100 * DAY_SECONDS
    week = week_of(day_of(time.time()))

    async def verify(ledger: SqlLedger) -> object:
        return await ledger.verify()

    async def prune(ledger: SqlLedger) -> object:
        report = await ledger.prune(cutoff, now=later)
        return report.conversations, len(report.dropped)

    async def prune_audit(ledger: SqlLedger) -> object:
        report = await ledger.prune(cutoff, cutoff, now=later)
        return report.audits, len(report.dropped)

    async def hold(ledger: SqlLedger) -> object:
        return (await ledger.open("c-7", _PRINCIPAL, "two", 30.0, now=later)).epoch

    with postgres_server() as server:
        for database in ("dropped", "deleted", "bare"):
            fill(server, database, count)
        print(f"{count} conversations, {count * _MESSAGES} messages, {count * _AUDIT_ROWS} audit rows", flush=True)
        bare = server.address("bare")
        _timed_sql(bare, "bare DELETE of the audit rows of the week", f"DELETE FROM ferrule_audit_{week}")
        _timed_sql(bare, "bare DELETE of the messages of the week", f"DELETE FROM ferrule_message_{week}")
        server.checkpoint()
        dropped, deleted = server.address("dropped"), server.address("deleted")
        _timed_sql(
            server.copy("dropped", "bare"),
            "bare TRUNCATE and DROP of the messages of the week",
            f"TRUNCATE ferrule_message_{week}",
            f"DROP TABLE ferrule_message_{week}",
        )
        timed(dropped, "verify all audit logs", verify)
        timed(deleted, "one conversation in use", hold)
        timed(dropped, "prune, the week is dropped", prune)
        timed(deleted, "prune, the week is deleted row by row", prune)
        timed(dropped, "verify the stubs", verify)
        timed(dropped, "audit logs, the week is dropped", prune_audit)
        timed(deleted, "audit logs, deleted row by row", prune_audit)
        for database in ("dropped", "deleted"):
            print(f"{database}: {server.size(database) / 1e6:.0f} MB left", flush=True)


if __name__ == "__main__":
    main()
