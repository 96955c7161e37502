"""ApprovalFeed: the changes of a tenant's pending approvals as a stream, so that an approver needs not poll.

The ledger is where approvals change, by any process, so it is read again and again: once for each tenant that somebody
follows, however many follow it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

from ferrule.errors import FerruleError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ApprovalQuery
from ferrule.server.gateway import Gateway
from ferrule.server.tools.approval_context import EXPIRED, approvals_with_context, state_of

PENDING, CLOSED, SYNCED = "approval.pending", "approval.closed", "approval.synced"
EVENTS = (PENDING, CLOSED, SYNCED)
_POLL_SECONDS = 0.5
MAX_FOLLOWED = 1_000
"""How many pending approvals of a tenant are followed, the oldest first. Others follow when these are closed."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """One event: a new or changed pending approval, one that is no longer pending, or that all were sent."""

    kind: str
    data: dict[str, Any]


@dataclass(slots=True)
class _TenantPoll:
    """The pending approvals of one tenant, as last read."""

    followers: int = 0
    approvals: dict[str, Approval] | None = None
    has_changed: asyncio.Event = field(default_factory=asyncio.Event)
    """Replaced after each change, so that every follower sees it."""
    task: asyncio.Task[None] | None = None

    def update(self, approvals: dict[str, Approval]) -> None:
        if approvals != self.approvals:
            self.approvals = approvals
            self.has_changed.set()
            self.has_changed = asyncio.Event()


class ApprovalFeed:
    """One for each gateway."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._polls: dict[str, _TenantPoll] = {}
        gateway.shutdown_callbacks.append(self.close)

    async def close(self) -> None:
        tasks = [poll.task for poll in self._polls.values() if poll.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def follow(self, tenant: str) -> AsyncGenerator[list[FeedEvent]]:
        """Yield the pending approvals, then every change. Ends when the gateway begins to drain."""
        poll = self._polls.setdefault(tenant, _TenantPoll())
        poll.followers += 1
        task = poll.task = poll.task or asyncio.ensure_future(self._poll(tenant, poll))
        sent: dict[str, Approval] = {}
        is_first = True
        try:
            while not self._gateway.telemetry.drain.has_begun:
                has_changed, current = poll.has_changed, poll.approvals
                if current is not None and (is_first or current != sent):
                    events = await self._changes(sent, current)
                    sent = current
                    yield [*events, FeedEvent(SYNCED, {"object": SYNCED, "pending": len(sent)})]
                    is_first = False
                    continue
                try:
                    async with asyncio.timeout(_POLL_SECONDS):
                        await has_changed.wait()
                except TimeoutError:
                    continue
        finally:
            poll.followers -= 1
            if not poll.followers:
                task.cancel()
                self._polls.pop(tenant, None)

    async def _changes(self, before: dict[str, Approval], now: dict[str, Approval]) -> list[FeedEvent]:
        changed = [one for id, one in now.items() if before.get(id) != one]
        views = await approvals_with_context(self._gateway, changed, time.time())
        closed = [await self._closed_view(id) for id in before if id not in now]
        return [
            # One that is still pending was only replaced in the list by an older one.
            *[FeedEvent(CLOSED, view) for view in closed if view["state"] != ApprovalState.PENDING.value],
            *[FeedEvent(PENDING, view) for view in views],
        ]

    async def _closed_view(self, id: str) -> dict[str, Any]:
        approval = await self._gateway.ledger.approval(id)
        state = EXPIRED if approval is None else state_of(approval, time.time())
        return {"object": CLOSED, "id": id, "state": state}

    async def _poll(self, tenant: str, poll: _TenantPoll) -> None:
        while True:
            try:
                query = ApprovalQuery(status=ApprovalState.PENDING.value, limit=MAX_FOLLOWED, now=time.time())
                pending = await self._gateway.ledger.search_approvals(tenant, query)
                poll.update({one.id: one for one in pending})
            except FerruleError as failure:
                # The ledger may be back in a moment; followers keep what they have.
                self._gateway.telemetry.record_error(failure)
            await asyncio.sleep(_POLL_SECONDS)
