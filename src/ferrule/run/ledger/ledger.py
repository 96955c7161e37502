"""Ledger: the record of tool calls that makes each effect happen at most once. Values and the interface only.

The problem
    A tool that sends a mail must not send it twice because a process died, a client retried or a person clicked twice.
    Exactly once is impossible for an effect outside the database: the power may fail between the mail and the note that
    it was sent. What is possible is *at most once*, and to report an outcome as unknown instead of guessing it.

The shape
    - *Intent before effect.* A call is committed as STARTED before its effect begins, and nothing leads back from there
      (`CALL_TRANSITIONS`). A process that finds STARTED without an outcome knows that the effect may have happened. It
      marks the call UNKNOWN and never starts it again. FAILED is different: the tool reported an error, or the call was
      certainly not delivered. A call without side effects may be started again, under a new id.
    - *One start.* `start` returns True to one caller ever: it is written on the condition that nothing in the
      conversation has changed since it was read (`step`). A call is found by its place in the conversation and not by
      the model's id, because models repeat ids.
    - *One owner.* A process leases a conversation, and keeps it by signs of life (`heartbeat`). After the lease another
      process takes over in a new epoch. Every write names its epoch, so an owner that wakes up late is fenced off and
      writes nothing more.
    - *One use of an approval.* An approval is bound to a hash over the principal, the conversation, the call, the
      tool's definition and the canonical bytes of the arguments (`claim.Claim`). It is redeemed in the same step
      that writes STARTED: if either fails, neither happens.
    - *An audit log that shows tampering.* Every transition appends a row to its conversation's hash chain, in the same
      step (`audit_chain`).
    - *Refused means unchanged.* A method that raises a `LedgerError` has changed nothing.

    - *No lock outlives a process that is stopped.* A step is one statement (`step`, `step_sql`).
    - *What a write costs does not depend on how long the conversation is.* Messages are only appended (`saved_state`).

    The logic is generators that yield statements and steps (`transaction`, `transition`), so it exists once for SQLite
    and Postgres. There is no clock: times are passed in, in Unix seconds. Everything stored is JSON.

What remains
    A crash between STARTED and the outcome leaves UNKNOWN, whether the effect happened or not. A tool can reduce this
    by using `CallContext.call_id` as an idempotency key. See docs/explanation/effects.md.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Outcome
from ferrule.core.tool_use import ToolUse
from ferrule.run.ledger.approval_terms import ApprovalTerms, Vote
from ferrule.run.ledger.change import Change
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.continuation import Continuation, WebhookDelivery
from ferrule.run.ledger.lease_tables import WHILE_ALIVE
from ferrule.run.ledger.pool_load import PoolLoad
from ferrule.run.ledger.prune_report import AfterBatch, PruneReport, no_pause
from ferrule.run.ledger.reseal_report import ResealReport
from ferrule.run.ledger.retention_tables import ENDLESS_LEASE
from ferrule.run.ledger.saved_state import StateUpdate, with_messages
from ferrule.run.ledger.search import ApprovalQuery, ConversationQuery, ConversationSummary
from ferrule.run.ledger.trace import Trace, TracedRequest, TraceQuery, TraceSummary
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import UsageQuery, UsageReport

if TYPE_CHECKING:
    from ferrule.run.ledger.keys import KeyRecord


class CallState(StrEnum):
    """Where a call is. STARTED is committed before the effect; UNKNOWN means that it may or may not have run."""

    PROPOSED = "proposed"
    AWAITING_APPROVAL = "awaiting_approval"
    APPROVED = "approved"
    STARTED = "started"
    DONE = "done"
    FAILED = "failed"
    UNKNOWN = "unknown"
    DENIED = "denied"  # By a person.
    REFUSED = "refused"  # By the loop: the call is not valid, not authorised, or over a limit.


# Every transition of a call. Nothing leads back to a state from which it could start again.
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
    """The state of an approval. REPLACED: it expired and was requested again."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    REDEEMED = "redeemed"
    REPLACED = "replaced"


MAX_PAGE = 1_000
"""How many rows a list returns where no limit is given."""
GENESIS = "0" * 64
"""The hash before the first audit row of a conversation."""


