"""Holding: a conversation in a ledger, held by this process for as long as it goes on renewing its lease."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.context import Principal
from ferrule.errors import FencedError, LedgerUnavailableError
from ferrule.run.ledger.ledger import ConversationRecord, Ledger
from ferrule.run.ledger_journal import LedgerJournal

_RENEWALS = 3


@dataclass(slots=True)
class Holding:
    """`lease` is after how many seconds without a sign of life another process may take the conversation over."""

    ledger: Ledger
    record: ConversationRecord
    principal: Principal
    lease: float
    clock: Callable[[], float]
    keeper: Callable[[dict[str, Any]], Awaitable[None]] | None = field(default=None, repr=False)
    """Who writes the state down instead, in one transaction with what else belongs to that moment."""
    _renewing: asyncio.Task[None] | None = field(default=None, repr=False)

    @staticmethod
    async def take(
        ledger: Ledger, conversation: str, principal: Principal, lease: float, clock: Callable[[], float] = time.time
    ) -> Holding:
        """A new conversation, or one whose owner is gone. `FencedError` while somebody else holds it."""
        owner = uuid.uuid4().hex
        record = await ledger.open(conversation, principal, owner, lease, now=clock())
        return Holding(ledger, record, principal, lease, clock)

    def journal(self, keeps: Callable[[dict[str, Any]], dict[str, Any]], patience: float) -> LedgerJournal:
        return LedgerJournal(
            self.ledger,
            self.record.id,
            self.principal,
            self.record.epoch,
            keeps,
            patience=patience,
            clock=self.clock,
            saves=self.save,
        )

    async def save(self, state: dict[str, Any]) -> None:
        if self.keeper is not None:
            await self.keeper(state)
            return
        await self.ledger.save(self.record.id, self.record.epoch, state, now=self.clock())

    async def __aenter__(self) -> Holding:
        """While this lasts the lease is renewed."""
        await self._renew()
        self._renewing = asyncio.ensure_future(self._go_on_renewing())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)

    async def release(self) -> None:
        await self.ledger.release(self.record.id, self.record.epoch, now=self.clock())

    async def _renew(self) -> None:
        await self.ledger.renew(self.record.id, self.record.epoch, self.lease, now=self.clock())

    async def _go_on_renewing(self) -> None:
        while True:
            await asyncio.sleep(self.lease / _RENEWALS)
            try:
                await self._renew()
            except FencedError:
                # Somebody else has it. The loop learns so from its next write, and starts nothing before that.
                return
            except LedgerUnavailableError:
                # It may be back before the lease has run out; if not, the same holds.
                continue
