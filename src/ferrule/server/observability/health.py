"""`/healthz` and `/readyz`: whether the process lives, and whether it should be sent requests. For who has no key.

They tell how many and never which: names of models and engines are for keys. An engine that is asked over HTTP is well
when its port takes a connection and it has not just failed; one in this process when it has not just failed. Looking
takes a moment, so that what was seen holds for a second, however often one asks.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from ferrule.errors import LedgerError
from ferrule.server.apis.chat import shape
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPEN, Answer, Asked, Route, Whole

_HOLDS = 1.0
_PATIENCE = 2.0
_NOBODYS = "conv_readyz"
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
_UNAVAILABLE = 503


def routes(gateway: Gateway) -> list[Route]:
    look = Readiness(gateway)

    async def alive(asked: Asked) -> Answer:
        return Whole.of({"status": "alive"})

    async def ready(asked: Asked) -> Answer:
        found = await look.now()
        is_ready = found["status"] == "ready"
        return Whole.of(found, 200 if is_ready else _UNAVAILABLE)

    return [Route("GET", "/healthz", alive, OPEN, shape), Route("GET", "/readyz", ready, OPEN, shape)]


@dataclass(slots=True)
class Readiness:
    """What was seen last, and when."""

    gateway: Gateway
    clock: Callable[[], float] = time.monotonic
    _seen: dict[str, Any] = field(default_factory=dict[str, Any])
    _at: float = 0.0
    _looking: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def now(self) -> dict[str, Any]:
        async with self._looking:
            if not self._seen or self.clock() - self._at > _HOLDS:
                self._seen, self._at = await self._looked(), self.clock()
        is_draining = self.gateway.watch.drain.has_begun
        models, ledger = self._seen["models"], self._seen["ledger"]
        is_ready = not is_draining and models["ready"] == models["of"] and ledger == "answers"
        return {"status": "ready" if is_ready else "not ready", "draining": is_draining, **self._seen}

    async def _looked(self) -> dict[str, Any]:
        config, router = self.gateway.config, self.gateway.router
        reached, ledger = await asyncio.gather(_reached({one.name: one.use for one in config.engines}), self._ledger())
        well = {one.name for one in router.replicas if one.health.is_well and reached.get(one.name, True)}
        ready = [model for model in router.models.values() if any(one.name in well for one in model.replicas)]
        return {
            "models": {"ready": len(ready), "of": len(router.models)},
            "engines": {"well": len(well), "of": len(router.replicas)},
            "ledger": ledger,
        }

    async def _ledger(self) -> str:
        try:
            async with asyncio.timeout(_PATIENCE):
                await self.gateway.ledger.load(_NOBODYS)
        except LedgerError as failure:
            self.gateway.watch.ledger_failed(failure)
            return "fails"
        except TimeoutError:
            return "is silent"
        return "answers"


async def _reached(engines: Mapping[str, str]) -> dict[str, bool]:
    """Which of those that have an address take a connection there."""
    places = {name: place for name, use in engines.items() if (place := _address(use)) is not None}
    found = await asyncio.gather(*(_takes_a_connection(*place) for place in places.values()))
    return dict(zip(places, found, strict=True))


def _address(use: str) -> tuple[str, int] | None:
    url = urlsplit(use.partition(":")[2])
    if url.scheme not in _PORTS or not url.hostname:
        return None
    return url.hostname, url.port or _PORTS[url.scheme]


async def _takes_a_connection(host: str, port: int) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True
