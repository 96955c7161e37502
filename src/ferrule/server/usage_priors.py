"""UsagePriors: what the usage of its tools says about each tenant's searches, read from the ledger behind them.

Every process that shares the ledger learns from all of them. A search never waits for the database: it takes the prior
that is there, which is none at first, and an old one is read anew in the background.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ferrule.errors import FerruleError
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.observability.telemetry import Telemetry
from ferrule.sources.search.usage_prior import usage_prior

REFRESH_SECONDS = 300.0
MAX_TENANTS = 1_000
_DAY_SECONDS = 86_400.0
_HALF_LIVES = 4
"""How far back is read. What is older would count less than a sixteenth."""
_NONE: Mapping[str, float] = {}


@dataclass(slots=True)
class _Prior:
    factors: Mapping[str, float]
    read_at: float


@dataclass(slots=True)
class UsagePriors:
    """`clock` is in Unix seconds. Without `half_life_days` usage is not read."""

    ledger: Ledger
    telemetry: Telemetry
    half_life_days: float
    clock: Callable[[], float] = time.time
    _priors: OrderedDict[str, _Prior] = field(default_factory=OrderedDict[str, _Prior])
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict[str, "asyncio.Task[None]"])

    def prior(self, tenant: str) -> Mapping[str, float]:
        """Return the factor of each tool of a tenant, as of the last reading. It costs a look-up."""
        if not self.half_life_days:
            return _NONE
        known = self._priors.get(tenant)
        if (known is None or self.clock() - known.read_at >= REFRESH_SECONDS) and tenant not in self._tasks:
            task = self._tasks[tenant] = asyncio.ensure_future(self.refresh(tenant))
            task.add_done_callback(lambda _: self._tasks.pop(tenant, None))
        return _NONE if known is None else known.factors

    async def refresh(self, tenant: str) -> None:
        """Read a tenant's usage. If the ledger cannot be read, the last prior stays until the next attempt."""
        now, half_life = self.clock(), self.half_life_days * _DAY_SECONDS
        known = self._priors.get(tenant)
        factors = _NONE if known is None else known.factors
        try:
            uses = await self.ledger.tool_uses(tenant, now - _HALF_LIVES * half_life)
            factors = await asyncio.to_thread(usage_prior, uses, now, half_life)
        except FerruleError as failure:
            self.telemetry.record_error(failure)
        # A task in the background has nobody who would see its error; searches use the prior before.
        except Exception as error:
            self.telemetry.handle_unexpected(error, "")
        self._priors[tenant] = _Prior(factors, now)
        self._priors.move_to_end(tenant)
        while len(self._priors) > MAX_TENANTS:
            self._priors.popitem(last=False)

    async def close(self) -> None:
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
