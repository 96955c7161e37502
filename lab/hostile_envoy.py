"""Envoy in front of a gateway, from the very file that the page on deployment gives; only its times are shorter.

`scripts/setup-envoy` brings it.
"""

import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import Final

from lab.paths import CACHE, ROOT
from lab.servers import ServerFailed, answers, free_port, running

ENVOY: Final = CACHE / "venvs" / "envoy" / "bin" / "envoy"
CONFIG: Final = ROOT / "docs" / "how-to" / "deploy" / "envoy.yaml"
SECONDS: Final[Mapping[str, str]] = {
    "request_headers_timeout: 10s": "request_headers_timeout: 3s",
    "request_timeout: 60s": "request_timeout: 4s",
    "stream_idle_timeout: 60s": "stream_idle_timeout: 8s",
    "idle_timeout: 300s": "idle_timeout: 3s",
}


def configured(text: str, gateway: int, port: int, admin: int, changes: Mapping[str, str] = SECONDS) -> str:
    """The file for these ports. What it no longer says cannot be changed, and is an error."""
    ports = {
        "address: 0.0.0.0, port_value: 8080": f"address: 127.0.0.1, port_value: {port}",
        "address: gateway, port_value: 8000": f"address: 127.0.0.1, port_value: {gateway}",
        "port_value: 9901": f"port_value: {admin}",
    }
    for old, new in {**ports, **changes}.items():
        if old not in text:
            raise ServerFailed(f"envoy.yaml does not say {old!r} any more", hint="mend hostile_envoy")
        text = text.replace(old, new)
    return text


@contextmanager
def envoy(gateway: int) -> Generator[int]:
    """Envoy before the gateway on that port; gives its own port."""
    port, admin = free_port(), free_port()
    CACHE.mkdir(exist_ok=True)
    made = CACHE / f"envoy-{port}.yaml"
    made.write_text(configured(CONFIG.read_text(encoding="utf-8"), gateway, port, admin), encoding="utf-8")
    command = [str(ENVOY), "--config-path", str(made), "--concurrency", "1", "--disable-hot-restart"]
    try:
        with running("envoy", [*command, "--log-level", "warning"], {}, admin, answers("/ready"), 60):
            _wait_for_the_gateway(port)
            yield port
    finally:
        made.unlink()


def _wait_for_the_gateway(port: int) -> None:
    """Its first look at the gateway's health takes a moment."""
    until = time.monotonic() + 30
    while not answers("/v1/models")(f"http://127.0.0.1:{port}", CONFIG):
        if time.monotonic() > until:
            raise ServerFailed("Envoy does not reach the gateway")
        time.sleep(0.1)


def version() -> str:
    told = subprocess.run([str(ENVOY), "--version"], capture_output=True, text=True, check=True)
    return told.stdout.strip().split("/")[-4]
