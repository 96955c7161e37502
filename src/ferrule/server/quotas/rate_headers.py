"""The headers that say how much of a quota is left, as clients of OpenAI and of Anthropic read them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache

from ferrule.server.config.quotas import QuotaUnit
from ferrule.server.quotas.charge import QuotaUse

_UNITS = (QuotaUnit.REQUESTS, QuotaUnit.TOKENS)
"""What these APIs have headers for."""


def rate_headers(uses: Iterable[QuotaUse]) -> dict[str, str]:
    """Return both APIs' headers. Of several quotas that count the same, the one with the smallest part left counts."""
    tightest: dict[QuotaUnit, QuotaUse] = {}
    for use in uses:
        unit = use.quota.counts
        known = tightest.get(unit)
        if unit in _UNITS and (known is None or use.remaining / use.quota.most < known.remaining / known.quota.most):
            tightest[unit] = use
    headers: dict[str, str] = {}
    for unit, use in tightest.items():
        seconds = max(1, round(use.seconds_left))
        most, left = str(int(use.quota.most)), str(int(use.remaining))
        headers |= {
            f"x-ratelimit-limit-{unit}": most,
            f"x-ratelimit-remaining-{unit}": left,
            f"x-ratelimit-reset-{unit}": _duration(seconds),
            f"anthropic-ratelimit-{unit}-limit": most,
            f"anthropic-ratelimit-{unit}-remaining": left,
            f"anthropic-ratelimit-{unit}-reset": _moment(int(time.time()) + seconds),
        }
    return headers


@lru_cache(maxsize=64)
def _moment(seconds: int) -> str:
    """A moment in seconds since the epoch, in RFC 3339. All answers of a second have the same few."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


@lru_cache(maxsize=64)
def _duration(seconds: int) -> str:
    """A duration as OpenAI writes it, such as `1h2m3s`."""
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    parts = ((hours, "h"), (minutes, "m"), (rest, "s"))
    return "".join(f"{count}{unit}" for count, unit in parts if count)
