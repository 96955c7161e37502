"""Rate and concurrency limits: requests per minute of a key, and simultaneous answers of a key and of the gateway.

The counts belong to one process. Each of several workers has its own share: see `Limiter.of`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from ferrule.errors import TooManyError
from ferrule.server.config.config import GatewayLimits, KeyConfig

_MINUTE = 60.0
_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class TokenBucket:
    """A token bucket: allows a burst of one minute's requests, then refills at the same rate."""

    per_minute: float
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _updated_at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = max(self.per_minute, 1.0)
        self._updated_at = self.clock()

    def take(self) -> float:
        """Take a token and return 0. If there is none, return the seconds until the next one and take nothing."""
        now = self.clock()
        tokens = self._tokens + (now - self._updated_at) * self.per_minute / _MINUTE
        self._tokens, self._updated_at = min(tokens, max(self.per_minute, 1.0)), now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) * _MINUTE / self.per_minute


@dataclass(slots=True)
class Slots:
    """Slots for simultaneous answers. A limit of 0 is no limit."""

    limit: int
    in_use: int = 0

    @property
    def is_full(self) -> bool:
        return 0 < self.limit <= self.in_use


@dataclass(slots=True)
class Limiter:
    """The token buckets and slots of all keys, and the slots of the gateway."""

    gateway_slots: Slots
    key_slots: dict[str, Slots]
    buckets: dict[str, TokenBucket]
    workers: int = 1
    clock: Callable[[], float] = time.monotonic

    @staticmethod
    def of(
        limits: GatewayLimits, keys: Iterable[KeyConfig], workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> Limiter:
        """Build a limiter for one of `workers` processes. Shares are rounded up, so their sum is at least the limit."""
        limiter = Limiter(Slots(_share(limits.streams, workers)), {}, {}, workers, clock)
        limiter.set_keys({key.name: key for key in keys})
        return limiter

    def set_gateway_limit(self, streams: int) -> None:
        self.gateway_slots.limit = _share(streams, self.workers)

    def set_keys(self, keys: Mapping[str, KeyConfig]) -> None:
        """Take the limits of these keys, by the name under which they are counted. What was counted before stays."""
        for name, key in keys.items():
            self.set_key(name, key)
        for name in self.key_slots.keys() - keys.keys():
            # A slot in use is still held by the answer that runs.
            del self.key_slots[name]
            self.buckets.pop(name, None)

    def set_key(self, name: str, key: KeyConfig) -> None:
        """Take the limits of one key."""
        width, rate = _share(key.width, self.workers), key.rate / self.workers
        self.key_slots.setdefault(name, Slots(width)).limit = width
        bucket = self.buckets.get(name)
        if not rate:
            self.buckets.pop(name, None)
        elif bucket is None or bucket.per_minute != rate:
            self.buckets[name] = TokenBucket(rate, self.clock)

    def count_request(self, key: str) -> None:
        """Count one request of a key. Raises `TooManyError` if the key exceeds its rate."""
        bucket = self.buckets.get(key)
        if bucket is not None and (wait := bucket.take()):
            raise TooManyError(
                f"the key {key!r} exceeds its request rate",
                retry_after=wait,
                hint="Wait, or raise the rate of the key.",
            )

    @contextmanager
    def slot(self, key: str) -> Generator[None]:
        """Hold a slot while an answer is in progress. `key` is empty if the gateway has no keys."""
        own = self.key_slots.get(key)
        if own is not None and own.is_full:
            raise TooManyError(
                f"the key {key!r} has reached its limit of simultaneous answers",
                retry_after=_RETRY_SECONDS,
                hint="Wait until one has ended.",
            )
        if self.gateway_slots.is_full:
            raise TooManyError(
                "the gateway has reached its limit of simultaneous answers",
                code="overloaded",
                retry_after=_RETRY_SECONDS,
                hint="Retry later.",
            )
        acquired = [self.gateway_slots] if own is None else [self.gateway_slots, own]
        for places in acquired:
            places.in_use += 1
        try:
            yield
        finally:
            for places in acquired:
                places.in_use -= 1


def _share(limit: int, workers: int) -> int:
    # Ceiling division. A limit of 0, which is no limit, stays 0.
    return -(-limit // workers)
