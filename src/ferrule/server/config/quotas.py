"""The settings of quotas: how much callers may use in a minute, an hour or a day, and where that is counted."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

_ALL = ("*",)


class QuotaFallback(StrEnum):
    """What happens to quotas while their store is away."""

    DIVIDE = "divide"
    REFUSE = "refuse"


class QuotaUnit(StrEnum):
    """What a quota counts."""

    REQUESTS = "requests"
    TOKENS = "tokens"
    MONEY = "money"
    CALLS = "calls"
    EFFECTS = "effects"

    @property
    def is_of_tools(self) -> bool:
        return self in (QuotaUnit.CALLS, QuotaUnit.EFFECTS)

    @property
    def is_known_later(self) -> bool:
        """Whether only the end of an answer says how much it was."""
        return self in (QuotaUnit.TOKENS, QuotaUnit.MONEY)


class QuotaPeriod(StrEnum):
    """How long a quota lasts. Periods begin at full minutes, hours and days of UTC."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"

    @property
    def seconds(self) -> int:
        return _SECONDS[self]


_SECONDS = {QuotaPeriod.MINUTE: 60, QuotaPeriod.HOUR: 3600, QuotaPeriod.DAY: 86_400}


class QuotaScope(StrEnum):
    """What has a count of its own."""

    KEY = "key"
    TENANT = "tenant"
    TOOL = "tool"
    GATEWAY = "gateway"


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaConfig:
    """How much of something callers may use in a period, over all workers and replicas."""

    name: str
    counts: QuotaUnit
    """What is counted: `requests` that a model answers, the `tokens` of prompts and answers, the `money` that they cost
    by the prices of the engines, `calls` of the gateway's tools, or `effects`: calls of tools with side effects."""
    most: float
    """How much may be used in a period."""
    per: QuotaPeriod
    """The period: `minute`, `hour` or `day`. It begins at a full minute, hour or day of UTC."""
    each: QuotaScope = QuotaScope.KEY
    """What has a count of its own: each `key`, each `tenant`, each `tool` of a tenant, or the whole `gateway`."""
    keys: tuple[str, ...] = _ALL
    """Patterns of the names of the keys that it is for."""
    tenants: tuple[str, ...] = _ALL
    """Patterns of the tenants that it is for."""
    tools: tuple[str, ...] = _ALL
    """Patterns of the tools that it is for, where it counts `calls` or `effects`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QuotaStoreConfig:
    """Where quotas are counted."""

    address: str = field(default="", repr=False)
    """A Valkey or Redis server that all replicas share, such as `valkey://127.0.0.1:6379/0`. If empty, each process
    counts its part by itself: quotas are divided by workers and replicas, and rounded up."""
    when_away: QuotaFallback = QuotaFallback.DIVIDE
    """What happens while that server is away: `divide` counts in each process as if there were none, `refuse` refuses
    what a quota is for."""
    replicas: int = 1
    """How many gateways there are. Without a shared store, each has its part of the quotas."""
