"""`/healthz` and `/readyz`: whether the process is alive, and whether it should receive requests. They need no key.

Ready means that this process can serve: it has started and does not drain. What it depends on is reported and does not
decide. An engine that is down fails the requests for its models and no others; a ledger that is down fails the requests
that keep something and no others; a hung tool holds its own bounded threads. All replicas of a gateway share engines
and ledger, so a probe that looked at them would take every replica out of rotation at once, with everything that they
can still serve.

The probes report counts and no names: names of models and engines need a key. `/v1/engines` and the metrics have them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPEN, AnyResponse, Request, Response, Route

_CACHE_SECONDS = 1.0
_PROBE_TIMEOUT = 2.0
_PROBE_CONVERSATION = "conv_readyz"
_UNAVAILABLE = 503
ANSWERS = "answers"


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
        return {"status": "not ready" if is_draining else "ready", "draining": is_draining, **self._last}

    async def _probe(self) -> dict[str, Any]:
        router = self.gateway.router
        engines, ledger = await asyncio.gather(self.gateway.engine_probe.well_engines(), probe_ledger(self.gateway))
        healthy = {one.name for one in engines}
        ready = [model for model in router.models.values() if any(one.name in healthy for one in model.replicas)]
        return {
            "models": {"ready": len(ready), "of": len(router.models)},
            "engines": {"well": len(healthy), "of": len(router.replicas)},
            "ledger": summary_of([state for state, _ in ledger]),
            "tools": {"hung": sum(load.hung for load in self.gateway.tool_catalog.source.loads)},
        }


async def probe_ledger(gateway: Gateway) -> list[tuple[str, float]]:
    """Return the state of each database of the ledger ("answers", "fails" or "is silent"), and its seconds."""

    async def timed_probe(shard: Ledger) -> tuple[str, float]:
        started_at = time.monotonic()
        return await probe(shard), time.monotonic() - started_at

    async def probe(shard: Ledger) -> str:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT):
                # Loading a conversation that does not exist is a cheap query that still reaches the database.
                await shard.load(_PROBE_CONVERSATION)
        except LedgerError as error:
            gateway.telemetry.record_ledger_failure(error)
            return "fails"
        except TimeoutError:
            return "is silent"
        return ANSWERS

    return await asyncio.gather(*map(timed_probe, gateway.ledger.shards))


def summary_of(states: Sequence[str]) -> str:
    """Return the state of a ledger over several databases: that of all, or how many answer."""
    if len(set(states)) == 1:
        return states[0]
    return f"{states.count(ANSWERS)} of {len(states)} answer"
