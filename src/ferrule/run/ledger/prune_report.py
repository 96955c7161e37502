"""PruneReport: what was removed from a ledger, or would be, and what was kept although it is old. Values only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(slots=True)
class PruneReport:
    """The result of `Ledger.prune` or `Ledger.delete_principal`."""

    conversations: int = 0
    audits: int = 0
    """Audit logs, with the stubs of their conversations."""
    traces: int = 0
    kept: Counter[str] = field(default_factory=Counter[str])
    """Conversations by the reason: `held`, `waiting`, `unknown` or `damaged`."""
    held_ids: list[str] = field(default_factory=list[str])
    """One person's conversations that a process owns now."""
    dropped: list[str] = field(default_factory=list[str])
    """Tables that were dropped, each with a week of rows."""
    is_swept: bool = True
    """Whether nothing remains of what was removed. A table that is busy is dropped the next time."""

    def add(self, other: PruneReport) -> None:
        """Add what happened in another database."""
        self.conversations += other.conversations
        self.audits += other.audits
        self.traces += other.traces
        self.kept += other.kept
        self.held_ids += other.held_ids
        self.dropped += other.dropped
        self.is_swept = self.is_swept and other.is_swept


AfterBatch: TypeAlias = Callable[[PruneReport], Awaitable[None]]


async def no_pause(report: PruneReport) -> None:
    """Continue at once."""
