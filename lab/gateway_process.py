"""`ferrule serve` as a process of its own, for live tests and measurements: started, waited for, and surely ended."""

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
from lab.servers import MODEL, ServerFailed, end_group

SMOL: Final = f"llama:{MODEL}?threads=1"
"""SmolLM2 in the gateway's own process."""
_LOGS: Final = CACHE / "logs"
_SAYS: Final = re.compile(r"serving on (http://\S+)\s")


@dataclass(frozen=True, slots=True)
class GatewayProcess:
    """A gateway that can be asked. `log` holds what it wrote."""

    url: str
    process: "subprocess.Popen[bytes]"
    log: Path

    def kill(self) -> None:
        """SIGKILL, as a crash would be; what was under way is left as it was."""
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
    patience: float = 120.0,
) -> Generator[GatewayProcess]:
    """A gateway in a session of its own, on a free port unless the arguments name one, from when it is up.

    `engine` None leaves it to the arguments. `prefix` is a command that the gateway is started by, such as `unshare`;
    `python` the interpreter that has Ferrule.
    """
    command = [*prefix, str(python), "-m", "ferrule", "serve"]
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
    """The same, for who needs only its address."""
    with gateway_process(arguments, engine=engine, environment=environment) as gateway:
        yield gateway.url


def _url(process: "subprocess.Popen[bytes]", log: Path, patience: float) -> str:
    """The address that it says it serves on: the port is its own choice."""
    until = time.monotonic() + patience
    while time.monotonic() < until:
        found = _SAYS.search(log.read_text(errors="replace"))
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise ServerFailed(f"the gateway did not come up; its last words: {log.read_text(errors='replace')[-600:]}")
