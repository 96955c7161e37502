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
_EMPTY = (0.0, 0.0)


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
        counters = [one.counter_at(now) for one in charges]
        held = [self._held(counter) for counter in counters]
        for number, one in enumerate(charges):
            if not one.fits(held[number], self._most(one)):
                return Taken(number, self._shown(held))
        self._add(charges, counters, now)
        return Taken(None, self._shown([one.amount + before for one, before in zip(charges, held, strict=True)]))

    async def add(self, charges: Sequence[Charge], now: float) -> None:
        self.add_now(charges, now)

    def add_now(self, charges: Sequence[Charge], now: float) -> None:
        self._add(charges, [one.counter_at(now) for one in charges], now)

    async def used(self, charges: Sequence[Charge], now: float) -> tuple[float, ...]:
        return self._shown([self._held(one.counter_at(now)) for one in charges])

    async def close(self) -> None:
        self._counters.clear()

    def _add(self, charges: Sequence[Charge], counters: Sequence[str], now: float) -> None:
        for one, counter in zip(charges, counters, strict=True):
            if one.amount:
                self._counters[counter] = (max(0.0, self._held(counter) + one.amount), now + one.seconds_left(now))
        if len(self._counters) >= self._next_sweep:
            self._counters = {name: entry for name, entry in self._counters.items() if entry[1] > now}
            self._next_sweep = max(_SWEEP_SIZE, 2 * len(self._counters))

    def _held(self, counter: str) -> float:
        return self._counters.get(counter, _EMPTY)[0]

    def _shown(self, held: Sequence[float]) -> tuple[float, ...]:
        # What is shown is of the whole gateway, as if the other processes had used as much.
        return tuple([one * self.shares for one in held])

    def _most(self, charge: Charge) -> float:
        quota = charge.quota
        if self.shares == 1:
            return quota.most
        # Rounded up, so that a quota of one request is not none in each process. Money is not counted in pieces.
        share = quota.most / self.shares
        return share if quota.counts is QuotaUnit.MONEY else math.ceil(share)
