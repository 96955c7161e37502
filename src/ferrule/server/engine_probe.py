"""EngineProbe: whether the engines that have a URL accept a connection.

A failed probe counts as a failure of the engine: it shows in `/v1/engines`, in the metrics and in the console, and
other engines are preferred. It never stops the gateway, which can serve every other model. A probe takes time, so its
result is cached for a second.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from ferrule.engines.registry import address_and_model
from ferrule.errors import EngineUnavailableError
from ferrule.server.config.config import Config
from ferrule.server.router import Replica, Router

CACHE_SECONDS = 1.0
PROBE_TIMEOUT = 2.0
_PORTS: Mapping[str, int] = {"http": 80, "https": 443}
ProbeResults = dict[str, EngineUnavailableError | None]


@dataclass(slots=True)
class EngineProbe:
    """Probes the engines of a router. `addresses` are host and port of those that have a URL, by name."""

    router: Router
    addresses: Mapping[str, tuple[str, int]]
    clock: Callable[[], float] = time.monotonic
    _last: ProbeResults | None = None
    _probed_at: float = 0.0
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    @staticmethod
    def of(config: Config, router: Router) -> EngineProbe:
        addresses = {one.name: address for one in config.engines if (address := _address(one.use)) is not None}
        return EngineProbe(router, addresses)

    async def probe(self) -> ProbeResults:
        """Return why each engine with a URL could not be reached; None for one that could."""
        async with self._lock:
            if self._last is None or self.clock() - self._probed_at > CACHE_SECONDS:
                self._last, self._probed_at = await self._probe_all(), self.clock()
        return self._last

    async def well_engines(self) -> list[Replica]:
        """Return the engines that can be reached and have not just failed."""
        results = await self.probe()
        return [one for one in self.router.replicas if one.health.is_healthy and results.get(one.name) is None]

    async def _probe_all(self) -> ProbeResults:
        replicas = [one for one in self.router.replicas if one.name in self.addresses]
        errors = await asyncio.gather(*(_connect(*self.addresses[one.name]) for one in replicas))
        for replica, error in zip(replicas, errors, strict=True):
            if error is not None:
                replica.health.record_failure(error)
        return {replica.name: error for replica, error in zip(replicas, errors, strict=True)}


def _address(use: str) -> tuple[str, int] | None:
    """The host and port in an engine string. The default address of a provider is not probed: nobody wrote it."""
    text = address_and_model(use)[0] or use.partition(":")[2]
    url = urlsplit(text)
    if url.scheme not in _PORTS or not url.hostname or url.netloc not in use:
        return None
    return url.hostname, url.port or _PORTS[url.scheme]


async def _connect(host: str, port: int) -> EngineUnavailableError | None:
    try:
        async with asyncio.timeout(PROBE_TIMEOUT):
            _, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError) as error:
        reason = str(error) or f"no answer for {PROBE_TIMEOUT:g} seconds"
        return EngineUnavailableError(f"{host}:{port} accepts no connection: {reason}")
    writer.close()
    return None
