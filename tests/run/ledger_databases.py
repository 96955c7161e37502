"""Databases for the ledger's tests: a SQLite file, or a schema of its own in a private PostgreSQL cluster."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import psycopg

from ferrule.core.context import Principal
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval
from ferrule.run.ledger.placements import HERE
from ferrule.run.ledger.sql import SqlLedger

T = TypeVar("T")

ANN = Principal("ann", "acme")
LEASE = 10.0
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Database:
    """The database of a ledger. `execute` bypasses the ledger, as an attacker with database access could."""

    where: Any
    """Its address, or a tuple of them."""
    execute: Callable[[str, Sequence[object]], list[tuple[Any, ...]]] = field(repr=False)

    @property
    def argument(self) -> str:
        """The address for a process that reads it with `address_of`."""
        return self.where if isinstance(self.where, str) else json.dumps(self.where)

    def run(self, scenario: Callable[[Any], Coroutine[Any, Any, T]]) -> T:
        """Run a scenario with this ledger and return its result."""

        async def run_scenario() -> T:
            async with await open_ledger(self.where) as ledger:
                return await scenario(ledger)

        return asyncio.run(run_scenario())


def address_of(argument: str) -> str | list[str]:
    return json.loads(argument) if argument.startswith("[") else argument


def claim(conversation: str = "c", call_id: str = "k", arguments: object = None, **others: str) -> Claim:
    """Ann's call to pay three."""
    fields = {"tenant": "acme", "principal": "ann", "tool": "pay", "tool_fingerprint": "f1", **others}
    values = {"amount": 3} if arguments is None else arguments
    return Claim(conversation, call_id, arguments=canonical_bytes(values), **fields)


async def propose_call(ledger: SqlLedger, needs_approval: bool = False, what: Claim | None = None) -> Claim:
    """Propose a call in Ann's conversation, which the process "one" owns."""
    what = what or claim()
    if await ledger.load(what.conversation) is None:
        await ledger.open(what.conversation, ANN, "one", LEASE, now=0)
    await ledger.propose(what, 1, side_effects=True, needs_approval=needs_approval, now=0)
    return what


async def approve_call(ledger: SqlLedger, what: Claim | None = None) -> tuple[Claim, Approval]:
    """Propose a call and approve it until 5."""
    what = await propose_call(ledger, True, what)
    request = await ledger.request_approval(what.conversation, what.call_id, 1, expires=5, now=0)
    return what, await ledger.approve(request.id, "bob", now=1)


# A claim with one change, and the error code when the approval is for the original.
CHANGED_CLAIMS: dict[str, tuple[dict[str, object], str]] = {
    "a byte of the arguments": ({"arguments": b'{"amount":4}'}, "approval_arguments_changed"),
    "a space in the arguments": ({"arguments": b'{"amount": 3}'}, "approval_arguments_changed"),
    "the principal": ({"principal": "eve"}, "approval_other_principal"),
    "the tenant": ({"tenant": "evil"}, "approval_other_principal"),
    "the tool": ({"tool": "pay_all"}, "approval_tool_changed"),
    "the definition": ({"tool_fingerprint": "f2"}, "approval_tool_changed"),
}


def fresh_name() -> str:
    return f"c{next(_numbers)}"


def sqlite_database(folder: Path, name: str = "ledger.db") -> Database:
    return database_at(str(folder / name))


def postgres_database(cluster: Path) -> Database:
    """Create a separate schema, which the address names."""
    schema = f"s{next(_numbers)}"
    dsn = f"postgresql://postgres@/postgres?host={cluster}"
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
    return database_at(f"{dsn}&options=-csearch_path%3D{schema}")


def database_at(address: str) -> Database:
    """A database that there is, or a file that SQLite makes."""

    def execute_in_sqlite(text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        import sqlite3

        connection = sqlite3.connect(address, isolation_level=None)
        try:
            return connection.execute(text, tuple(values)).fetchall()
        finally:
            connection.close()

    def execute_in_postgres(text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        with psycopg.connect(address, autocommit=True) as connection:
            cursor = connection.execute(text.replace("?", "%s").encode(), tuple(values))
            return cursor.fetchall() if cursor.description else []

    return Database(address, execute_in_postgres if address.startswith("postgresql:") else execute_in_sqlite)


def sharded_database(first: Database, second: Database) -> Database:
    """Return a ledger over two databases. `execute` executes in the one that has Ann's tenant."""
    databases, addresses = (first, second), (str(first.where), str(second.where))

    def execute(text: str, values: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        if "ferrule_ledger" in text or text.startswith("DROP"):
            return [one.execute(text, values) for one in databases][-1]
        placed = f"SELECT 1 FROM ferrule_tenant WHERE shard = {HERE} AND tenant = ?"
        (home,) = [one for one in databases if one.execute(placed, [ANN.tenant])]
        return home.execute(text, values)

    return Database(addresses, execute)


@contextmanager
def postgres_cluster() -> Iterator[Path]:
    """Run a server that listens only on a socket in its own folder; yield the folder and delete it afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="ferrule-pg-"))
    data = folder / "data"
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")
    try:
        _as_postgres(folder, "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        start_postgres(folder)
        try:
            yield folder
        finally:
            stop_postgres(folder)
    finally:
        shutil.rmtree(folder)


def start_postgres(folder: Path) -> None:
    """Start the server of a cluster."""
    # Without fsync only a machine that loses its power loses what was committed: no test does that.
    settings = f"-c listen_addresses='' -c unix_socket_directories='{folder}' -c max_connections=60 -c fsync=off"
    data, log = str(folder / "data"), str(folder / "log")
    _as_postgres(folder, "pg_ctl", "-D", data, "-w", "-l", log, "-o", settings, "start")


def stop_postgres(folder: Path) -> None:
    """Stop the server of a cluster, with all connections."""
    _as_postgres(folder, "pg_ctl", "-D", str(folder / "data"), "-w", "-m", "immediate", "stop")


def _as_postgres(folder: Path, program: str, *arguments: str) -> None:
    """Run a program as another user if this is root: the server refuses to run as root."""
    user: dict[str, Any] = {}
    if os.geteuid() == 0:
        them = pwd.getpwnam("postgres")
        user = {"user": them.pw_uid, "group": them.pw_gid, "extra_groups": []}
    # Not captured: the server keeps what it inherits open, and reading it would never end.
    with (folder / "setup.log").open("ab") as log:
        subprocess.run([_binary(program), *arguments], check=True, cwd=folder, stdout=log, stderr=log, **user)


def _binary(program: str) -> str:
    path = shutil.which(program)
    if path:
        return path
    # Debian keeps the server's programs out of the path, one folder for each version.
    newest = max(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: int(path.parts[-3]))
    return str(newest)
