"""Drain: stops a gateway gracefully.

It refuses new requests, waits for active ones, and cancels the rest with an error in the format of their API. Signals
and the server are handled by `process.server`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ferrule.errors import DrainingError
from ferrule.server.http import ADMIN, OPEN, OPERATOR

_POLL_SECONDS = 0.05
_GRACE_SECONDS = 2.0
"""How long cancelled work may take to report its error."""
_STILL_SERVED = (OPEN, ADMIN, OPERATOR)
"""Probes and metrics keep working while the gateway drains."""


class Drainable(Protocol):
    """Active work: a request, an answer or a connection."""

    @property
    def is_idle(self) -> bool:
        """It does nothing now and never ends by itself, such as an idle WebSocket."""
        ...

    def cancel(self) -> None:
        """End it with a `DrainingError`."""
        ...


@dataclass(slots=True)
class Drain:
    """The state of draining. Each request and answer adds itself to `active` and removes itself."""

    has_begun: bool = False
    is_hurried: bool = False
    active: set[Drainable] = field(default_factory=set[Drainable])
    clock: Callable[[], float] = time.monotonic
    ends_at: float | None = None
    """When the waiting ends, by `clock`."""

    def check(self, scope: str) -> None:
        if self.has_begun and scope not in _STILL_SERVED:
            raise draining_error()

    def begin(self) -> None:
        self.has_begun = True

    def hurry(self) -> None:
        """Stop waiting and cancel what is left."""
        self.is_hurried = True

    def seconds_left(self, otherwise: float) -> float:
        """How much of the drain is left; `otherwise` if the gateway is closed without one."""
        return otherwise if self.ends_at is None else max(0.0, self.ends_at - self.clock())

    async def wait(self, seconds: float) -> int:
        """Wait until nothing is active, at most `seconds`; then cancel the rest. Returns how much was cancelled."""
        self.ends_at = deadline = self.clock() + seconds
        while self.active and self.clock() < deadline and not self.is_hurried:
            # Idle connections never end by themselves. A copy, because cancelling changes the set.
            for one in [one for one in self.active if one.is_idle]:
                one.cancel()
            await asyncio.sleep(_POLL_SECONDS)
        remaining = list(self.active)
        for one in remaining:
            one.cancel()
        deadline = self.clock() + _GRACE_SECONDS
        while self.active and self.clock() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
        return len(remaining)


def draining_error() -> DrainingError:
    return DrainingError(
        "this gateway is shutting down", hint="Retry: another gateway, or this one after a restart, will answer."
    )
