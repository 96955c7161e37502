"""Drain: how a gateway stops. Takes nothing new, lets what is under way end, and cuts the rest off in its own shape.

Knows no signal and no server: `serving` does.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ferrule.errors import DrainingError

_STEP = 0.05
_GRACE = 2.0
"""How long what was cut off may take to say so."""
_STILL_SERVED = ("open", "admin")
"""Probes and metrics: whoever runs the gateway sees how it stops."""


class UnderWay(Protocol):
    """Something that is being done for somebody."""

    @property
    def can_wait(self) -> bool:
        """It does nothing now, and ends only when it is told to, such as a quiet WebSocket."""
        ...

    def cut(self) -> None:
        """End it with a `DrainingError`, wherever it stands."""
        ...


@dataclass(slots=True)
class Drain:
    """`under_way` is kept by whoever does something."""

    has_begun: bool = False
    is_over: bool = False
    under_way: set[UnderWay] = field(default_factory=set[UnderWay])
    clock: Callable[[], float] = time.monotonic

    def check(self, scope: str) -> None:
        if self.has_begun and scope not in _STILL_SERVED:
            raise refusal()

    def begin(self) -> None:
        self.has_begun = True

    def hurry(self) -> None:
        """Wait no longer."""
        self.is_over = True

    async def ended(self, seconds: float) -> int:
        """When nothing is under way any more, after that many seconds at the latest. How much had to be cut off."""
        until = self.clock() + seconds
        while self.under_way and self.clock() < until and not self.is_over:
            for one in [one for one in self.under_way if one.can_wait]:
                one.cut()
            await asyncio.sleep(_STEP)
        left = list(self.under_way)
        for one in left:
            one.cut()
        until = self.clock() + _GRACE
        while self.under_way and self.clock() < until:
            await asyncio.sleep(_STEP)
        return len(left)


def refusal() -> DrainingError:
    return DrainingError("this gateway is being stopped", hint="Ask again: another one answers, or this one soon will.")
