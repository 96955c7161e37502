"""SqlLedger: the ledger over any SQL database. A driver only implements how a transaction is run."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ferrule.core.context import Principal
from ferrule.core.json_text import loads
from ferrule.core.outcome import Outcome
from ferrule.errors import LedgerError
from ferrule.run.ledger import (
    approvals,
    calls,
    continuations,
    conversations,
    queries,
    replies,
    responses,
    stored_requests,
    tool_usage,
    traces,
)
from ferrule.run.ledger.approval_terms import ApprovalTerms, Vote
from ferrule.run.ledger.audit_chain import GENESIS, first_breach
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.continuation import Continuation, WebhookDelivery
from ferrule.run.ledger.ledger import (
    Approval,
    ApprovalDecision,
    ApprovalState,
    AuditRecord,
    Breach,
    CallRecord,
    ConversationRecord,
    Ledger,
    ResponseRecord,
    ResponseStatus,
    StoredRequest,
)
from ferrule.run.ledger.search import ConversationQuery, ConversationSummary
from ferrule.run.ledger.tables import UPGRADABLE, VERSION
from ferrule.run.ledger.trace import Trace, TracedRequest, TraceQuery, TraceSummary
from ferrule.run.ledger.transaction import Transaction, execute
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import UsageQuery, UsageReport

T = TypeVar("T")


class SqlLedger(Ledger):
    """`_transact` runs one transaction that is durable when it returns. If it raises, nothing is changed."""

    @abstractmethod
    async def _transact(self, transaction: Transaction[T]) -> T: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        return await self._transact(conversations.open_conversation(conversation, principal, owner, lease, now))

    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        return await self._transact(conversations.load(conversation, principal))

    async def renew(self, conversation: str, epoch: int, lease: float, *, now: float) -> None:
        await self._transact(conversations.renew(conversation, epoch, lease, now))

    async def release(self, conversation: str, epoch: int, *, now: float) -> None:
        await self._transact(conversations.release(conversation, epoch, now))

    async def save(self, conversation: str, epoch: int, state: Any, *, now: float) -> int:
        return await self._transact(conversations.save(conversation, epoch, state, now))

    async def take_over(self, conversation: str, owner: str, lease: float, *, now: float) -> ConversationRecord:
        return await self._transact(conversations.take_over(conversation, owner, lease, now))

    async def propose(
        self, claim: Claim, epoch: int, *, side_effects: bool, needs_approval: bool, now: float
    ) -> CallRecord:
        return await self._transact(calls.propose(claim, epoch, side_effects, needs_approval, now))

    async def start(self, claim: Claim, epoch: int, *, approval: str = "", now: float) -> bool:
        return await self._transact(calls.start(claim, epoch, approval, now))

    async def finish(self, conversation: str, call_id: str, epoch: int, outcome: Outcome, *, now: float) -> CallRecord:
        return await self._transact(calls.finish(conversation, call_id, epoch, outcome, now))

    async def refuse(self, conversation: str, call_id: str, epoch: int, why: str, *, now: float) -> CallRecord:
        return await self._transact(calls.refuse(conversation, call_id, epoch, why, now))

    async def mark_unknown(self, conversation: str, epoch: int, *, now: float) -> tuple[str, ...]:
        return await self._transact(conversations.mark_unknown(conversation, epoch, now))

    async def call(self, conversation: str, call_id: str) -> CallRecord | None:
        return await self._transact(calls.find_call(conversation, call_id))

    async def calls(self, conversation: str) -> tuple[CallRecord, ...]:
        return await self._transact(calls.find_calls(conversation))

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
        # Random, because anyone who guesses an id could decide on the approval.
        id = secrets.token_hex(16)
        return await self._transact(
            approvals.request_approval(id, conversation, call_id, epoch, expires, terms or ApprovalTerms(), now)
        )

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
        return await self._transact(approvals.approve(approval, by, arguments, seen, terms or ApprovalTerms(), now))

    async def votes(self, approval: str) -> tuple[Vote, ...]:
        return await self._transact(approvals.find_votes(approval))

    async def deny(self, approval: str, by: str, why: str = "", *, now: float) -> Approval:
        return await self._transact(approvals.deny(approval, by, why, now))

    async def approval(self, approval: str) -> Approval | None:
        return await self._transact(approvals.find_approval(approval))

    async def approval_for(self, conversation: str, call_id: str) -> Approval | None:
        return await self._transact(approvals.find_approval_for_call(conversation, call_id))

    async def approvals(self, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        return await self._transact(approvals.find_approvals(state))

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
        await self._transact(responses.add_response(response, epoch, events, state, decisions, now))

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
        work = responses.append_events(response, epoch, events, first, state, status, reach, now)
        return await self._transact(work)

    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        return await self._transact(responses.find_response(response, principal))

    async def response_events(self, response: str, after: int = -1, limit: int = 1000) -> tuple[str, ...]:
        return await self._transact(responses.events_after(response, after, limit))

    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        return await self._transact(responses.find_unfinished(limit, now))

    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        return await self._transact(responses.request_cancel(response, principal, now))

    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        return await self._transact(responses.delete_response(response, principal, now))

    async def claim_request(self, request: StoredRequest, *, is_retry: bool, now: float) -> StoredRequest:
        return await self._transact(stored_requests.claim_request(request, is_retry, now))

    async def move_request(self, answer: str, new_answer: str) -> bool:
        return await self._transact(stored_requests.move_request(answer, new_answer))

    async def stored_request(self, answer: str) -> StoredRequest | None:
        return await self._transact(stored_requests.find_request(answer))

    async def due_continuations(self, limit: int, *, now: float) -> tuple[Continuation, ...]:
        return await self._transact(continuations.find_due(limit, now))

    async def continuation(self, conversation: str) -> Continuation | None:
        return await self._transact(continuations.find_continuation(conversation))

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
        return await self._transact(continuations.end(continuation, status, code, message, webhook, now))

    async def postpone_continuation(
        self, continuation: Continuation, until: float, *, code: str = "", message: str = ""
    ) -> bool:
        return await self._transact(continuations.postpone(continuation, until, code, message))

    async def request_of(self, conversation: str) -> Any:
        text = await self._transact(continuations.find_request_of(conversation))
        return None if text is None else loads(text)

    async def claim_deliveries(self, limit: int, *, until: float, now: float) -> tuple[WebhookDelivery, ...]:
        return await self._transact(continuations.claim_deliveries(limit, until, now))

    async def end_delivery(self, id: str, status: str) -> None:
        await self._transact(continuations.end_delivery(id, status))

    async def postpone_delivery(self, id: str, until: float) -> None:
        await self._transact(continuations.postpone_delivery(id, until))

    async def mark_uncollected(self, conversation: str, call_id: str) -> None:
        await self._transact(continuations.mark_uncollected(conversation, call_id))

    async def is_uncollected(self, conversation: str, call_id: str) -> bool:
        return await self._transact(continuations.is_uncollected(conversation, call_id))

    async def collect(self, conversation: str, call_id: str) -> None:
        await self._transact(continuations.collect(conversation, call_id))

    async def approvals_of(self, tenant: str, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        return await self._transact(queries.find_tenant_approvals(tenant, state))

    async def approvals_in(self, conversation: str) -> tuple[Approval, ...]:
        return await self._transact(queries.find_conversation_approvals(conversation))

    async def earlier_approvals(
        self, tenant: str, tool_times: Sequence[tuple[str, float]]
    ) -> tuple[Approval | None, ...]:
        return await self._transact(queries.find_earlier_approvals(tenant, tool_times))

    async def conversations_of(self, tenant: str, query: ConversationQuery) -> tuple[ConversationSummary, ...]:
        return await self._transact(queries.find_conversations(tenant, query))

    async def record_requests(self, requests: Sequence[TracedRequest]) -> None:
        await self._transact(traces.record_requests(requests))

    async def touch_requests(self, ids: Sequence[str], *, now: float) -> None:
        await self._transact(traces.touch_requests(ids, now))

    async def traces_of(self, tenant: str, query: TraceQuery) -> tuple[TraceSummary, ...]:
        return await self._transact(traces.find_traces(tenant, query))

    async def trace(self, id: str, tenant: str, *, stale_before: float = 0.0) -> Trace | None:
        return await self._transact(traces.find_trace(id, tenant, stale_before))

    async def forget_traces(self, before: float) -> int:
        return await self._transact(traces.forget_traces(before))

    async def record_reply(self, reply: ReplyRecord, epoch: int, *, now: float) -> None:
        await self._transact(replies.record_reply(reply, epoch, now))

    async def usage_report(self, query: UsageQuery) -> UsageReport:
        return await self._transact(tool_usage.find_usage(query))

    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]:
        return await self._transact(_audit(conversation))

    async def verify(self, conversation: str | None = None) -> Breach | None:
        names = [conversation] if conversation is not None else await self._transact(_conversation_ids())
        for name in names:
            # One transaction each, so that nobody waits long and only one conversation is in memory.
            breach = await self._transact(_verify(name))
            if breach is not None:
                return breach
        return None


def unstorable_error() -> LedgerError:
    """Return the error for a text that no row can contain: half a surrogate pair, or a NUL."""
    return LedgerError("a ledger cannot store this text", code="bad_name", hint="Use an id that the ledger returned.")


def check_version() -> Transaction[None]:
    """Check that the database has the version that this release writes. A new or an older one is set to it."""
    versions = [row[0] for row in (yield from execute("versions")).rows]
    if not versions:
        yield from execute("note_version", VERSION)
    elif len(versions) == 1 and versions[0] in UPGRADABLE:
        yield from execute("raise_version", VERSION, versions[0])
    elif versions != [VERSION]:
        raise LedgerError(
            f"the ledger has version {max(versions)}; this release needs version {VERSION}", code="ledger_version"
        )


def _conversation_ids() -> Transaction[list[str]]:
    return [row[0] for row in (yield from execute("every_conversation")).rows]


def _audit(conversation: str) -> Transaction[tuple[AuditRecord, ...]]:
    return tuple(AuditRecord(*row) for row in (yield from execute("audit", conversation)).rows)


def _verify(conversation: str) -> Transaction[Breach | None]:
    # Locked, so that the rows and the head are consistent.
    yield from execute("lock_conversation", conversation)
    heads = (yield from execute("head", conversation)).rows
    last, head = heads[0] if heads else (0, GENESIS)
    return first_breach(conversation, (yield from _audit(conversation)), last, head)
