"""`ferrule doctor --ledger`: tells whether the database of a ledger keeps what the ledger promises.

It only reads. The ledger itself cannot see most of this: a server that does not wait for its disk, or fails over to a
standby that lags, loses commits that it has confirmed.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule.errors import LedgerError, LedgerUnavailableError
from ferrule.run.ledger.address import CONNECTIONS

OK, WARNING, FAILED = "ok", "warning", "failed"
_WRITERS = 2
"""Connections for writing, which a process opens beside the others."""
_POSTGRES = ("postgresql://", "postgres://")
_SQLITE = "sqlite:///"
_CLOCK_TOLERANCE = 1.0
"""Seconds. Leases are at least as long, and so is the precision of most people's watches."""
_CLOCK_READS = 5
_CONNECT_SECONDS = 10
_SYNCHRONOUS = ("sync", "quorum")
# With "local" a commit waits for the primary's disk only, with "off" for nothing.
_DURABLE_COMMIT = ("on", "remote_apply", "remote_write", "local")
_TABLE = "ferrule_ledger"
_VERSIONS = f"SELECT version FROM {_TABLE}"
_SQLITE_HAS_TABLE = f"SELECT 1 FROM sqlite_master WHERE name = '{_TABLE}'"
_POSTGRES_HAS_TABLE = f"SELECT to_regclass('{_TABLE}') IS NOT NULL"
_OWN = "application_name LIKE 'ferrule/%'"
"""The name that the ledger gives its connections has the machine and the process in it."""


@dataclass(frozen=True, slots=True)
class LedgerFinding:
    """One fact about a ledger's database, and what to do if it is not as it should be."""

    name: str
    verdict: str
    evidence: str
    advice: str = ""


Query = Callable[[str], Sequence[tuple[Any, ...]]]


def connections_of(connections: int) -> int:
    """Return how many connections a process opens at most, of which `connections` are in use at the same time.

    One more says that the process is alive, if a turn lasts long.
    """
    return connections + min(connections, _WRITERS) + 1


def examine_ledger(address: str, processes: int, connections: int = CONNECTIONS) -> list[LedgerFinding]:
    """Examine the database at an address, as it is for `processes` processes that use it.

    `connections` is the setting `ledger_connections` of these processes.

    Example:
        for finding in examine_ledger("postgresql://localhost/ferrule", processes=4):
            print(finding.name, finding.verdict, finding.evidence)
    """
    if address.startswith(_POSTGRES):
        return _examine_postgres(address, processes, connections_of(connections))
    return _examine_sqlite(Path(address.removeprefix(_SQLITE)))


def read_ledger_version(address: str) -> int:
    """Return the version of a ledger without opening it, which would raise it; 0 if there is none."""
    if not address.startswith(_POSTGRES):
        _examine_sqlite(path := Path(address.removeprefix(_SQLITE)))
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            if not connection.execute(_SQLITE_HAS_TABLE).fetchall():
                return 0
            return max((row[0] for row in connection.execute(_VERSIONS)), default=0)
    psycopg = _psycopg()
    try:
        with psycopg.connect(
            address, autocommit=True, prepare_threshold=None, connect_timeout=_CONNECT_SECONDS
        ) as connection:
            if not connection.execute(_POSTGRES_HAS_TABLE.encode()).fetchone()[0]:
                return 0
            rows = connection.execute(_VERSIONS.encode()).fetchall()
            return max((row[0] for row in rows), default=0)
    except psycopg.Error as fault:
        raise LedgerUnavailableError(
            f"the ledger's database: {str(fault).strip()}", hint="Check the address, and whether the server runs."
        ) from fault