@dataclass(frozen=True, slots=True)
class ConversationRecord:
    """A conversation and its owner. `epoch` grows with every change of owner; an earlier owner can write nothing."""

    id: str
    tenant: str
    principal: str
    owner: str
    epoch: int
    lease_until: float
    version: int
    state_text: str
    """The state without its messages: see `saved_state`."""
    seq: int = 0
    """The number of the last audit row. It grows with every step."""
    head: str = GENESIS
    """The hash of the last audit row."""
    messages: int = 0
    opened_at: float = 0.0
    changed_at: float = 0.0
    title: str = ""
    """The beginning of the first user message, or else the tool that was called first; empty if neither is known."""
    born: int = 0
    """The day on which it was opened, since 1970. Its rows are kept together by it, and forgotten together."""
    alive_until: float = 0.0
    """Until when its owner was last heard to be alive. It matters if the conversation is held for that long."""
    message_texts: tuple[str, ...] = field(default=(), repr=False)

    @property
    def held_until(self) -> float:
        """Until when no other owner may take it over."""
        return self.alive_until if self.lease_until == WHILE_ALIVE else self.lease_until

    @property
    def is_removed(self) -> bool:
        """Whether only a stub of it is left, which holds the head of its audit log."""
        return self.lease_until >= ENDLESS_LEASE

    @property
    def state(self) -> Any:
        """The messages and the machine as they were last saved; None before the first save."""
        return with_messages(loads(self.state_text), [loads(text) for text in self.message_texts])

    def with_state(self, state: Any) -> ConversationRecord:
        """Return the conversation as it is after this state was saved."""
        update = StateUpdate.of(state)
        texts = tuple(map(dumps, update.messages))
        return replace(self, state_text=dumps(update.rest), messages=update.count, message_texts=texts)


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call in the ledger. `arguments` are the canonical bytes; an approval may have changed them."""

    conversation: str
    id: str
    tool: str
    tool_fingerprint: str
    arguments: bytes
    arguments_sha256: str
    binding: str
    side_effects: bool
    needs_approval: bool
    state: CallState
    epoch: int  # Of the owner that started it, or that has resumed its task; 0 before.
    outcome: Outcome | None
    task: str = ""
    """How the task is found that a server works at for this call, while it is started."""


@dataclass(frozen=True, slots=True)
class Approval:
    """An approval for one call, to be used once. `binding` decides what it is for; the other fields are for people."""

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
    needed: int = 1
    """How many different people must approve it."""
    four_eyes: bool = False
    votes: int = 0
    """How many people have approved these arguments, if it needs several."""


class ResponseStatus(StrEnum):
    """The status of a stored response. The first two are unfinished; the others are final."""

    QUEUED = "queued"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    INCOMPLETE = "incomplete"
    FAILED = "failed"
    CANCELLED = "cancelled"


UNFINISHED = (ResponseStatus.QUEUED, ResponseStatus.IN_PROGRESS)


@dataclass(frozen=True, slots=True)
class ResponseRecord:
    """A stored response in a conversation. `reach` is how many messages the conversation had when it ended."""

    id: str
    conversation: str
    tenant: str
    principal: str
    status: ResponseStatus
    model: str
    created: float
    reach: int
    is_cancelled: bool  # Whether a client asked to cancel it.
    request_text: str

    @property
    def request(self) -> Any:
        """What another process needs to resume it."""
        return loads(self.request_text)

    @property
    def is_ended(self) -> bool:
        return self.status not in UNFINISHED


@dataclass(frozen=True, slots=True)
class StoredRequest:
    """A request that may begin an effect. `answer` is the conversation or the stored response that answers it."""

    answer: str
    tenant: str
    principal: str
    api: str
    body_sha256: str
    idempotency_key: str
    begun_at: float
    request_text: str

    @property
    def request(self) -> Any:
        """What another process needs to resume it: the tools, the choice and the limits of the request."""
        return loads(self.request_text)


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """A person's decision on an approval."""

    approval: str
    is_allowed: bool
    by: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One transition. `hash` covers the previous row's hash and all fields here; `detail` is canonical JSON."""

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
    """The first row of a chain that is not as it was written. `what` is "changed", "removed" or "inserted"."""

    conversation: str
    seq: int
    what: str

    def __str__(self) -> str:
        return f"row {self.seq} of {self.conversation!r} was {self.what}"


