"""Limits: how much each key and the whole gateway have under way, and how often a key asks. Counts; knows no request.

The counts are of this process. Where several serve, each has its own: see `Limiter.of`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field

from ferrule.errors import TooManyError
from ferrule.server.config.config import KeyConfig, Limits

_MINUTE = 60.0
_SOON = 1.0


@dataclass(slots=True)
class Bucket:
    """A token bucket: as many requests at once as a minute has, and then as they come in again."""

    a_minute: float
    clock: Callable[[], float] = time.monotonic
    _tokens: float = field(init=False)
    _at: float = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = max(self.a_minute, 1.0)
        self._at = self.clock()

    def take(self) -> float:
        """0 where there was a token; otherwise the seconds until there is one, and nothing is taken."""
        now = self.clock()
        grown = self._tokens + (now - self._at) * self.a_minute / _MINUTE
        self._tokens, self._at = min(grown, max(self.a_minute, 1.0)), now
        if self._tokens >= 1.0:
            self._tokens -= 1.0
            return 0.0
        return (1.0 - self._tokens) * _MINUTE / self.a_minute


@dataclass(slots=True)
class Places:
    """Places for answers; 0 is without end."""

    most: int
    taken: int = 0

    @property
    def is_full(self) -> bool:
        return 0 < self.most <= self.taken


@dataclass(slots=True)
class Limiter:
    """The buckets and places of every key, and the places of the gateway."""

    all: Places
    keys: dict[str, Places]
    buckets: dict[str, Bucket]

    @staticmethod
    def of(
        limits: Limits, keys: Iterable[KeyConfig], workers: int = 1, clock: Callable[[], float] = time.monotonic
    ) -> Limiter:
        """Each of several workers has its share, rounded up: the sum is never less than what was promised to a key."""
        held = list(keys)
        return Limiter(
            Places(_share(limits.streams, workers)),
            {key.name: Places(_share(key.width, workers)) for key in held},
            {key.name: Bucket(key.rate / workers, clock) for key in held if key.rate},
        )

    def count(self, key: str) -> None:
        """One more request by this key."""
        bucket = self.buckets.get(key)
        if bucket is not None and (wait := bucket.take()):
            raise TooManyError(
                f"the key {key!r} asks more often than it may", retry_after=wait, hint="Wait, or ask for a higher rate."
            )

    @contextmanager
    def place(self, key: str) -> Generator[None]:
        """A place for an answer, for as long as it is under way. `key` is empty where there are no keys."""
        own = self.keys.get(key)
        if own is not None and own.is_full:
            raise TooManyError(
                f"the key {key!r} has as many answers under way as it may",
                retry_after=_SOON,
                hint="Wait until one has ended.",
            )
        if self.all.is_full:
            raise TooManyError(
                "the gateway has as many answers under way as it may",
                code="overloaded",
                retry_after=_SOON,
                hint="Wait a little.",
            )
        taken = [self.all] if own is None else [self.all, own]
        for places in taken:
            places.taken += 1
        try:
            yield
        finally:
            for places in taken:
                places.taken -= 1


def _share(most: int, workers: int) -> int:
    return -(-most // workers)
