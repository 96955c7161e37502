"""Run private PostgreSQL servers on loopback: a primary, its standbys, and PgBouncer before them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lab.servers import ServerFailedError, free_port

_USER: Final = "postgres"
_READY_SECONDS: Final = 60.0
_NO_SETTINGS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(slots=True)
class PostgresServer:
    """A server that listens on a port of loopback and on a socket in its own folder."""

    folder: Path
    port: int
    settings: dict[str, str] = field(default_factory=dict[str, str])

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def address(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def create(self) -> None:
        _own(self.folder)
        _run(self.folder, "initdb", "-D", str(self.data), "-U", _USER, "-A", "trust", "-E", "UTF8", "--no-sync")

    def start(self) -> None:
        settings = {
            **{"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": str(self.folder)},
            **{"max_connections": "100", "hot_standby": "on", **self.settings},
        }
        options = " ".join(f"-c {name}='{value}'" for name, value in settings.items())
        _run(self.folder, "pg_ctl", "-D", str(self.data), "-w", "-l", str(self.folder / "log"), "-o", options, "start")

    def stop(self, mode: str = "immediate") -> None:
        """Stop the server: `fast` ends connections in order, `immediate` like a crash."""
        _run(self.folder, "pg_ctl", "-D", str(self.data), "-w", "-m", mode, "stop")

    @property
    def is_running(self) -> bool:
        return (self.data / "postmaster.pid").exists()

    def promote(self) -> None:
        """Make a standby the primary."""
        _run(self.folder, "pg_ctl", "-D", str(self.data), "-w", "promote")


@contextmanager
def postgres_server(settings: Mapping[str, str] = _NO_SETTINGS) -> Generator[PostgresServer]:
    """Run a new server until the block ends. By default it does not wait for the disk: no test loses its power."""
    with _folder() as folder:
        server = PostgresServer(folder, free_port(), {"fsync": "off", **settings})
        server.create()
        server.start()
        try:
            yield server
        finally:
            if server.is_running:
                server.stop()


@contextmanager
def standby_server(primary: PostgresServer, name: str = "standby") -> Generator[PostgresServer]:
    """Run a streaming standby of a server until the block ends. `name` is what `synchronous_standby_names` lists."""
    with _folder() as folder:
        _own(folder)
        standby = PostgresServer(folder, free_port(), {"fsync": "off", "wal_retrieve_retry_interval": "100ms"})
        source = f"host=127.0.0.1 port={primary.port} user={_USER} application_name={name}"
        _run(folder, "pg_basebackup", "-D", str(standby.data), "-d", source, "-R", "-X", "stream", "-c", "fast")
        standby.start()
        try:
            yield standby
        finally:
            if standby.is_running:
                standby.stop()


@dataclass(slots=True)
class PgBouncer:
    """PgBouncer in transaction mode before a server. It can be pointed to another server while clients stay."""

    folder: Path
    port: int
    target: PostgresServer
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"postgresql://{_USER}@127.0.0.1:{self.port}/postgres"

    def start(self) -> None:
        self._write()
        self.process = _start(self.folder, "pgbouncer", str(self._config), log=self.folder / "output.log")
        _wait_for_port(self.port)

    def stop(self) -> None:
        """End the process at once, with all connections."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def point_to(self, target: PostgresServer) -> None:
        """Send new transactions to another server. What runs on the old one is not waited for."""
        self.target = target
        self._write()
        assert self.process is not None
        self.process.send_signal(signal.SIGHUP)

    @property
    def _config(self) -> Path:
        return self.folder / "pgbouncer.ini"

    def _write(self) -> None:
        users = self.folder / "users.txt"
        users.write_text(f'"{_USER}" ""\n', encoding="utf-8")
        self._config.write_text(
            f"[databases]\npostgres = host=127.0.0.1 port={self.target.port} user={_USER}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = any\nauth_file = {users}\npool_mode = transaction\nadmin_users = {_USER}\n"
            f"default_pool_size = 20\nmax_client_conn = 200\nserver_login_retry = 1\nserver_fast_close = 1\n"
            f"ignore_startup_parameters = extra_float_digits\nlogfile = {self.folder / 'pgbouncer.log'}\n",
            encoding="utf-8",
        )


@contextmanager
def pgbouncer(target: PostgresServer) -> Generator[PgBouncer]:
    """Run PgBouncer before a server until the block ends."""
    with _folder() as folder:
        _own(folder)
        bouncer = PgBouncer(folder, free_port(), target)
        bouncer.start()
        try:
            yield bouncer
        finally:
            bouncer.stop()


@contextmanager
def _folder() -> Generator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="ferrule-pg-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def _own(folder: Path) -> None:
    if os.geteuid() == 0:
        shutil.chown(folder, _USER, _USER)


def _start(folder: Path, program: str, *arguments: str, log: Path) -> subprocess.Popen[bytes]:
    """Start a program as another user if this is root: the servers refuse to run as root."""
    command = [_binary(program), *arguments]
    # Not captured: the server keeps what it inherits open, and reading it would never end.
    with log.open("ab") as out:
        if os.geteuid() != 0:
            return subprocess.Popen(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        entry = pwd.getpwnam(_USER)
        return subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            user=entry.pw_uid,
            group=entry.pw_gid,
            extra_groups=[],
        )


def _run(folder: Path, program: str, *arguments: str) -> None:
    log = folder / "setup.log"
    if _start(folder, program, *arguments, log=log).wait():
        raise ServerFailedError(f"{program} failed: {log.read_text(errors='replace')[-600:]}")


def _binary(program: str) -> str:
    path = shutil.which(program) or shutil.which(program, path="/usr/sbin")
    if path:
        return path
    # Debian keeps the server's programs out of the path, one folder for each version.
    paths = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: int(path.parts[-3]))
    if not paths:
        raise ServerFailedError(
            f"{program} is not installed", hint="Install postgresql, or run scripts/setup-pgbouncer."
        )
    return str(paths[-1])


def _wait_for_port(port: int) -> None:
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise ServerFailedError(f"nothing listens on port {port}")