class Ledger(ABC):
    """Every method is one transaction, which includes the audit rows of its transitions."""

    @property
    def shards(self) -> tuple[Ledger, ...]:
        """The ledgers of which it consists, one for each database: see `sharded_ledger`."""
        return (self,)

    @property
    def pool_load(self) -> PoolLoad | None:
        """How busy the connections to its database are; None if it has no pool."""
        return None

    async def of_tenant(self, tenant: str) -> Ledger:
        """Return the ledger of the database that has a tenant. It need not ask others for an id that is new."""
        return self

    @abstractmethod
    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        """Open a new conversation, or one of the same principal without a lease. `owner` is unique to the process."""

    @abstractmethod
    async def begin(
        self,
        conversation: str,
        principal: Principal,
        owner: str,
        lease: float,
        changes: Sequence[Change],
        request: StoredRequest | None = None,
        *,
        now: float,
    ) -> tuple[ConversationRecord, tuple[Any, ...]]:
        """Open a new conversation and make its first changes, in one step. Returns it, and the result of each change.

        `request` is stored with it: one without an `Idempotency-Key`, which is no retry. If the same owner calls this
        again because the answer was lost, the changes are made in the conversation that it has opened by then.
        """

    @abstractmethod
    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        """Return a conversation. With a principal, those of others are not found."""

    @abstractmethod
    async def renew(self, conversation: str, epoch: int, lease: float, *, now: float) -> None:
        """Extend the lease until `now + lease`."""

    @abstractmethod
    async def keep(self, conversation: str, epoch: int, lease: float, clock: Callable[[], float]) -> None:
        """Hold a conversation for as long as this process lives, and `lease` seconds after its last sign of life.

        One row for each owner is renewed then, and none for each conversation (`heartbeat`).
        """

    @abstractmethod
    async def let_go(self, conversation: str, epoch: int, lease: float, clock: Callable[[], float]) -> None:
        """End `keep`: the lease expires `lease` seconds later. Without effect if the conversation is not kept.

        It returns at once, and is done in the background: after a while, if the database does not answer now.
        """

    @abstractmethod
    async def release(self, conversation: str, epoch: int, *, now: float) -> None:
        """End the lease, so that another owner can open the conversation at once."""

    @abstractmethod
    async def apply(self, conversation: str, epoch: int, changes: Sequence[Change]) -> tuple[Any, ...]:
        """Make several changes in one step: all of them, or none. Returns the result of each.

        The other methods that need an epoch make one change each.
        """

    @abstractmethod
    async def save(self, conversation: str, epoch: int, state: Any | StateUpdate, *, now: float) -> int:
        """Save the state, which is JSON, and return the new version. With an update only the new messages are written.

        A state of which `messages` is a list is stored as rows, one for each message.
        """

    @abstractmethod
    async def take_over(self, conversation: str, owner: str, lease: float, *, now: float) -> ConversationRecord:
        """Take over a conversation whose lease has expired. Calls that were started and not finished become unknown."""

    @abstractmethod
    async def propose(
        self, claim: Claim, epoch: int, *, side_effects: bool, needs_approval: bool, now: float
    ) -> CallRecord:
        """Record a call. The same one again changes nothing; a different one with its id is refused."""

    @abstractmethod
    async def start(self, claim: Claim, epoch: int, *, approval: str = "", now: float) -> bool:
        """Return True to one caller ever, which may now begin the effect, with the arguments of the claim.

        If the call needs approval, the approval is redeemed in the same transaction.
        """

    @abstractmethod
    async def finish(self, conversation: str, call_id: str, epoch: int, outcome: Outcome, *, now: float) -> CallRecord:
        """Record the outcome of a started call. Its content is JSON."""

    @abstractmethod
    async def refuse(self, conversation: str, call_id: str, epoch: int, why: str, *, now: float) -> CallRecord:
        """Record that a call that was not started never will be."""

    @abstractmethod
    async def mark_unknown(self, conversation: str, epoch: int, *, now: float) -> tuple[str, ...]:
        """Mark the calls that an earlier owner started and did not finish as unknown. `take_over` does this too."""

    @abstractmethod
    async def call(self, conversation: str, call_id: str) -> CallRecord | None: ...

    @abstractmethod
    async def calls(self, conversation: str) -> tuple[CallRecord, ...]:
        """Return all calls of a conversation, in the order of their ids."""

    @abstractmethod
    async def request_approval(
        self,
        conversation: str,
        call_id: str,
        epoch: int,
        *,
        expires: float,
        terms: ApprovalTerms | None = None,
        now: float,
    ) -> Approval:
        """Request approval until `expires`. A second request is possible only after the first one has expired.

        By default any one person may approve it; `terms` demand more.
        """

    @abstractmethod
    async def approve(
        self,
        approval: str,
        by: str,
        arguments: bytes | None = None,
        *,
        seen: str = "",
        terms: ApprovalTerms | None = None,
        now: float,
    ) -> Approval:
        """Approve a call, perhaps with other arguments: canonical bytes that the caller has validated.

        `seen` is the SHA-256 of the arguments that the person saw; if they differ by now, nothing is approved. `terms`
        are those of the other arguments; they apply beside the ones of the request. If several people must approve,
        this is one vote, and the approval stays pending until there are enough votes for the same arguments.
        """

    @abstractmethod
    async def votes(self, approval: str) -> tuple[Vote, ...]:
        """Return who has approved the arguments as they are now, oldest first, if several people must."""

    @abstractmethod
    async def deny(self, approval: str, by: str, why: str = "", *, now: float) -> Approval: ...

    @abstractmethod
    async def approval(self, approval: str) -> Approval | None: ...

    @abstractmethod
    async def approval_for(self, conversation: str, call_id: str) -> Approval | None:
        """Return the last approval that was requested for a call."""

    @abstractmethod
    async def approvals(
        self, state: ApprovalState | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[Approval, ...]:
        """Return the approvals of all conversations, oldest first: at most `limit`, after the approval `after`."""

    @abstractmethod
    async def count_approvals(self, state: ApprovalState) -> int:
        """Return how many approvals of all conversations are in a state."""

    @abstractmethod
    async def add_response(
        self,
        response: ResponseRecord,
        epoch: int,
        events: Sequence[str],
        state: Any = None,
        decisions: Sequence[ApprovalDecision] = (),
        *,
        now: float,
    ) -> None:
        """Store a new response, with its first events and the state of the conversation.

        Decisions on pending approvals are recorded in the same transaction: if one is refused, nothing is stored.
        """

    @abstractmethod
    async def append_events(
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
        """Append events, each JSON, and save the conversation's state and the status in the same transaction.

        `first` must be the number after the last event. A final status ends the response and releases the conversation.
        """

    @abstractmethod
    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        """Return a stored response. With a principal, those of others are not found."""

    @abstractmethod
    async def response_events(self, response: str, after: int = -1, limit: int = 1000) -> tuple[str, ...]:
        """Return the events with a number higher than `after`, in order."""

    @abstractmethod
    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        """Return unfinished responses whose conversation's lease has expired, oldest first."""

    @abstractmethod
    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        """Request cancellation; the owner sees it at its next append. None if the principal has no such response."""

    @abstractmethod
    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        """Delete a finished response, and the messages if it is the only one. Audit rows, calls and approvals stay."""

    @abstractmethod
    async def claim_request(self, request: StoredRequest, *, is_retry: bool, now: float) -> StoredRequest:
        """Store a request, or return the earlier one that it repeats: see `stored_requests`.

        Raises `IdempotencyError` if its key was used with another body.
        """

    @abstractmethod
    async def move_request(self, answer: str, new_answer: str) -> bool:
        """Give a stored request another answer, because the first one failed before any effect. False if it is gone."""

    @abstractmethod
    async def stored_request(self, answer: str) -> StoredRequest | None:
        """Return the request that a conversation or a stored response answers."""

    @abstractmethod
    async def due_continuations(self, limit: int, *, now: float) -> tuple[Continuation, ...]:
        """Return what still follows decisions, in conversations that nobody owns now: see `continuations`."""

    @abstractmethod
    async def continuation(self, conversation: str) -> Continuation | None:
        """Return what follows the last decision in a conversation; None if there was no decision."""

    @abstractmethod
    async def end_continuation(
        self,
        continuation: Continuation,
        status: str,
        *,
        code: str = "",
        message: str = "",
        webhook: str = "",
        now: float,
    ) -> bool:
        """End a continuation as done or failed, and store a webhook with this body. False if it is no longer due."""

    @abstractmethod
    async def postpone_continuation(
        self, continuation: Continuation, until: float, *, code: str = "", message: str = ""
    ) -> bool:
        """Try a continuation again later."""

    @abstractmethod
    async def request_of(self, conversation: str) -> Any:
        """Return what is needed to resume a conversation; None if no request of a gateway began it."""

    @abstractmethod
    async def claim_deliveries(self, limit: int, *, until: float, now: float) -> tuple[WebhookDelivery, ...]:
        """Take webhooks that are due. No other process gets them before `until`."""

    @abstractmethod
    async def end_delivery(self, id: str, status: str) -> None:
        """End a webhook as delivered or failed."""

    @abstractmethod
    async def postpone_delivery(self, id: str, until: float) -> None:
        """Try a webhook again later."""

    @abstractmethod
    async def mark_uncollected(self, conversation: str, call_id: str) -> None:
        """Note that a call without an id runs while its caller is gone, and that its outcome is for the next one."""

    @abstractmethod
    async def is_uncollected(self, conversation: str, call_id: str) -> bool: ...

    @abstractmethod
    async def collect(self, conversation: str, call_id: str) -> None:
        """Note that the caller has got the outcome."""

    @abstractmethod
    async def request_cancel(self, conversation: str) -> None:
        """Note that the caller wants the call of a conversation cancelled. The process that runs it ends it."""

    @abstractmethod
    async def is_cancel_requested(self, conversation: str) -> bool: ...

    @abstractmethod
    async def approvals_of(
        self, tenant: str, state: ApprovalState | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[Approval, ...]:
        """Return the approvals of a tenant, oldest first: at most `limit`, after the approval `after`."""

    @abstractmethod
    async def search_approvals(self, tenant: str, query: ApprovalQuery) -> tuple[Approval, ...]:
        """Return approvals of a tenant by their status at a time, in either order."""

    @abstractmethod
    async def approvals_in(self, conversation: str) -> tuple[Approval, ...]:
        """Return the approvals of one conversation, oldest first."""

    @abstractmethod
    async def earlier_approvals(
        self, tenant: str, tool_times: Sequence[tuple[str, float]]
    ) -> tuple[Approval | None, ...]:
        """Return, for each tool and time, the last approval given in the tenant before that time; None without one."""

    @abstractmethod
    async def conversations_of(self, tenant: str, query: ConversationQuery) -> tuple[ConversationSummary, ...]:
        """Return conversations of a tenant, newest first."""

    @abstractmethod
    async def record_requests(self, requests: Sequence[TracedRequest]) -> None:
        """Record requests for traces, each when it begins, when it ends, or both at once."""

    @abstractmethod
    async def touch_requests(self, ids: Sequence[str], *, now: float) -> None:
        """Note that these recorded requests still run."""

    @abstractmethod
    async def traces_of(self, tenant: str, query: TraceQuery) -> tuple[TraceSummary, ...]:
        """List traces, newest first. Conversations in the ledger without a recorded request are listed too."""

    @abstractmethod
    async def trace(self, id: str, tenant: str, *, stale_before: float = 0.0) -> Trace | None:
        """Return a trace, by its own id or that of a conversation in it."""

    @abstractmethod
    async def forget_traces(self, before: float) -> int:
        """Delete some of the traces that were not changed since `before`. Returns how many; 0 if none are left."""

    @abstractmethod
    async def record_reply(self, reply: ReplyRecord, epoch: int, *, now: float) -> None:
        """Record a reply's cost and tool usage. A lost reply in the same place is no longer counted in the usage."""

    @abstractmethod
    async def credential(self, tenant: str, principal: str, id: str) -> str | None:
        """Return a stored credential, which is encrypted; None if there is none. See `credentials`."""

    @abstractmethod
    async def credential_revision(self, tenant: str, principal: str, id: str) -> str:
        """Return the revision of a credential; empty if there is none."""

    @abstractmethod
    async def store_credential(
        self, tenant: str, principal: str, id: str, sealed: str, revision: str, *, now: float
    ) -> None:
        """Store a credential, in the place of the one that there is. `revision` is one that was never used."""

    @abstractmethod
    async def remove_credential(self, tenant: str, principal: str, id: str) -> bool:
        """Remove a credential; False if there is none."""

    @abstractmethod
    async def credential_owners(self, id: str, limit: int) -> tuple[tuple[str, str], ...]:
        """Return the tenants and principals that have a credential of this id, the one that changed last first."""

    @abstractmethod
    async def reseal_credentials(self, reseal: Callable[[str], str | None]) -> ResealReport:
        """Encrypt all credentials anew. `reseal` returns the text for a text; None if it cannot be read."""

    @abstractmethod
    async def lease_credential(
        self, tenant: str, principal: str, id: str, holder: str, until: float, *, now: float
    ) -> bool:
        """Lease a credential, or extend the holder's lease; False if another holder has one."""

    @abstractmethod
    async def release_credential(self, tenant: str, principal: str, id: str, holder: str) -> None:
        """End the holder's lease."""

    @abstractmethod
    async def usage_report(self, query: UsageQuery) -> UsageReport:
        """Report how often models were offered tools and called them, and what the calls led to."""

    @abstractmethod
    async def call_seconds(self, query: UsageQuery) -> tuple[tuple[str, float], ...]:
        """Return how long the calls of the newest conversations took, each with its tool."""

    @abstractmethod
    async def tool_uses(self, tenant: str, since: float) -> tuple[ToolUse, ...]:
        """Return how often models of a tenant could call each tool, and called it, by week, of its newest replies."""

    @abstractmethod
    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]: ...

    @abstractmethod
    async def verify(self, conversation: str | None = None) -> Breach | None:
        """Return the first row that was changed, removed or inserted, in one conversation or in all; None without one.

        Anyone who can write the whole database can rewrite a whole chain: store the last hash elsewhere too.
        """

    @abstractmethod
    async def maintain(self, *, now: float) -> None:
        """Prepare the tables for the next weeks. It costs nothing if they are: a gateway calls it now and then."""

    @abstractmethod
    async def prune(
        self,
        before: float,
        audit_before: float | None = None,
        *,
        now: float,
        is_dry_run: bool = False,
        whole_weeks: bool = False,
        after_batch: AfterBatch = no_pause,
    ) -> PruneReport:
        """Remove conversations that were not changed since `before`, in which nothing waits, and that nobody owns.

        Their audit logs stay, and their ids cannot be opened again. With `audit_before`, audit logs that end before it
        go too. `whole_weeks` waits until a week is due as a whole where that is cheaper, in Postgres. `after_batch` is
        awaited after each transaction.
        """

    @abstractmethod
    async def delete_principal(
        self,
        principal: Principal,
        by: str = "operator",
        *,
        now: float,
        is_dry_run: bool = False,
        after_batch: AfterBatch = no_pause,
    ) -> PruneReport:
        """Remove everything of one person, whatever its age, but for audit logs, which do not name them.

        That includes what they have signed in to.

        Conversations that a process owns now are not removed: see `PruneReport.held_ids`.
        """

    # --- API keys: see `keys` ---

    @abstractmethod
    async def key_number(self) -> int:
        """Return the number that every change of a key raises; 0 if there never was a key."""

    @abstractmethod
    async def usable_keys(self, *, ended_after: float) -> tuple[KeyRecord, ...]:
        """Return the keys that may be used, and those that were revoked or expired after a time."""

    @abstractmethod
    async def key_tenants(self) -> tuple[str, ...]:
        """Return tenants that have or had keys: two of them, or all if they are fewer."""

    @abstractmethod
    async def list_keys(
        self, tenant: str | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[KeyRecord, ...]:
        """Return keys, newest first: of one tenant, or of all. `after` is the id of the last one of a page."""

    @abstractmethod
    async def key(self, id: str) -> KeyRecord | None: ...

    @abstractmethod
    async def add_key(self, key: KeyRecord) -> None: ...

    @abstractmethod
    async def rotate_key(self, id: str, new: KeyRecord, *, expires_at: float, now: float) -> KeyRecord | None:
        """Add a key in place of another one, which expires then. None if that cannot be rotated any more."""

    @abstractmethod
    async def revoke_key(self, id: str, by: str, *, now: float) -> KeyRecord | None:
        """Revoke a key. Returns it; None if it is unknown."""

    @abstractmethod
    async def note_key_uses(self, uses: Mapping[str, float]) -> None:
        """Note when keys were last used."""

    @abstractmethod
    async def close(self) -> None: ...
