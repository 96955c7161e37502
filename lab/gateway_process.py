"""Run `ferrule serve` as a separate process, for live tests and measurements: start it, wait for it, always end it."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

from lab.paths import CACHE
from lab.servers import MODEL, ServerFailedError, end_group

SMOL: Final = f"llama:{MODEL}?threads=1"
"""SmolLM2 in the gateway's own process."""
_LOGS: Final = CACHE / "logs"
_SAYS: Final = re.compile(r"serving on (http://\S+)\s")


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A running gateway. `log` is the file with its output."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def kill(self) -> None:
        """Send SIGKILL, like a crash."""
        self.process.kill()
        self.process.wait()


@contextmanager
def gateway_process(
    arguments: Sequence[str] = (),
    *,
    engine: str | None = SMOL,
    environment: Mapping[str, str] = MappingProxyType({}),
    prefix: Sequence[str] = (),
    python: str | Path = sys.executable,
    module: str = "ferrule",
    patience: float = 120.0,
) -> Generator[GatewayProcess]:
    """Start a gateway in its own session and wait until it is up. It uses a free port unless the arguments name one.

    With `engine` None, the arguments choose the engine. `prefix` is a command that starts the gateway, such as
    `unshare`; `python` is the interpreter that has Ferrule, and `module` a module that runs Ferrule's commands.
    """
    command = [*prefix, str(python), "-m", module, "serve"]
    command += ["--engine", engine] if engine is not None else []
    command += [] if "--port" in arguments else ["--port", "0"]
    _LOGS.mkdir(parents=True, exist_ok=True)
    log = _LOGS / f"gateway-{os.getpid()}-{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, *arguments],
            stdout=out,
            stderr=out,
            env={**os.environ, "PYTHONUNBUFFERED": "1", **environment},
            start_new_session=True,
        )
        try:
            yield GatewayProcess(_url(process, log, patience), process, log)
        finally:
            end_group(process)


@contextmanager
def gateway_url(
    arguments: Sequence[str] = (),
    *,
    engine: str | None = SMOL,
    environment: Mapping[str, str] = MappingProxyType({}),
) -> Generator[str]:
    """Start a gateway; yields only its URL."""
    with gateway_process(arguments, engine=engine, environment=environment) as gateway:
        yield gateway.url


def _url(process: "subprocess.Popen[bytes]", log: Path, patience: float) -> str:
    """The URL in the gateway's log: the gateway chooses its own port."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        match = _SAYS.search(log.read_text(errors="replace"))
        if match:
            return match[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise ServerFailedError(f"the gateway did not start; the end of its log: {log.read_text(errors='replace')[-600:]}")
