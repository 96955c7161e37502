"""SqlLedger: the ledger over any SQL database. A driver only implements how a transaction is run."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ferrule.core.context import Principal
from ferrule.core.json_text import loads
from ferrule.core.outcome import Outcome
from ferrule.core.tool_use import ToolUse
from ferrule.errors import FencedError, LedgerError, LedgerUnavailableError
from ferrule.run.ledger import (
    approvals,
    calls,
    continuations,
    conversations,
    credentials,
    export,
    keys,
    placements,
    queries,
    responses,
    stored_requests,
    tool_usage,
    traces,
    verification,
)
from ferrule.run.ledger.approval_terms import ApprovalTerms, Vote
from ferrule.run.ledger.change import (
    AskApproval,
    Change,
    FinishCall,
    ProposeCall,
    RecordReply,
    RefuseCall,
    Release,
    SaveState,
    StartCall,
)
from ferrule.run.ledger.changes import make_changes
from ferrule.run.ledger.claim import Claim, new_approval_id, require_name
from ferrule.run.ledger.continuation import Continuation, WebhookDelivery
from ferrule.run.ledger.heartbeat import Beat, Heartbeat, beat
from ferrule.run.ledger.held_conversations import HeldConversations
from ferrule.run.ledger.keys import KeyRecord
from ferrule.run.ledger.ledger import (
    MAX_PAGE,
    Approval,
    ApprovalDecision,
    ApprovalState,
    AuditRecord,
    Breach,
    CallRecord,
    ConversationRecord,
    ResponseRecord,
    ResponseStatus,
    StoredRequest,
)
from ferrule.run.ledger.placements import IdKind
from ferrule.run.ledger.reseal_report import ResealReport
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger.search import ApprovalQuery, ConversationQuery, ConversationSummary
from ferrule.run.ledger.sql_retention import SqlRetention
from ferrule.run.ledger.trace import Trace, TracedRequest, TraceQuery, TraceSummary
from ferrule.run.ledger.transaction import Transaction, execute
from ferrule.run.ledger.transition import Body, change, find_owned
from ferrule.run.ledger.upgrade import fill_conversations
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import ToolUsage, UsageQuery, UsageReport

T = TypeVar("T")


_MAX_KNOWN_OFFERS = 10_000


class SqlLedger(SqlRetention):
    """`_transact` runs a transaction: its statements and steps are durable, each by itself, when they return.

    With `is_atomic` all its statements are one transaction of the database; it has no steps then.
    """

    def __init__(self) -> None:
        self._held = HeldConversations()
        self._known_offers: set[str] = set()
        self._heartbeats: dict[str, Heartbeat] = {}
        self._background: set[asyncio.Task[None]] = set()

    async def _search_words(self, text: str) -> str | None:
        """Return the text of a search for the database's index of words; None if it has none, or not yet."""
        return None

    async def _change(self, conversation: str, epoch: int | None, now: float, body: Body[T]) -> T:
        async with self._held.one_at_a_time(conversation):
            return await self._transact(change(self._held, conversation, epoch, now, body))

    async def apply(self, conversation: str, epoch: int, changes: Sequence[Change]) -> tuple[Any, ...]:
        await self._store_offers(changes)
        now = changes[-1].at
        return await self._change(conversation, epoch, now, lambda one: make_changes(one, changes))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        return await self._transact(
            conversations.open_conversation(self._held, conversation, principal, owner, lease, now)
        )

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
        await self._store_offers(changes)
        whose = (conversation, principal, owner, lease)
        async with self._held.one_at_a_time(conversation):
            return await self._transact(
                conversations.begin(self._held, *whose, request, now, lambda one: make_changes(one, changes))
            )

    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        return await self._transact(conversations.load(conversation, principal))

    async def renew(self, conversation: str, epoch: int, lease: float, *, now: float) -> None:
        # A step that is on its way would write back the lease that it has read.
        async with self._held.one_at_a_time(conversation):
            await self._transact(conversations.renew(self._held, conversation, epoch, lease, now))

    async def keep(self, conversation: str, epoch: int, lease: float, clock: Callable[[], float]) -> None:
        record = self._held.get(conversation, epoch) or await self._transact(find_owned(conversation, epoch))
        heartbeat = self._heartbeats.get(record.owner)
        if heartbeat is None:
            heartbeat = self._heartbeats[record.owner] = self._make_heartbeat(record.owner, lease, clock)
        await heartbeat.begin(lambda until: self._transact(beat(record.owner, until, clock())))
        await self._change(conversation, epoch, clock(), conversations.keep)

    async def let_go(self, conversation: str, epoch: int, lease: float, clock: Callable[[], float]) -> None:
        if self._held.is_kept(conversation, epoch):
            task = asyncio.ensure_future(self._let_go(conversation, epoch, lease, clock))
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _let_go(self, conversation: str, epoch: int, lease: float, clock: Callable[[], float]) -> None:
        while self._held.is_kept(conversation, epoch):
            try:
                await self._change(conversation, epoch, clock(), lambda one: conversations.let_go(one, lease))
            except FencedError:
                self._held.lose(conversation, epoch)
            except LedgerUnavailableError:
                await asyncio.sleep(lease / 3)

    def _make_heartbeat(self, owner: str, lease: float, clock: Callable[[], float]) -> Heartbeat:
        return Heartbeat(self._held, owner, lease, clock, self._open_beat)

    @abstractmethod
    def _open_beat(self) -> Beat:
        """Return what writes signs of life from a thread, on a connection of its own."""

    async def _stop_keeping(self) -> None:
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        for heartbeat in self._heartbeats.values():
            await heartbeat.stop()

    async def release(self, conversation: str, epoch: int, *, now: float) -> None:
        await self.apply(conversation, epoch, (Release(at=now),))

    async def save(self, conversation: str, epoch: int, state: Any | StateUpdate, *, now: float) -> int:
        (version,) = await self.apply(conversation, epoch, (SaveState(update=_update(state), at=now),))
        return version

    async def take_over(self, conversation: str, owner: str, lease: float, *, now: float) -> ConversationRecord:
        return await self._transact(conversations.take_over(self._held, conversation, owner, lease, now))

    async def propose(
        self, claim: Claim, epoch: int, *, side_effects: bool, needs_approval: bool, now: float
    ) -> CallRecord:
        call = ProposeCall(claim=claim, side_effects=side_effects, needs_approval=needs_approval, at=now)
        (record,) = await self.apply(claim.conversation, epoch, (call,))
        return record

    async def start(self, claim: Claim, epoch: int, *, approval: str = "", now: float) -> bool:
        call = StartCall(claim=claim, approval=approval, at=now)
        (is_started,) = await self.apply(claim.conversation, epoch, (call,))
        return is_started

    async def finish(self, conversation: str, call_id: str, epoch: int, outcome: Outcome, *, now: float) -> CallRecord:
        (record,) = await self.apply(conversation, epoch, (FinishCall(call_id=call_id, outcome=outcome, at=now),))
        return record

    async def refuse(self, conversation: str, call_id: str, epoch: int, why: str, *, now: float) -> CallRecord:
        (record,) = await self.apply(conversation, epoch, (RefuseCall(call_id=call_id, why=why, at=now),))
        return record

    async def mark_unknown(self, conversation: str, epoch: int, *, now: float) -> tuple[str, ...]:
        return await self._change(conversation, epoch, now, conversations.mark_lost_calls)

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
        id = new_approval_id()
        ask = AskApproval(approval=id, call_id=call_id, expires=expires, terms=terms or ApprovalTerms(), at=now)
        (approval,) = await self.apply(conversation, epoch, (ask,))
        return approval

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
        require_name(by, "a person's name")
        conversation = await self._transact(approvals.find_conversation_of(approval))
        demands = terms or ApprovalTerms()
        return await self._change(
            conversation, None, now, lambda one: approvals.approve(one, approval, by, arguments, seen, demands)
        )

    async def votes(self, approval: str) -> tuple[Vote, ...]:
        return await self._transact(approvals.find_votes(approval))

    async def deny(self, approval: str, by: str, why: str = "", *, now: float) -> Approval:
        require_name(by, "a person's name")
        conversation = await self._transact(approvals.find_conversation_of(approval))
        return await self._change(conversation, None, now, lambda one: approvals.deny(one, approval, by, why))

    async def approval(self, approval: str) -> Approval | None:
        return await self._transact(approvals.find_approval(approval))

    async def approval_for(self, conversation: str, call_id: str) -> Approval | None:
        return await self._transact(approvals.find_approval_for_call(conversation, call_id))

    async def approvals(
        self, state: ApprovalState | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[Approval, ...]:
        return await self._transact(queries.find_approvals(state, after, limit))

    async def count_approvals(self, state: ApprovalState) -> int:
        return await self._transact(_count_approvals(state))

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
        update = None if state is None else _update(state)
        await self._change(
            response.conversation,
            epoch,
            now,
            lambda one: responses.add_response(one, response, events, update, decisions),
        )

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
        conversation = self._held.conversation_of(response)
        if conversation is None:
            conversation = await self._transact(responses.find_conversation_of(response))
        update = None if state is None else _update(state)
        return await self._change(
            conversation,
            epoch,
            now,
            lambda one: responses.append_events(one, response, events, first, update, status, reach),
        )

    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        return await self._transact(responses.find_response(response, principal))

    async def response_events(self, response: str, after: int = -1, limit: int = 1000) -> tuple[str, ...]:
        return await self._transact(responses.events_after(response, after, limit))

    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        return await self._transact(responses.find_unfinished(limit, now))

    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        record = await self.response(response, principal)
        if record is None:
            return None
        return await self._change(
            record.conversation, None, now, lambda one: responses.request_cancel(one, response, principal)
        )

    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        record = await self.response(response, principal)
        if record is None:
            return False
        return await self._change(
            record.conversation, None, now, lambda one: responses.delete_response(one, response, principal)
        )

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
        work = continuations.end(continuation, status, code, message, webhook, now)
        return await self._transact(work, is_atomic=True)

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

    async def request_cancel(self, conversation: str) -> None:
        await self._transact(continuations.request_cancel(conversation))

    async def is_cancel_requested(self, conversation: str) -> bool:
        return await self._transact(continuations.is_cancel_requested(conversation))

    async def is_uncollected(self, conversation: str, call_id: str) -> bool:
        return await self._transact(continuations.is_uncollected(conversation, call_id))

    async def collect(self, conversation: str, call_id: str) -> None:
        await self._transact(continuations.collect(conversation, call_id))

    async def approvals_of(
        self, tenant: str, state: ApprovalState | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[Approval, ...]:
        return await self._transact(queries.find_tenant_approvals(tenant, state, after, limit))

    async def search_approvals(self, tenant: str, query: ApprovalQuery) -> tuple[Approval, ...]:
        return await self._transact(queries.search_approvals(tenant, query))

    async def approvals_in(self, conversation: str) -> tuple[Approval, ...]:
        return await self._transact(queries.find_conversation_approvals(conversation))

    async def earlier_approvals(
        self, tenant: str, tool_times: Sequence[tuple[str, float]]
    ) -> tuple[Approval | None, ...]:
        return await self._transact(queries.find_earlier_approvals(tenant, tool_times))

    async def key_number(self) -> int:
        return await self._transact(keys.find_number())

    async def usable_keys(self, *, ended_after: float) -> tuple[KeyRecord, ...]:
        return await self._transact(keys.find_usable(ended_after))

    async def key_tenants(self) -> tuple[str, ...]:
        return await self._transact(keys.find_tenants())

    async def list_keys(
        self, tenant: str | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[KeyRecord, ...]:
        return await self._transact(keys.list_keys(tenant, after, limit))

    async def key(self, id: str) -> KeyRecord | None:
        return await self._transact(keys.find_key(id))

    async def add_key(self, key: KeyRecord) -> None:
        await self._transact(keys.add_key(key), is_atomic=True)

    async def rotate_key(self, id: str, new: KeyRecord, *, expires_at: float, now: float) -> KeyRecord | None:
        return await self._transact(keys.rotate_key(id, new, expires_at, now), is_atomic=True)

    async def revoke_key(self, id: str, by: str, *, now: float) -> KeyRecord | None:
        return await self._transact(keys.revoke_key(id, by, now), is_atomic=True)

    async def note_key_uses(self, uses: Mapping[str, float]) -> None:
        await self._transact(keys.note_uses(uses), is_atomic=True)

    async def conversations_of(self, tenant: str, query: ConversationQuery) -> tuple[ConversationSummary, ...]:
        words = await self._search_words(query.text)
        return await self._transact(queries.find_conversations(tenant, query, words))

    async def record_requests(self, requests: Sequence[TracedRequest]) -> None:
        await self._transact(traces.record_requests(requests), is_atomic=True)

    async def touch_requests(self, ids: Sequence[str], *, now: float) -> None:
        await self._transact(traces.touch_requests(ids, now), is_atomic=True)

    async def traces_of(self, tenant: str, query: TraceQuery) -> tuple[TraceSummary, ...]:
        words = await self._search_words(query.text)
        return await self._transact(traces.find_traces(tenant, query, words))

    async def trace(self, id: str, tenant: str, *, stale_before: float = 0.0) -> Trace | None:
        return await self._transact(traces.find_trace(id, tenant, stale_before))

    async def forget_traces(self, before: float) -> int:
        return await self._transact(traces.forget_traces(before), is_atomic=True)

    async def record_reply(self, reply: ReplyRecord, epoch: int, *, now: float) -> None:
        await self.apply(reply.conversation, epoch, (RecordReply(reply=reply, at=now),))

    async def _store_offers(self, changes: Sequence[Change]) -> None:
        for one in changes:
            if isinstance(one, RecordReply):
                await self._store_offer(one.reply.tool_usage)

    async def _store_offer(self, usage: ToolUsage | None) -> None:
        """Store the set of tools that a model was offered. Sets are few, and seldom new."""
        offer = tool_usage.offer_id(usage)
        if usage is not None and offer not in self._known_offers:
            await self._transact(tool_usage.store_offer(offer, usage.offered), is_atomic=True)
            if len(self._known_offers) >= _MAX_KNOWN_OFFERS:
                self._known_offers.clear()
            self._known_offers.add(offer)

    async def has(self, kind: IdKind, id: str) -> bool:
        """Whether this database has something with this id."""
        return await self._transact(placements.has(kind, id))

    async def take_number(self, number: int) -> int:
        """Return the number of this database in its list of databases, which is this one if it had none."""
        return await self._transact(placements.take_number(number))

    async def placement(self, tenant: str) -> int | None:
        """Return where a tenant is: see `placements`."""
        return await self._transact(placements.find_placement(tenant))

    async def place_tenant(self, tenant: str, place: int) -> int:
        """Note where a tenant is, unless this is known; then return what is known."""
        return await self._transact(placements.place_tenant(tenant, place))

    async def credential(self, tenant: str, principal: str, id: str) -> str | None:
        return await self._transact(credentials.find_credential(tenant, principal, id))

    async def credential_revision(self, tenant: str, principal: str, id: str) -> str:
        return await self._transact(credentials.find_revision(tenant, principal, id))

    async def store_credential(
        self, tenant: str, principal: str, id: str, sealed: str, revision: str, *, now: float
    ) -> None:
        await self._transact(credentials.store_credential(tenant, principal, id, sealed, revision, now))

    async def remove_credential(self, tenant: str, principal: str, id: str) -> bool:
        return await self._transact(credentials.remove_credential(tenant, principal, id))

    async def credential_owners(self, id: str, limit: int) -> tuple[tuple[str, str], ...]:
        return tuple((tenant, principal) for tenant, principal, _ in await self.dated_owners(id, limit))

    async def dated_owners(self, id: str, limit: int) -> list[tuple[str, str, float]]:
        """Return the owners of a credential with the times of their last changes, the newest first."""
        return await self._transact(credentials.find_owners(id, limit))

    async def reseal_credentials(self, reseal: Callable[[str], str | None]) -> ResealReport:
        report, after = ResealReport(), ("", "", "")
        while after is not None:
            # A page at a time, and each credential in a transaction of its own, so that nobody waits.
            page, after = await self._transact(credentials.reseal_page(reseal, after))
            report += page
        return report

    async def lease_credential(
        self, tenant: str, principal: str, id: str, holder: str, until: float, *, now: float
    ) -> bool:
        return await self._transact(credentials.lease_credential(tenant, principal, id, holder, until, now))

    async def release_credential(self, tenant: str, principal: str, id: str, holder: str) -> None:
        await self._transact(credentials.release_credential(tenant, principal, id, holder))

    async def usage_report(self, query: UsageQuery) -> UsageReport:
        return await self._transact(tool_usage.find_usage(query))

    async def call_seconds(self, query: UsageQuery) -> tuple[tuple[str, float], ...]:
        return await self._transact(tool_usage.find_call_seconds(query))

    async def tool_uses(self, tenant: str, since: float) -> tuple[ToolUse, ...]:
        return await self._transact(tool_usage.find_uses(tenant, since))

    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]:
        return await self._transact(verification.read_audit(conversation))

    async def maintain(self, *, now: float) -> None:
        """Nothing needs to be prepared."""

    async def verify(self, conversation: str | None = None) -> Breach | None:
        if conversation is not None:
            return await self._transact(verification.verify_conversation(conversation))
        return await self.verify_pages()

    async def verify_pages(self, after_page: Callable[[int], Awaitable[None]] | None = None) -> Breach | None:
        """Verify all audit logs. `after_page` is awaited with the number of conversations that are verified."""
        stray = await self._transact(verification.find_stray_audit())
        breach, last, total, count = None, "", 0, 1
        while count and breach is None:
            # One transaction for each page, so that nobody waits long.
            breach, count, last = await self._transact(verification.verify_page(last))
            total += count
            if after_page is not None:
                await after_page(total)
        found = [one for one in (breach, stray) if one is not None]
        return min(found, key=lambda one: one.conversation, default=None)

    async def count_strays(self) -> dict[str, int]:
        """Return how many rows of each table belong to no conversation, up to a thousand."""
        return await self._transact(verification.count_strays())

    async def count_unfilled(self) -> int:
        """Return whether conversations of an earlier version still lack their times: how many, up to a page."""
        return len((await self._transact(execute("unfilled", 1, "", 500))).rows)

    async def missing_partitions(self, *, now: float) -> list[str]:
        """Return the weeks, by their tables, that have no partition of their own."""
        return []

    async def export(self, tenant: str = "", principal: str = "", since: float = 0.0) -> AsyncGenerator[dict[str, Any]]:
        """Yield everything of each conversation as JSON. Empty names select all."""
        last = ""
        while page := await self._transact(export.find_ids(tenant, principal, since, last)):
            last = page[-1]
            for id in page:
                document = await self._transact(export.export_conversation(id))
                if document is not None:
                    yield document

    async def fill_conversations(self, after_batch: Callable[[int], Awaitable[None]]) -> int:
        """Fill in what conversations of an earlier version lack: see `upgrade`. Returns how many there were."""
        total, last = 0, ""
        while True:
            count, last = await self._transact(fill_conversations(last), is_atomic=True)
            if not count:
                return total
            total += count
            await after_batch(total)


def unstorable_error() -> LedgerError:
    """Return the error for a text that no row can contain: half a surrogate pair, or a NUL."""
    return LedgerError("a ledger cannot store this text", code="bad_name", hint="Use an id that the ledger returned.")


def _update(state: Any | StateUpdate) -> StateUpdate:
    return state if isinstance(state, StateUpdate) else StateUpdate.of(state)


def _count_approvals(state: ApprovalState) -> Transaction[int]:
    ((count,),) = (yield from execute("count_approvals", state.value)).rows
    return count
