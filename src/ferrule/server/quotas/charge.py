"""Charge: what one request adds to one counter, and how much that counter may hold."""

from __future__ import annotations

from dataclasses import dataclass

from ferrule.server.config.quotas import QuotaConfig


@dataclass(frozen=True, slots=True)
class Charge:
    """An amount for one counter of a quota. An amount of 0 only asks whether anything is left."""

    quota: QuotaConfig
    owner: str
    """Whose counter it is, such as a key of a tenant."""
    amount: float = 0.0

    def counter_at(self, now: float) -> str:
        """The name of the counter in the period of a moment: each period has its own, and begins at 0."""
        return f"{self.quota.name}:{int(now // self.quota.per.seconds)}:{self.owner}"

    def seconds_left(self, now: float) -> float:
        """How long the period of a moment still lasts."""
        seconds = self.quota.per.seconds
        return seconds - now % seconds

    def fits(self, used: float, most: float) -> bool:
        return used + self.amount <= most if self.amount else used < most


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """How much of a quota is used in the current period, and when it ends."""

    quota: QuotaConfig
    used: float
    seconds_left: float

    @property
    def remaining(self) -> float:
        return max(0.0, self.quota.most - self.used)
