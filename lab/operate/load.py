"""An open-loop load: requests begin at the moments of a schedule, however late the answers to earlier ones are."""

from __future__ import annotations

import asyncio
import itertools
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import aiohttp

from lab.operate.budgets import Budget
from lab.operate.client import Exchange, ask
from lab.operate.kinds import CHAT, FROM_THE_START, Kind

_KEPT_OPEN: Final = 5.0
"""Seconds that an idle connection is kept, as in the SDK."""
_ALL: Final = 100.0


@dataclass(slots=True)
class BudgetUse:
    """A budget that is being asked for. `is_done` is set when all of its requests have ended."""

    budget: Budget
    begun: int = 0
    ended: int = 0
    due: float = 0.0
    """How many requests of it the schedule is behind, in parts of one."""
    is_done: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class Load:
    """Sends `rate` requests a second to the addresses. `keys` has the text of each key, by its name.

    `most_open` ends the run if that many requests are open: then the gateways answer nothing any more.
    """

    urls: Sequence[str]
    rate: float
    keys: Mapping[str, str]
    most_open: int
    kinds: list[Kind] = field(default_factory=lambda: list(FROM_THE_START))
    exchanges: list[Exchange] = field(default_factory=list[Exchange])
    uses: list[BudgetUse] = field(default_factory=list[BudgetUse])
    began: float = 0.0
    ended: float = 0.0
    """When the last request was sent."""
    _chance: random.Random = field(default_factory=lambda: random.Random(1))
    _open: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def open_requests(self) -> int:
        return len(self._open)

    def use(self, budget: Budget) -> BudgetUse:
        """Begin to ask for a budget."""
        use = BudgetUse(budget)
        self.uses.append(use)
        return use

    async def run(self, seconds: float, is_over: asyncio.Event, most_seconds: float) -> None:
        """Send requests for so long, and until the event is set; wait for their answers."""
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEPT_OPEN)
        async with aiohttp.ClientSession(connector=connector) as session:
            self.began = time.monotonic()
            try:
                for tick in itertools.count():
                    planned = self.began + tick / self.rate
                    elapsed = planned - self.began
                    if elapsed >= seconds and (is_over.is_set() or elapsed >= most_seconds):
                        break
                    if (pause := planned - time.monotonic()) > 0:
                        await asyncio.sleep(pause)
                    elif tick % 16 == 0:
                        # Behind the schedule, answers are still read.
                        await asyncio.sleep(0)
                    if len(self._open) >= self.most_open:
                        raise OverloadedError(f"{len(self._open)} requests are open after {elapsed:.0f} s")
                    self._send(session, planned)
                self.ended = time.monotonic()
                await asyncio.gather(*self._open)
            finally:
                for task in self._open:
                    task.cancel()
                await asyncio.gather(*self._open, return_exceptions=True)

    def _send(self, session: aiohttp.ClientSession, planned: float) -> None:
        use = self._next_use()
        kind = use.budget.kind if use is not None else self._next_kind()
        key = use.budget.name if use is not None else kind.key
        exchange = Exchange(next(self._numbers), kind, key, planned)
        self.exchanges.append(exchange)
        task = asyncio.create_task(self._ask(session, exchange, use))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _ask(self, session: aiohttp.ClientSession, exchange: Exchange, use: BudgetUse | None) -> None:
        await ask(session, self.urls, exchange, self.keys[exchange.key])
        if use is not None:
            use.ended += 1
            if use.ended == use.budget.asks:
                use.is_done.set()

    def _next_use(self) -> BudgetUse | None:
        active = [one for one in self.uses if one.begun < one.budget.asks]
        for one in active:
            one.due += one.budget.share
        use = max(active, key=lambda one: one.due, default=None)
        if use is None or use.due < 1:
            return None
        use.due -= 1
        use.begun += 1
        return use

    def _next_kind(self) -> Kind:
        draw = self._chance.random() * _ALL
        for kind in self.kinds:
            draw -= kind.share
            if draw < 0:
                return kind
        return CHAT


class OverloadedError(RuntimeError):
    """More requests are open than the run allows: the gateways do not keep up, or have stopped."""
