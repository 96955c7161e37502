"""Lease: this process's hold on a conversation in a ledger, for as long as it is in use.

A new conversation that answers a stored request is opened by its first changes, in the same step as the request.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from ferrule.core.context import Principal
from ferrule.errors import FencedError, LedgerUnavailableError
from ferrule.run.journal import LoopState
from ferrule.run.ledger.change import Change
from ferrule.run.ledger.conversations import new_record
from ferrule.run.ledger.ledger import CallRecord, ConversationRecord, Ledger, StoredRequest
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
    is_open: bool = True
    """Whether the ledger has the conversation. The first changes of a new one open it."""
    request: StoredRequest | None = field(default=None, repr=False)
    """What is stored when the conversation is opened."""
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, repr=False)
    """Held while the conversation is opened."""
    _is_entered: bool = field(default=False, repr=False)
    _keeping: asyncio.Task[None] | None = field(default=None, repr=False)

    @staticmethod
    async def acquire(
        ledger: Ledger, conversation: str, principal: Principal, lease: float, clock: Callable[[], float] = time.time
    ) -> Lease:
        """Open a new conversation, or one that nobody owns now. Raises `FencedError` while another process owns it."""
        record = await ledger.open(conversation, principal, _owner_name(ledger, lease), lease, now=clock())
        return Lease(ledger, record, principal, lease, clock)

    @staticmethod
    def prepare(
        ledger: Ledger,
        conversation: str,
        principal: Principal,
        lease: float,
        request: StoredRequest,
        clock: Callable[[], float] = time.time,
    ) -> Lease:
        """Return the lease of a new conversation, which its first changes will open, with the request it answers."""
        record = new_record(conversation, principal, _owner_name(ledger, lease), lease, clock())
        return Lease(ledger, record, principal, lease, clock, is_open=False, request=request)

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
            None if self.is_open else self.apply,
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

    async def apply(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Make changes in the conversation. The first ones open a new conversation."""
        if not self.is_open:
            # Nobody else may take it for one that is not open, while it is opened.
            async with self._opening:
                if not self.is_open:
                    return await self._open(changes)
        return await self.ledger.apply(self.record.id, self.record.epoch, changes)

    async def _open(self, changes: Sequence[Change]) -> tuple[Any, ...]:
        record = self.record
        self.record, results = await self.ledger.begin(
            record.id, self.principal, record.owner, self.seconds, changes, self.request, now=self.clock()
        )
        self.is_open = True
        # A turn that has ended has released it in the same step.
        if self._is_entered and self.record.lease_until > 0:
            await self._hold()
        return results

    async def __aenter__(self) -> Lease:
        """Hold the conversation until the context ends. Only a turn that is not short writes for that."""
        self._is_entered = True
        if self.is_open:
            await self._hold()
        return self

    async def _hold(self) -> None:
        left = self.record.lease_until - self.clock()
        if left < self.seconds * (1 - _SHORT):
            await self.ledger.keep(self.record.id, self.record.epoch, self.seconds, self.clock)
        else:
            self._keeping = asyncio.ensure_future(self._keep_after(left - self.seconds * (1 - _SHORT)))

    async def __aexit__(self, *_: object) -> None:
        self._is_entered = False
        if self._keeping is not None:
            self._keeping.cancel()
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self.ledger.let_go(self.record.id, self.record.epoch, self.seconds, self.clock)

    async def release(self) -> None:
        # What opens it may be on its way: a write is completed although nobody waits for it.
        async with self._opening:
            if not self.is_open:
                return
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
