"""Ledger: what is written down before anything happens, so that it happens at most once. Values and the interface.

A call is `started` in the database before its effect begins. Whoever finds it started and without an end knows that
it may have happened, and never begins it again. No database, no clock and no task here: times are given in, in Unix
seconds, and everything kept is JSON.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ferrule.core.context import Principal
from ferrule.core.json_text import loads
from ferrule.core.outcome import Outcome
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.search import ConversationLine, Search
from ferrule.run.reply_record import Replied
from ferrule.run.usage_figures import SelectionFigures, SelectionSearch


class CallState(StrEnum):
    """Where a call is. STARTED is committed before the effect; UNKNOWN means that it may or may not have happened."""

    PROPOSED = "proposed"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    DENIED = "denied"
    """By a person."""
    REFUSED = "refused"
    """By the loop: the call is not valid, not authorised, or over a limit."""


# Every step that a call can take. Nothing leads back to a state from which it could start again.
CALL_TRANSITIONS: Mapping[CallState, tuple[CallState, ...]] = {
    CallState.PROPOSED: (CallState.AWAITING_APPROVAL, CallState.STARTED, CallState.REFUSED),
    CallState.AWAITING_APPROVAL: (
        *(CallState.AWAITING_APPROVAL, CallState.APPROVED),
        *(CallState.DENIED, CallState.REFUSED),
    ),
    CallState.APPROVED: (CallState.AWAITING_APPROVAL, CallState.STARTED, CallState.REFUSED),
    CallState.STARTED: (CallState.DONE, CallState.FAILED, CallState.UNKNOWN),
    **dict.fromkeys((CallState.DONE, CallState.FAILED, CallState.UNKNOWN, CallState.DENIED, CallState.REFUSED), ()),
}


class ApprovalState(StrEnum):
    """REPLACED: it ran out, and leave was asked for anew."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    REDEEMED = "redeemed"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation and who works on it. `epoch` grows with every change of owner; an older one can write nothing."""

    id: str
    tenant: str
    principal: str
    owner: str
    epoch: int
    lease_until: float
    version: int
    state_text: str

    @property
    def state(self) -> Any:
        """The messages and the machine, as they were saved last; None before the first time."""
        return loads(self.state_text)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call as the ledger holds it. `arguments` are the canonical bytes; an approval may have changed them."""

    conversation: str
    id: str
    tool: str
    tool_fingerprint: str
    arguments: bytes
    arguments_sha256: str
    binding: str
    side_effects: bool
    needs_leave: bool
    state: CallState
    epoch: int
    """Of the owner who started it, 0 before."""
    outcome: Outcome | None


@dataclass(frozen=True, slots=True)
class Approval:
    """Leave for one call, to be used once. `binding` decides what it is for; the other fields say so to people."""

    id: str
    conversation: str
    call_id: str
    tenant: str
    principal: str
    tool: str
    tool_fingerprint: str
    arguments: bytes
    arguments_sha256: str
    binding: str
    state: ApprovalState
    requested_at: float
    expires_at: float
    decided_by: str
    decided_at: float | None
    why: str


class ResponseStatus(StrEnum):
    """Where an answer that is kept stands. The first two are under way; nothing leads out of the others."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (ResponseStatus.QUEUED, ResponseStatus.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """One answer within a conversation. `reach` is how many of its messages there were when the answer ended."""

    id: str
    conversation: str
    tenant: str
    principal: str
    status: ResponseStatus
    model: str
    created: float
    reach: int
    is_cancelled: bool
    """Somebody asked that it end."""
    request_text: str

    @property
    def request(self) -> Any:
        """Whatever another process needs to go on with it."""
        return loads(self.request_text)

    @property
    def is_ended(self) -> bool:
        return self.status not in UNFINISHED


@dataclass(frozen=True, slots=True)
class Verdict:
    """A person's word on an approval."""

    approval: str
    is_allowed: bool
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One transition. `hash` is over the row before's hash and everything here; `detail` is canonical JSON."""

    conversation: str
    seq: int
    at: float
    kind: str
    call_id: str
    approval: str
    by: str
    epoch: int
    detail: str
    previous: str
    hash: str


@dataclass(frozen=True, slots=True)
class Breach:
    """The first row of a chain that is not what was written. `what` is "changed", "removed" or "inserted"."""

    conversation: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"row {self.seq} of {self.conversation!r} was {self.what}"


