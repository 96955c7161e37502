"""Envoy before the gateways, with the configuration of the deployment page and both of them in its cluster."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lab.hostile_envoy import CONFIG, ENVOY, envoy_config
from lab.servers import ServerFailedError, answers, free_port, run_server

_ENDPOINT = (
    "              - endpoint:\n                  address: { socket_address: { address: gateway, port_value: 8000 } }\n"
)


@contextmanager
def envoy(ports: Sequence[int], folder: Path) -> Generator[str]:
    """Run Envoy before gateways on these ports until the block ends; yields its URL."""
    text = CONFIG.read_text(encoding="utf-8")
    if _ENDPOINT not in text:
        raise ServerFailedError("envoy.yaml has no endpoint as before", hint="update lab/operate/envoy.py")
    first, *others = ports
    more = "".join(_ENDPOINT.replace("gateway, port_value: 8000", f"127.0.0.1, port_value: {one}") for one in others)
    port, admin = free_port(), free_port()
    file = folder / "envoy.yaml"
    file.write_text(envoy_config(text.replace(_ENDPOINT, _ENDPOINT + more), first, port, admin, {}), encoding="utf-8")
    command = [str(ENVOY), "--config-path", str(file), "--concurrency", "1", "--disable-hot-restart"]
    with run_server("envoy", [*command, "--log-level", "warning"], {}, admin, answers("/ready"), 60):
        yield f"http://127.0.0.1:{port}"
