"""Run Envoy in front of a gateway, with the configuration from the deployment page and shorter timeouts.

`scripts/setup-envoy` installs it.
"""

import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from lab.paths import CACHE, ROOT
from lab.servers import ServerFailedError, answers, free_port, run_server

ENVOY: Final = CACHE / "venvs" / "envoy" / "bin" / "envoy"
CONFIG: Final = ROOT / "docs" / "how-to" / "deploy" / "envoy.yaml"
SECONDS: Final[Mapping[str, str]] = {
    "request_headers_timeout: 10s": "request_headers_timeout: 3s",
    "request_timeout: 60s": "request_timeout: 4s",
    "stream_idle_timeout: 60s": "stream_idle_timeout: 8s",
    "idle_timeout: 300s": "idle_timeout: 3s",
}


def envoy_config(text: str, gateway: int, port: int, admin: int, changes: Mapping[str, str] = SECONDS) -> str:
    """The configuration for these ports. Raises if the file lacks a line that has to be changed."""
    ports = {
        "address: 0.0.0.0, port_value: 8080": f"address: 127.0.0.1, port_value: {port}",
        "address: gateway, port_value: 8000": f"address: 127.0.0.1, port_value: {gateway}",
        "port_value: 9901": f"port_value: {admin}",
    }
    for old, new in {**ports, **changes}.items():
        if old not in text:
            raise ServerFailedError(f"envoy.yaml no longer contains {old!r}", hint="update lab/hostile_envoy.py")
        text = text.replace(old, new)
    return text


@contextmanager
def envoy(gateway: int) -> Generator[int]:
    """Run Envoy in front of the gateway on that port; yields Envoy's port."""
    port, admin = free_port(), free_port()
    CACHE.mkdir(exist_ok=True)
    path = CACHE / f"envoy-{port}.yaml"
    path.write_text(envoy_config(CONFIG.read_text(encoding="utf-8"), gateway, port, admin), encoding="utf-8")
    command = [str(ENVOY), "--config-path", str(path), "--concurrency", "1", "--disable-hot-restart"]
    try:
        with run_server("envoy", [*command, "--log-level", "warning"], {}, admin, answers("/ready"), 60):
            _wait_for_the_gateway(port)
            yield port
    finally:
        path.unlink()


def _wait_for_the_gateway(port: int) -> None:
    """Wait for Envoy's first health check of the gateway."""
    until = time.monotonic() + 30
    while not answers("/v1/models")(f"http://127.0.0.1:{port}", CONFIG):
        if time.monotonic() > until:
            raise ServerFailedError("Envoy does not reach the gateway")
        time.sleep(0.1)


def version() -> str:
    process = subprocess.run([str(ENVOY), "--version"], capture_output=True, text=True, check=True)
    return process.stdout.strip().split("/")[-4]