def _examine_postgres(address: str, processes: int, most: int) -> list[LedgerFinding]:
    psycopg = _psycopg()
    try:
        # Statements that are not prepared also work behind a pooler that gives each transaction another connection.
        with psycopg.connect(
            address, autocommit=True, prepare_threshold=None, connect_timeout=_CONNECT_SECONDS
        ) as connection:

            def query(text: str) -> Sequence[tuple[Any, ...]]:
                return connection.execute(text.encode()).fetchall()

            return [
                LedgerFinding("answers", OK, f"PostgreSQL {_one(query, 'SHOW server_version')}"),
                _ledger_version(query),
                *_role(query),
                *_durability(query),
                *_standbys(query),
                _connections(query, processes, most, is_pooled=_is_pooled(query, connection.info.backend_pid)),
                _clock(query),
            ]
    except psycopg.Error as fault:
        raise LedgerUnavailableError(
            f"the ledger's database: {str(fault).strip()}", hint="Check the address, and whether the server runs."
        ) from fault


def _ledger_version(query: Query) -> LedgerFinding:
    if not _one(query, f"SELECT to_regclass('{_TABLE}') IS NOT NULL"):
        return LedgerFinding("ledger", OK, "the database has no ledger yet; the first process that opens it makes one")
    return _version_finding([row[0] for row in query(f"SELECT version FROM {_TABLE} ORDER BY 1")])


def _version_finding(versions: list[int]) -> LedgerFinding:
    from ferrule.run.ledger.tables import VERSION

    found = max(versions, default=0)
    if found > VERSION:
        advice = "a newer release of Ferrule has upgraded this ledger: install that release"
        return LedgerFinding("ledger", FAILED, f"version {found}; this release reads up to {VERSION}", advice)
    older = "" if found == VERSION else f"; it is upgraded to {VERSION} when it is next opened"
    return LedgerFinding("ledger", OK, f"version {found}{older}")


def _role(query: Query) -> list[LedgerFinding]:
    if not _one(query, "SELECT pg_is_in_recovery()"):
        return []
    advice = "the address leads to a standby, which accepts no writes: use the primary's"
    return [LedgerFinding("role", FAILED, "standby", advice)]


def _durability(query: Query) -> list[LedgerFinding]:
    commit = _one(query, "SHOW synchronous_commit")
    return [
        _switch(
            query, "fsync", "a crash of the machine loses or damages what was committed: an effect can happen twice"
        ),
        _switch(query, "full_page_writes", "a crash of the machine can leave half a page on disk"),
        LedgerFinding("synchronous_commit", OK, commit)
        if commit in _DURABLE_COMMIT
        else LedgerFinding(
            "synchronous_commit",
            WARNING,
            commit,
            "a commit is confirmed before it is on disk. The ledger turns this on for its own connections, which a "
            "pooler such as PgBouncer in transaction mode can undo: set synchronous_commit = on",
        ),
    ]


def _switch(query: Query, name: str, danger: str) -> LedgerFinding:
    value = _one(query, f"SHOW {name}")
    if value == "on":
        return LedgerFinding(name, OK, value)
    return LedgerFinding(name, WARNING, value, f"{danger}: set {name} = on")


def _standbys(query: Query) -> list[LedgerFinding]:
    # What a user without rights on statistics may not see is NULL.
    rows = query("SELECT coalesce(application_name, ''), coalesce(sync_state, '') FROM pg_stat_replication ORDER BY 1")
    names = _one(query, "SHOW synchronous_standby_names")
    commit = _one(query, "SHOW synchronous_commit")
    if not rows and not names:
        return [LedgerFinding("standby", OK, "none is connected")]
    if not rows:
        advice = "every commit waits until a standby connects: start one, or empty synchronous_standby_names"
        return [LedgerFinding("standby", FAILED, f"none is connected, and {names!r} is required", advice)]
    evidence = ", ".join(f"{name or 'unnamed'} ({state or 'state not visible'})" for name, state in rows)
    if any(not state for _, state in rows):
        advice = "grant pg_read_all_stats to see whether it is synchronous"
        return [LedgerFinding("standby", WARNING, evidence, advice)]
    if not any(state in _SYNCHRONOUS for _, state in rows):
        advice = (
            "a failover can lose the last commits, and an effect can then happen twice: name the standby in "
            "synchronous_standby_names"
        )
        return [LedgerFinding("standby", WARNING, evidence, advice)]
    if commit in ("off", "local"):
        advice = f"synchronous_commit = {commit} does not wait for the standby: set it to on"
        return [LedgerFinding("standby", WARNING, evidence, advice)]
    return [LedgerFinding("standby", OK, evidence)]


