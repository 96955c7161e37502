"""Lease: this process's hold on a conversation in a ledger, renewed in the background for as long as it is in use."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from ferrule.core.context import Principal
from ferrule.errors import FencedError, LedgerUnavailableError
from ferrule.run.journal import LoopState
from ferrule.run.ledger.ledger import CallRecord, ConversationRecord, Ledger
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger_journal import LedgerJournal, PreparedSave

# How often a lease is renewed before it would expire.
_RENEWALS = 3
_POLL_SECONDS, _SLOWEST_POLL_SECONDS = 0.05, 1.0


@dataclass(slots=True)
class Lease:
    """A conversation that this process owns. Use it as a context manager to keep renewing it.

    After `seconds` without a renewal, another process may take the conversation over.
    """

    ledger: Ledger
    record: ConversationRecord
    principal: Principal
    seconds: float
    clock: Callable[[], float]
    save_override: Callable[[StateUpdate], Awaitable[None]] | None = field(default=None, repr=False)
    """Saves the state instead of the ledger's `save`, in one transaction with whatever belongs to it."""
    _renewal: asyncio.Task[None] | None = field(default=None, repr=False)

    @staticmethod
    async def acquire(
        ledger: Ledger, conversation: str, principal: Principal, lease: float, clock: Callable[[], float] = time.time
    ) -> Lease:
        """Open a new conversation, or one that nobody owns now. Raises `FencedError` while another process owns it."""
        owner = uuid.uuid4().hex
        record = await ledger.open(conversation, principal, owner, lease, now=clock())
        return Lease(ledger, record, principal, lease, clock)

    @staticmethod
    async def wait(
        ledger: Ledger, conversation: str, principal: Principal, lease: float, clock: Callable[[], float] = time.time
    ) -> Lease:
        """Do the same as `acquire`, but wait while another process owns the conversation."""
        pause = _POLL_SECONDS
        while True:
            try:
                return await Lease.acquire(ledger, conversation, principal, lease, clock)
            except FencedError:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _SLOWEST_POLL_SECONDS)

    def journal(
        self,
        patience: float,
        prepare: Callable[[LoopState | None], PreparedSave] | None = None,
        calls: dict[str, CallRecord] | None = None,
        *,
        is_begun: bool = False,
    ) -> LedgerJournal:
        return LedgerJournal(
            self.ledger,
            self.record.id,
            self.principal,
            self.record.epoch,
            prepare,
            calls,
            is_begun=is_begun,
            save_override=self.save_override,
            patience=patience,
            clock=self.clock,
        )

    async def save(self, update: StateUpdate) -> None:
        if self.save_override is not None:
            await self.save_override(update)
            return
        await self.ledger.save(self.record.id, self.record.epoch, update, now=self.clock())

    async def __aenter__(self) -> Lease:
        """Renew the lease, unless it is new, and then again and again until the context ends."""
        if self.record.lease_until - self.clock() < self.seconds * (1 - 1 / _RENEWALS):
            await self._renew()
        self._renewal = asyncio.ensure_future(self._renew_forever())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.gather(self._renewal, return_exceptions=True)

    async def release(self) -> None:
        await self.ledger.release(self.record.id, self.record.epoch, now=self.clock())

    async def _renew(self) -> None:
        await self.ledger.renew(self.record.id, self.record.epoch, self.seconds, now=self.clock())

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self.seconds / _RENEWALS)
            try:
                await self._renew()
            except FencedError:
                # Another process owns it. The loop learns this from its next write, and starts nothing before that.
                return
            except LedgerUnavailableError:
                # The database may be back before the lease expires; if not, the next write fails as above.
                continue
