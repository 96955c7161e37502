"""Send the same request to several gateways by turns, so that what the machine does meanwhile affects all of them."""

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

from lab.gateway_process import GatewayProcess, gateway_process
from lab.process_cost import cost_of


@dataclass(slots=True)
class GatewayTimes:
    """The seconds of each request, and the CPU seconds of the gateway for all of them."""

    seconds: list[float] = field(default_factory=list[float])
    cpu_seconds: float = 0.0


def alternate(configs: Mapping[str, str], body: str, count: int, folder: Path) -> dict[str, GatewayTimes]:
    """Start a gateway for each configuration, and send each of them `count` requests, one at a time."""
    times = {name: GatewayTimes() for name in configs}
    with ExitStack() as stack:
        gateways = {name: _start(stack, folder / f"{name}.toml", config) for name, config in configs.items()}
        connections = {name: HTTPConnection(urlsplit(gateway.url).netloc) for name, gateway in gateways.items()}
        before = {name: cost_of(gateway.process.pid) for name, gateway in gateways.items()}
        for _ in range(count):
            for name, connection in connections.items():
                started = time.perf_counter()
                connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
                answer = connection.getresponse()
                answer.read()
                assert answer.status == 200
                times[name].seconds.append(time.perf_counter() - started)
        for name, gateway in gateways.items():
            times[name].cpu_seconds = cost_of(gateway.process.pid).since(before[name]).cpu
    return times


def _start(stack: ExitStack, file: Path, config: str) -> GatewayProcess:
    file.write_text(config, encoding="utf-8")
    return stack.enter_context(gateway_process(["--config", str(file)], engine=None))
