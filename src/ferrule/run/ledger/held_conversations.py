"""HeldConversations: the conversations that this process owns, as it has last written them.

Every change of a call or of a response is part of a step of its conversation: if the conversation is as it was, then so
are they. What is written on the condition that nothing has changed (`step`) may therefore be computed from memory. If
somebody else has written meanwhile, nothing is written, everything is dropped here, and computed again from what is
read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from weakref import WeakValueDictionary

from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.ledger import CallRecord, ConversationRecord, ResponseRecord


@dataclass(frozen=True, slots=True)
class Known:
    """What an owner knows of its conversation: the calls and responses that have not ended, and their last events."""

    calls: Mapping[str, CallRecord] = field(default_factory=dict[str, CallRecord])
    responses: Mapping[str, ResponseRecord] = field(default_factory=dict[str, ResponseRecord])
    last_events: Mapping[str, int] = field(default_factory=dict[str, int])
    """The number of the last event of each response."""


NOTHING_KNOWN = Known()


class HeldConversations:
    """What this process need not read again.

    `one_at_a_time` keeps two of its transitions in one conversation from overtaking each other: the second would be
    computed for nothing.
    """

    MAX = 20_000

    def __init__(self) -> None:
        self._records: dict[str, ConversationRecord] = {}
        self._known: dict[str, Known] = {}
        self._conversations: dict[str, str] = {}
        self._kept: dict[str, tuple[int, str]] = {}
        self.alive_until: dict[str, float] = {}
        """Until when each owner in this process was last heard to be alive."""
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def one_at_a_time(self, conversation: str) -> asyncio.Lock:
        """Return the lock of a conversation. It exists for as long as somebody has it or waits for it."""
        lock = self._locks.get(conversation)
        if lock is None:
            lock = self._locks[conversation] = asyncio.Lock()
        return lock

    def get(self, conversation: str, epoch: int | None) -> ConversationRecord | None:
        record = self._records.get(conversation)
        if record is None or record.epoch != epoch:
            return None
        is_kept = record.lease_until == WHILE_ALIVE
        return replace(record, alive_until=self.alive_until.get(record.owner, 0.0)) if is_kept else record

    def conversation_of(self, response: str) -> str | None:
        """Return the conversation of a response that has not ended, if this process holds it."""
        return self._conversations.get(response)

    def known(self, conversation: str) -> Known:
        return self._known.get(conversation, NOTHING_KNOWN)

    def put(self, record: ConversationRecord, known: Known | None = None) -> None:
        """Hold a conversation, and what is known of it; without `known`, what was known in the same step."""
        earlier = self._records.get(record.id)
        if known is None and earlier is not None and (earlier.epoch, earlier.seq) == (record.epoch, record.seq):
            known = self._known.get(record.id)
        self.drop(record.id)
        self._kept.pop(record.id, None)
        if record.lease_until <= 0:
            return
        if record.lease_until == WHILE_ALIVE:
            self._kept[record.id] = (record.epoch, record.owner)
        if record.state_text != "null" or record.message_texts:
            # A transition needs neither.
            record = replace(record, state_text="null", message_texts=())
        self._records[record.id] = record
        if known is not None:
            self._known[record.id] = known
            self._conversations.update(dict.fromkeys(known.responses, record.id))
        if len(self._records) > self.MAX:
            self.drop(next(iter(self._records)))

    def drop(self, conversation: str) -> None:
        """Read the conversation again before it is next changed."""
        self._records.pop(conversation, None)
        for response in self._known.pop(conversation, NOTHING_KNOWN).responses:
            self._conversations.pop(response, None)

    def lose(self, conversation: str, epoch: int) -> None:
        """Forget a conversation that another process owns."""
        self.drop(conversation)
        if self.is_kept(conversation, epoch):
            del self._kept[conversation]

    # --- Conversations that are held for as long as this process lives (`heartbeat`) ---

    def is_kept(self, conversation: str, epoch: int) -> bool:
        return self._kept.get(conversation, (0, ""))[0] == epoch

    def keeps_any(self, owner: str) -> bool:
        return any(kept == owner for _, kept in list(self._kept.values()))