def _is_pooled(query: Query, pid: int) -> bool:
    """Whether a pooler is in between: it has told the driver another process than the one that answers."""
    return _one(query, "SELECT pg_backend_pid()") != pid


def _connections(query: Query, processes: int, most: int, *, is_pooled: bool) -> LedgerFinding:
    allowed = int(_one(query, "SHOW max_connections")) - int(_one(query, "SHOW superuser_reserved_connections"))
    used = int(
        _one(
            query,
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
        )
    )
    # A pooler shows only those processes that have a connection of the server just now.
    seen = int(_one(query, f"SELECT count(DISTINCT application_name) FROM pg_stat_activity WHERE {_OWN}"))
    processes = max(processes, seen)
    needed = processes * most
    evidence = f"{allowed} allowed, {used} in use by {seen} processes of Ferrule and others; "
    if is_pooled:
        evidence += f"through a pooler; {processes} processes open up to {needed} to the pooler"
        return LedgerFinding("connections", OK, evidence)
    evidence += f"{processes} processes open up to {needed}"
    if needed <= allowed:
        return LedgerFinding("connections", OK, evidence)
    advice = (
        "processes will wait or fail: raise max_connections, lower ledger_connections, run fewer processes, or put "
        "PgBouncer in transaction mode in between"
    )
    return LedgerFinding("connections", WARNING, evidence, advice)


def _clock(query: Query) -> LedgerFinding:
    # The read that was answered fastest says most.
    difference, spent = min((_read_clock(query) for _ in range(_CLOCK_READS)), key=lambda read: read[1])
    evidence = (
        f"the server is {abs(difference):.3f} s {'ahead' if difference > 0 else 'behind'} (+/- {spent / 2:.3f} s)"
    )
    if abs(difference) - spent / 2 <= _CLOCK_TOLERANCE:
        return LedgerFinding("clock", OK, evidence)
    advice = "leases and approvals expire too early or too late: run NTP on this machine and on the server"
    return LedgerFinding("clock", WARNING, evidence, advice)


def _read_clock(query: Query) -> tuple[float, float]:
    """Return how far the server's clock is ahead, and how long it took to ask."""
    began = time.time()
    server = float(_one(query, "SELECT extract(epoch FROM clock_timestamp())"))
    spent = time.time() - began
    return server - (began + spent / 2), spent


def _one(query: Query, text: str) -> Any:
    return query(text)[0][0]


def _examine_sqlite(path: Path) -> list[LedgerFinding]:
    if not path.is_file():
        raise LedgerError(f"there is no ledger at {path}", code="unknown_ledger", hint="Check the path.")
    try:
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
        try:

            def query(text: str) -> Sequence[tuple[Any, ...]]:
                return connection.execute(text).fetchall()

            answers = LedgerFinding("answers", OK, f"SQLite {sqlite3.sqlite_version}")
            if not query(f"SELECT 1 FROM sqlite_master WHERE name = '{_TABLE}'"):
                return [answers, LedgerFinding("ledger", FAILED, "the file is not a ledger", "check the path")]
            version = _version_finding([row[0] for row in query(f"SELECT version FROM {_TABLE} ORDER BY 1")])
            mode = _one(query, "PRAGMA journal_mode")
        finally:
            connection.close()
    except sqlite3.Error as fault:
        raise LedgerUnavailableError(f"the ledger's database: {fault}", hint="Check the path.") from fault
    note = "one machine only: not for a network file system, and nothing fails over"
    return [answers, version, LedgerFinding("journal", OK, f"{mode}; {note}")]


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError:
        raise LedgerError(
            "a ledger in Postgres needs psycopg", code="not_installed", hint='pip install "ferrule[postgres]"'
        ) from None
    return psycopg