class Ledger(ABC):
    """Every method is one transaction, and every transition writes its audit row in the same one.

    What a method does not allow it refuses with a `LedgerError`, and then nothing has changed.
    """

    @abstractmethod
    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        """A new conversation, or one of the same principal that nobody holds. `owner` is unique to the process."""

    @abstractmethod
    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        """As it is. With a principal, somebody else's is as if it were not there."""

    @abstractmethod
    async def renew(self, conversation: str, epoch: int, lease: float, *, now: float) -> None:
        """Hold it until `now + lease`."""

    @abstractmethod
    async def release(self, conversation: str, epoch: int, *, now: float) -> None:
        """Hold it no longer: another owner can have it at once."""

    @abstractmethod
    async def save(self, conversation: str, epoch: int, state: Any, *, now: float) -> int:
        """Keep the state, which is JSON; the new version."""

    @abstractmethod
    async def take_over(self, conversation: str, owner: str, lease: float, *, now: float) -> ConversationRecord:
        """Hold a conversation whose lease has run out. The calls that its owner left started become unknown."""

    @abstractmethod
    async def propose(
        self, claim: Claim, epoch: int, *, side_effects: bool, needs_leave: bool, now: float
    ) -> CallRecord:
        """Write a call down. The same one a second time changes nothing; another under its id is refused."""

    @abstractmethod
    async def start(self, claim: Claim, epoch: int, *, approval: str = "", now: float) -> bool:
        """True for one caller ever, who may now begin the effect, with the claim's own arguments.

        A call that needs leave starts by using up the approval, in the same transaction.
        """

    @abstractmethod
    async def finish(self, conversation: str, call_id: str, epoch: int, outcome: Outcome, *, now: float) -> CallRecord:
        """What became of a started call. The outcome's content is JSON."""

    @abstractmethod
    async def refuse(self, conversation: str, call_id: str, epoch: int, why: str, *, now: float) -> CallRecord:
        """A call that was not started never will be."""

    @abstractmethod
    async def mark_unknown(self, conversation: str, epoch: int, *, now: float) -> tuple[str, ...]:
        """The calls that an earlier owner left started are unknown from now on. `take_over` does this itself."""

    @abstractmethod
    async def call(self, conversation: str, call_id: str) -> CallRecord | None: ...

    @abstractmethod
    async def calls(self, conversation: str) -> tuple[CallRecord, ...]:
        """All of a conversation, in the order of their ids."""

    @abstractmethod
    async def request_approval(
        self, conversation: str, call_id: str, epoch: int, *, expires: float, now: float
    ) -> Approval:
        """Ask for leave until `expires`. Again only when the earlier request has run out."""

    @abstractmethod
    async def approve(self, approval: str, by: str, arguments: bytes | None = None, *, now: float) -> Approval:
        """Give leave, perhaps for other arguments: canonical bytes, which the caller has checked."""

    @abstractmethod
    async def deny(self, approval: str, by: str, why: str = "", *, now: float) -> Approval: ...

    @abstractmethod
    async def approval(self, approval: str) -> Approval | None: ...

    @abstractmethod
    async def approval_for(self, conversation: str, call_id: str) -> Approval | None:
        """The one that was asked for last for a call."""

    @abstractmethod
    async def approvals(self, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        """Of every conversation, oldest first."""

    @abstractmethod
    async def add_response(
        self,
        response: ResponseRecord,
        epoch: int,
        events: Sequence[str],
        state: Any = None,
        verdicts: Sequence[Verdict] = (),
        *,
        now: float,
    ) -> None:
        """Keep an answer that begins, with the first events told of it and the conversation as it begins from.

        Verdicts on calls that wait in it are given in the same moment: where one cannot be, nothing begins.
        """

    @abstractmethod
    async def tell(
        self,
        response: str,
        epoch: int,
        events: Sequence[str],
        *,
        first: int,
        state: Any = None,
        status: ResponseStatus | None = None,
        reach: int = 0,
        now: float,
    ) -> ResponseRecord:
        """Events, each JSON, from number `first` on, and in the same moment the conversation's state and the status.

        `first` must be the number after the last one told. An answer that has ended can be told nothing more, and its
        conversation is held no longer.
        """

    @abstractmethod
    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        """As it is. With a principal, somebody else's is as if it were not there."""

    @abstractmethod
    async def response_events(self, response: str, after: int = -1, limit: int = 1000) -> tuple[str, ...]:
        """The events with a number higher than `after`, in order."""

    @abstractmethod
    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        """Answers under way that nobody works on: their conversation's lease has run out. Oldest first."""

    @abstractmethod
    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        """Ask that it end; its owner reads so with whatever he tells next. None where there is none of his."""

    @abstractmethod
    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        """Forget an answer that has ended, its events, and what was said in a conversation that has no other.

        The audit stays, and so do calls and approvals: they say what was done.
        """

    @abstractmethod
    async def approvals_of(self, tenant: str, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        """Of a tenant's conversations, oldest first."""

    @abstractmethod
    async def approvals_in(self, conversation: str) -> tuple[Approval, ...]:
        """Of one conversation, oldest first."""

    @abstractmethod
    async def approved_before(self, tenant: str, moments: Sequence[tuple[str, float]]) -> tuple[Approval | None, ...]:
        """For each tool and moment the last approval of the tenant that a person gave for it before; None without."""

    @abstractmethod
    async def conversations_of(self, tenant: str, search: Search) -> tuple[ConversationLine, ...]:
        """A tenant's conversations, newest first."""

    @abstractmethod
    async def note_reply(self, replied: Replied, epoch: int, *, now: float) -> None:
        """What a reply took and chose. What was chosen before in the same place, and lost, is counted no longer."""

    @abstractmethod
    async def selections(self, search: SelectionSearch) -> SelectionFigures:
        """How often models were offered tools, picked them, and what came of it."""

    @abstractmethod
    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]: ...

    @abstractmethod
    async def verify(self, conversation: str | None = None) -> Breach | None:
        """The first row that was changed, removed or inserted, of one conversation or of all; None where none was.

        Whoever can write the whole database can write a whole chain anew: keep the last hash elsewhere too.
        """

    @abstractmethod
    async def close(self) -> None: ...
