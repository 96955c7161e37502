"""Quota stores: where counters are kept. `MemoryQuotaStore` counts in this process.

A store adds all charges of a request or none, in one step, so that no two requests take the last of a quota.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ferrule.server.config.quotas import QuotaUnit
from ferrule.server.quotas.charge import Charge

_SWEEP_SIZE = 4_096
"""From this number of counters on, those of past periods are looked for."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What each counter holds, and which charge does not fit. If there is one, none was added."""

    refused: int | None
    used: tuple[float, ...]


class QuotaStore(Protocol):
    async def take(self, charges: Sequence[Charge], now: float) -> Taken:
        """Add all charges if each fits its quota, else none."""
        ...

    async def add(self, charges: Sequence[Charge], now: float) -> None:
        """Add charges, whatever the quota is: it was used already. A negative amount gives back."""
        ...

    async def used(self, charges: Sequence[Charge], now: float) -> tuple[float, ...]:
        """Return what each counter holds."""
        ...

    async def close(self) -> None: ...


@dataclass(slots=True)
class MemoryQuotaStore:
    """Counts in this process, which has one of `shares` equal parts of each quota."""

    shares: int = 1
    _counters: dict[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """What each counter holds, and when its period ends."""
    _next_sweep: int = _SWEEP_SIZE

    async def take(self, charges: Sequence[Charge], now: float) -> Taken:
        refused = next(
            (n for n, one in enumerate(charges) if not one.fits(self._held(one, now), self._most(one))), None
        )
        if refused is None:
            await self.add(charges, now)
        return Taken(refused, await self.used(charges, now))

    async def add(self, charges: Sequence[Charge], now: float) -> None:
        for one in charges:
            counter = one.counter_at(now)
            self._counters[counter] = (max(0.0, self._held(one, now) + one.amount), now + one.seconds_left(now))
        if len(self._counters) >= self._next_sweep:
            self._counters = {name: entry for name, entry in self._counters.items() if entry[1] > now}
            self._next_sweep = max(_SWEEP_SIZE, 2 * len(self._counters))

    async def used(self, charges: Sequence[Charge], now: float) -> tuple[float, ...]:
        # What is shown is of the whole gateway, as if the other processes had used as much.
        return tuple(self._held(one, now) * self.shares for one in charges)

    async def close(self) -> None:
        self._counters.clear()

    def _held(self, charge: Charge, now: float) -> float:
        return self._counters.get(charge.counter_at(now), (0.0, 0.0))[0]

    def _most(self, charge: Charge) -> float:
        quota = charge.quota
        if self.shares == 1:
            return quota.most
        # Rounded up, so that a quota of one request is not none in each process. Money is not counted in pieces.
        share = quota.most / self.shares
        return share if quota.counts is QuotaUnit.MONEY else math.ceil(share)
