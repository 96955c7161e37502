"""A private PostgreSQL server that commits to disk, and what it counts: for measurements of the ledger.

The server listens on a socket in its own folder. The figures are the server's own (transactions, statements, bytes of
its log) and the kernel's (CPU of its processes), so that they mean the same for every version of the ledger.
"""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, LiteralString, Self

import psycopg

from ferrule.errors import FerruleError

_SETTINGS: Final = (
    "listen_addresses=''",
    "max_connections=100",
    "shared_buffers=256MB",
    # A checkpoint in the middle of a measurement would write whole pages to the log.
    "checkpoint_timeout=1h",
    "max_wal_size=8GB",
    # It would count as transactions and as log. `analyze` does its work when nothing is measured.
    "autovacuum=off",
    # The CPU of a parallel worker is gone with it.
    "max_parallel_workers_per_gather=0",
    "shared_preload_libraries=pg_stat_statements",
    "pg_stat_statements.track_utility=on",
    "pg_stat_statements.max=5000",
)
_IS_CONTROL: Final = r"^\s*(begin|start|commit|rollback|savepoint|release|set|discard|deallocate)\M"
_WAIT_SECONDS: Final = 60.0


class ServerStuckError(FerruleError):
    """Connections to a database stay open after their process has ended."""

    code = "bench_server_stuck"


@dataclass(frozen=True, slots=True)
class Counts:
    """What the server has counted for one database since it started."""

    transactions: int = 0
    """Committed and rolled back ones. A connection reports them when it ends."""
    writing: int = 0
    """Transactions that changed or locked a row, in all databases."""
    statements: int = 0
    """Without BEGIN, COMMIT and other statements of transaction control."""
    wal_bytes: int = 0

    def since(self, before: "Counts") -> "Counts":
        return Counts(*(getattr(self, one.name) - getattr(before, one.name) for one in fields(self)))


class PostgresServer:
    """A running server. Use `postgres_server`; databases are created by `create`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._connection = psycopg.connect(f"postgresql://postgres@/postgres?host={folder}", autocommit=True)
        self._connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def create(self, database: str) -> str:
        """Create an empty database, without one of that name that may be there, and return its address."""
        self.drop(database)
        self._connection.execute(f"CREATE DATABASE {database}".encode())
        return self.address(database)

    def copy(self, database: str, name: str) -> str:
        """Copy a database that nobody uses, in place of one of that name, and return the copy's address."""
        self.drop(name)
        self._connection.execute(f"CREATE DATABASE {name} TEMPLATE {database} STRATEGY FILE_COPY".encode())
        return self.address(name)

    def rename(self, database: str, name: str) -> None:
        self._connection.execute(f"ALTER DATABASE {database} RENAME TO {name}".encode())

    def has(self, database: str) -> bool:
        return bool(self._one("SELECT COUNT(*) FROM pg_database WHERE datname = %s", database))

    def drop(self, database: str) -> None:
        self._connection.execute(f"DROP DATABASE IF EXISTS {database} WITH (FORCE)".encode())

    def address(self, database: str, folder: Path | None = None) -> str:
        """The address of a database, through the socket in another folder if one is given."""
        return f"postgresql://postgres@/{database}?host={folder or self.folder}"

    def analyze(self, database: str) -> None:
        """Update the planner's statistics, as the server itself does sooner or later."""
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")

    def set_memory(self, database: str, size: str) -> None:
        """Set how much memory an index of a database may use while it is built."""
        self._connection.execute(f"ALTER DATABASE {database} SET maintenance_work_mem = '{size}'".encode())

    def checkpoint(self) -> None:
        self._connection.execute("CHECKPOINT")

    def size(self, database: str) -> int:
        """Bytes on disk."""
        return self._one("SELECT pg_database_size(%s)", database)

    def counts(self, database: str) -> Counts:
        return Counts(
            self._one("SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = %s", database),
            self.writing_transactions(),
            self._one(
                "SELECT COALESCE(SUM(calls), 0)::bigint FROM pg_stat_statements s JOIN pg_database d ON d.oid = s.dbid "
                "WHERE d.datname = %s AND s.toplevel AND s.query !~* %s",
                *(database, _IS_CONTROL),
            ),
            self._one("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint"),
        )

    def writing_transactions(self) -> int:
        """How many transactions have changed or locked a row; known at once, and not only when a connection ends."""
        return self._one("SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint")

    def connections(self, database: str) -> int:
        """How many connections a database has."""
        return len(self._backends(database))

    def wait_until_unused(self, database: str) -> None:
        """Wait until no connection is open: the last one has then reported what it counted."""
        until = time.monotonic() + _WAIT_SECONDS
        while self._backends(database):
            if time.monotonic() > until:
                raise ServerStuckError(f"the database {database} is still in use", hint="End its process.")
            time.sleep(0.02)

    def cpu(self, database: str) -> dict[int, int]:
        """Nanoseconds of CPU of each connection's process."""
        return {pid: _nanoseconds(pid) for pid in self._backends(database)}

    def _backends(self, database: str) -> list[int]:
        found = self._connection.execute(
            "SELECT pid FROM pg_stat_activity WHERE datname = %s AND backend_type = 'client backend'", (database,)
        )
        return [pid for (pid,) in found.fetchall()]

    def _one(self, text: LiteralString, *values: object) -> int:
        row: Any = self._connection.execute(text, values).fetchone()
        return row[0]


def cpu_since(after: dict[int, int], before: dict[int, int]) -> float:
    """Seconds of CPU between two readings. A process that began meanwhile counts whole."""
    return sum(spent - before.get(pid, 0) for pid, spent in after.items()) / 1e9


def _nanoseconds(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text(encoding="ascii").split()[0])
    except (FileNotFoundError, ProcessLookupError):
        return 0


@contextmanager
def postgres_server(data: Path | None = None, *, is_durable: bool = True) -> Generator[PostgresServer]:
    """Start a server and stop it at the end. `data` is kept, and made if it is not there; without it all is deleted.

    `is_durable=False` does not wait for the disk: only for filling a database.
    """
    # The socket's path must be short, and the data may be large: they are in different folders.
    folder = Path(tempfile.mkdtemp(prefix="ferrule-pg-"))
    data = data or folder / "data"
    try:
        _give_to_postgres(folder)
        if not (data / "PG_VERSION").exists():
            data.mkdir(parents=True, exist_ok=True)
            _give_to_postgres(data)
            _run(folder, "initdb", "-D", str(data), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-sync")
        settings = [*_SETTINGS, f"unix_socket_directories='{folder}'", f"fsync={'on' if is_durable else 'off'}"]
        options = " ".join(f"-c {setting}" for setting in settings)
        _run(folder, "pg_ctl", "-D", str(data), "-w", "-l", str(folder / "log"), "-o", options, "start")
        try:
            with PostgresServer(folder) as server:
                yield server
        finally:
            _run(folder, "pg_ctl", "-D", str(data), "-w", "-m", "fast", "stop")
    finally:
        shutil.rmtree(folder)


def _give_to_postgres(folder: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(folder, "postgres", "postgres")


def _run(folder: Path, program: str, *arguments: str) -> None:
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
