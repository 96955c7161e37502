"""Lease: this process's hold on a conversation in a ledger, for as long as it is in use."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from ferrule.core.context import Principal
from ferrule.errors import FencedError, LedgerUnavailableError
from ferrule.run.journal import LoopState
from ferrule.run.ledger.ledger import CallRecord, ConversationRecord, Ledger
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger_journal import LedgerJournal, PreparedSave

# A turn that takes longer than this share of its lease is kept.
_SHORT = 1 / 3
_POLL_SECONDS, _SLOWEST_POLL_SECONDS = 0.05, 1.0


# The names under which this process holds conversations: one for each ledger and length of lease.
_owner_names: WeakKeyDictionary[Ledger, dict[float, str]] = WeakKeyDictionary()


def _owner_name(ledger: Ledger, lease: float) -> str:
    return _owner_names.setdefault(ledger, {}).setdefault(lease, uuid.uuid4().hex)


@dataclass(slots=True)
class Lease:
    """A conversation that this process owns. Use it as a context manager to hold it for longer than `seconds`.

    `seconds` after the last sign of life of this process, another one may take the conversation over.
    """

    ledger: Ledger
    record: ConversationRecord
    principal: Principal
    seconds: float
    clock: Callable[[], float]
    save_override: Callable[[StateUpdate], Awaitable[None]] | None = field(default=None, repr=False)
    """Saves the state instead of the ledger's `save`, in one transaction with whatever belongs to it."""
    _keeping: asyncio.Task[None] | None = field(default=None, repr=False)

    @staticmethod
    async def acquire(
        ledger: Ledger, conversation: str, principal: Principal, lease: float, clock: Callable[[], float] = time.time
    ) -> Lease:
        """Open a new conversation, or one that nobody owns now. Raises `FencedError` while another process owns it."""
        record = await ledger.open(conversation, principal, _owner_name(ledger, lease), lease, now=clock())
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
        """Hold the conversation until the context ends. Only a turn that is not short writes for that."""
        left = self.record.lease_until - self.clock()
        if left < self.seconds * (1 - _SHORT):
            await self.ledger.keep(self.record.id, self.record.epoch, self.seconds, self.clock)
        else:
            self._keeping = asyncio.ensure_future(self._keep_after(left - self.seconds * (1 - _SHORT)))
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self.ledger.let_go(self.record.id, self.record.epoch, self.seconds, self.clock)

    async def release(self) -> None:
        await self.ledger.release(self.record.id, self.record.epoch, now=self.clock())

    async def _keep_after(self, seconds: float) -> None:
        while True:
            await asyncio.sleep(seconds)
            try:
                await self.ledger.keep(self.record.id, self.record.epoch, self.seconds, self.clock)
            except LedgerUnavailableError:
                # The database may be back before the lease expires; if not, the next write fails.
                seconds = self.seconds / 6
                continue
            except FencedError:
                # Another process owns it. The loop learns this from its next write, and starts nothing before that.
                pass
            return
