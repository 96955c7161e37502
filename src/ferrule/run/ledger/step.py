"""Step: one transition of a conversation, ready to be written. Values only.

The problem
    A transition touches several tables, and all of it must happen or nothing. The usual way is a transaction: lock the
    conversation, read, write, commit. It takes a round trip for each statement, and a process that is stopped between
    two of them, like a laptop that sleeps, keeps the lock for as long as it is stopped. Nobody can take over from it.

The shape
    A transition reads first, without any lock, and is computed in the process. What it wants to write is one value, the
    step: the conversation as it was read (its epoch and the number of its last audit row), the conversation as it
    becomes, and the rows that belong to it. The database writes it in *one* statement, on the condition that epoch and
    number are still the same. Every step adds audit rows, so every step changes that number: if it is the same, then
    nothing in the conversation has changed since it was read, and everything that was computed still holds.

    If it is not the same, nothing was written, and the transition is computed again from what is there now: it is
    refused (another process owns the conversation), or somebody has decided on an approval in the meantime.

    That one comparison is what fences an owner that was replaced, what lets a call start once, and what uses an
    approval up once. No lock outlives a statement, and a statement does not wait for its client.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ferrule.run.ledger.ledger import ConversationRecord
from ferrule.run.ledger.writes import Kind

Values = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Version:
    """A conversation as a transition has read it."""

    epoch: int
    seq: int
    lease_until: float | None = None
    """Compared where the owner changes, or somebody else writes: a lease is renewed, or kept, without an audit row."""


@dataclass(frozen=True, slots=True)
class Step:
    """`before` is None for a new conversation. `state_text` is None if the state does not change."""

    before: Version | None
    record: ConversationRecord
    state_text: str | None
    rows: Mapping[Kind, tuple[Values, ...]]
