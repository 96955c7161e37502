"""`/healthz` and `/readyz`: whether the process is alive, and whether it should receive requests. They need no key.

They report counts and no names: names of models and engines need a key. A remote engine is healthy if its port accepts
a connection and it has not just failed; an engine in this process if it has not just failed. A probe takes time, so its
result is cached for a second.

Hung tools are reported and never make the gateway "not ready": their threads are bounded per tool and tenant, so it
still serves everyone else, and a tool that hangs must not be able to take the gateway out of rotation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ferrule.errors import LedgerError
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPEN, AnyResponse, Request, Response, Route

_CACHE_SECONDS = 1.0
_PROBE_TIMEOUT = 2.0
_PROBE_CONVERSATION = "conv_readyz"
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_UNAVAILABLE = 503


def routes(gateway: Gateway) -> list[Route]:
    readiness = Readiness(gateway)

    async def get_health(request: Request) -> AnyResponse:
        return Response.json({"status": "alive"})

    async def get_readiness(request: Request) -> AnyResponse:
        status = await readiness.status()
        is_ready = status["status"] == "ready"
        return Response.json(status, 200 if is_ready else _UNAVAILABLE)

    return [
        Route("GET", "/healthz", get_health, OPEN, render_error),
        Route("GET", "/readyz", get_readiness, OPEN, render_error),
    ]


@dataclass(slots=True)
class Readiness:
    """Probes the gateway and caches the result."""

    gateway: Gateway
    clock: Callable[[], float] = time.monotonic
    _last: dict[str, Any] = field(default_factory=dict[str, Any])
    _checked_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def status(self) -> dict[str, Any]:
        async with self._lock:
            if not self._last or self.clock() - self._checked_at > _CACHE_SECONDS:
                self._last, self._checked_at = await self._probe(), self.clock()
        is_draining = self.gateway.telemetry.drain.has_begun
        models, ledger = self._last["models"], self._last["ledger"]
        is_ready = not is_draining and models["ready"] == models["of"] and ledger == "answers"
        return {"status": "ready" if is_ready else "not ready", "draining": is_draining, **self._last}

    async def _probe(self) -> dict[str, Any]:
        config, router = self.gateway.config, self.gateway.router
        reachable, ledger = await asyncio.gather(
            _probe_engines({one.name: one.use for one in config.engines}), self._probe_ledger()
        )
        healthy = {one.name for one in router.replicas if one.health.is_healthy and reachable.get(one.name, True)}
        ready = [model for model in router.models.values() if any(one.name in healthy for one in model.replicas)]
        return {
            "models": {"ready": len(ready), "of": len(router.models)},
            "engines": {"well": len(healthy), "of": len(router.replicas)},
            "ledger": ledger,
            "tools": {"hung": sum(load.hung for load in self.gateway.tool_catalog.source.loads)},
        }

    async def _probe_ledger(self) -> str:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                # Loading a conversation that does not exist is a cheap query that still reaches the database.
                await self.gateway.ledger.load(_PROBE_CONVERSATION)
        except LedgerError as error:
            self.gateway.telemetry.record_ledger_failure(error)
            return "fails"
        except TimeoutError:
            return "is silent"
        return "answers"


async def _probe_engines(engines: Mapping[str, str]) -> dict[str, bool]:
    """Which of the engines that have a URL accept a connection."""
    addresses = {name: address for name, use in engines.items() if (address := _address(use)) is not None}
    results = await asyncio.gather(*(_accepts_connection(*address) for address in addresses.values()))
    return dict(zip(addresses, results, strict=True))


def _address(use: str) -> tuple[str, int] | None:
    url = urlsplit(use.partition(":")[2])
    if url.scheme not in _PORTS or not url.hostname:
        return None
    return url.hostname, url.port or _PORTS[url.scheme]


async def _accepts_connection(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_PROBE_TIMEOUT):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
