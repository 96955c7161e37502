"""ShardedLedger: one ledger over several databases. Each tenant is in one of them. Independent of the database.

The problem
    One database writes only so much. No transition touches two conversations, so the ledger can be divided. It is
    divided by tenant, so that lists and searches need one database, and the loss of one stops only its own tenants.

Where a tenant is
    - *It stays where it is.* A tenant that is in one of the databases is never moved. Adding a database changes nothing
      for it, and nothing has to be copied.
    - *A new one is placed by a hash* of its name, over all databases. It is a rendezvous hash: each database has a
      score for the tenant, and the highest wins. Another database at the end of the list changes the winner for few
      tenants. So the winner is asked first, and nearly always is right.
    - *The first database decides.* Processes with lists of different length would place a new tenant differently. So it
      is placed by one row in the first database, and a process that comes second reads the row. Then the tenant's
      own database notes that it is there, before anything of the tenant is written. From then on a process needs only
      that database to find the tenant, once in its life; the rest is in a cache.
    - *The list is only appended to.* Each database stores its number in the list, and refuses another one. A process
      whose list is still too short for a tenant says that it is unavailable, so that the client tries another.
    - What was in the first database before it was in a list stays there. One that is added must be empty.

    A process that opens one of the databases by itself looks nothing up. So it must not run beside those that have the
    list, unless its list has one entry too.

Where an id is
    Many methods have only the id of a conversation, an approval or a response. Its database is remembered from what
    opened or returned it. Otherwise every database is asked whether it has the id; a decision on an approval in a
    process that has never seen it costs one such question.

    Two databases do not know of each other's ids, so two tenants in different ones can use the same id for their
    conversations. A process never mixes them up: in each process an id leads to one database, from the first use on;
    in another it is taken (`conversation_taken`) or not found, before anything is read or written there. If two
    databases answer that they have an id, it is taken too. The gateway's own ids are random, or hashes in which the
    tenant is included, so only programs that choose ids themselves can meet this. A program that does it on
    purpose can keep another tenant's conversation from being used in the same process, and cannot read or change it.

What does not answer
    A database that is away makes the requests of its own tenants fail. If it is the first one, new tenants cannot be
    placed; if it is another one, those cannot that the hash places there. Sweeps over all databases return what the
    others have, and wait for a silent one only once: until it has answered, it is not asked again. What must be
    complete (`verify`, `approvals`, a report over all tenants) fails.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import wraps
from inspect import signature
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, cast

from ferrule.core.context import Principal
from ferrule.core.tool_use import ToolUse
from ferrule.errors import DefinitionError, LedgerError, LedgerUnavailableError
from ferrule.run.ledger.change import Change
from ferrule.run.ledger.claim import Claim, require_name
from ferrule.run.ledger.continuation import Continuation, WebhookDelivery
from ferrule.run.ledger.keys import KeyRecord
from ferrule.run.ledger.ledger import (
    MAX_PAGE,
    Approval,
    ApprovalState,
    AuditRecord,
    Breach,
    ConversationRecord,
    Ledger,
    ResponseRecord,
    StoredRequest,
)
from ferrule.run.ledger.placements import HERE, IdKind
from ferrule.run.ledger.prune_report import AfterBatch, PruneReport, no_pause
from ferrule.run.ledger.reseal_report import ResealReport
from ferrule.run.ledger.search import ConversationSummary
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tool_usage import merge_reports
from ferrule.run.ledger.trace import Trace, TracedRequest
from ferrule.run.reply_record import ReplyRecord
from ferrule.run.tool_usage import UsageQuery, UsageReport

T = TypeVar("T")
Method = TypeVar("Method", bound=Callable[..., Coroutine[Any, Any, Any]])

_PATIENCE_SECONDS = 2.0
"""How long a sweep waits for a database."""
_ANSWER_SECONDS = 15.0
"""How long a request waits for the databases that may have what it names: as for its own, on a busy machine."""
_MAX_IDS = 100_000
"""How many ids are remembered, at about 300 bytes each."""
_MAX_TENANTS = 20_000


class _Shard:
    """One database. `number` is its index in the list."""

    def __init__(self, number: int, ledger: SqlLedger) -> None:
        self.number = number
        self._ledger = ledger
        self._has_number = False
        self.late: asyncio.Task[Any] | None = None
        """A question of a sweep that it has not answered in time."""

    @property
    def is_silent(self) -> bool:
        """Whether it still has to answer a sweep."""
        return self.late is not None and not self.late.done()

    @property
    def ledger(self) -> SqlLedger:
        """The database, also if it turns out to be another one."""
        return self._ledger

    async def checked(self) -> SqlLedger:
        """Return the database, when it has been found to be the one of this number."""
        if not self._has_number:
            number = await self._ledger.take_number(self.number)
            if number != self.number:
                raise LedgerError(
                    f"number {self.number + 1} in the list of ledgers is the database that was number {number + 1}",
                    code="ledger_list_changed",
                    hint="Write the databases in their old order; add new ones at the end, and remove none.",
                )
            self._has_number = True
        return self._ledger

    async def answer(self, question: Callable[[SqlLedger], Coroutine[Any, Any, T]]) -> T:
        return await question(await self.checked())


class _Recent(Generic[T]):
    """The values that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Any, T] = OrderedDict()

    def get(self, key: object) -> T | None:
        value = self._values.get(key)
        if value is not None:
            self._values.move_to_end(key)
        return value

    def put(self, key: object, value: T) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)


def _forward(method: Method, find: Callable[[ShardedLedger, Any], Coroutine[Any, Any, _Shard]]) -> Method:
    """Return the method of a `ShardedLedger` that calls the same method of the shard of its first argument."""
    name, first = method.__name__, [*signature(method).parameters][1]

    @wraps(method)
    async def forward(self: ShardedLedger, *args: Any, **kwargs: Any) -> Any:
        shard = await find(self, args[0] if args else kwargs[first])
        result = await getattr(await shard.checked(), name)(*args, **kwargs)
        self.remember(shard, *args[:1], result)
        return result

    # It is copied from the method of the interface.
    vars(forward)["__isabstractmethod__"] = False
    return cast("Method", forward)


def _by_conversation(method: Method) -> Method:
    return _forward(method, lambda self, conversation: self.shard_with(IdKind.CONVERSATION, conversation))


def _by_part(method: Method) -> Method:
    """Find the shard of something that belongs to a conversation."""

    def find(
        self: ShardedLedger, part: Claim | ReplyRecord | ResponseRecord | Continuation
    ) -> Coroutine[Any, Any, _Shard]:
        return self.shard_with(IdKind.CONVERSATION, part.conversation)

    return _forward(method, find)


def _by_approval(method: Method) -> Method:
    return _forward(method, lambda self, approval: self.shard_with(IdKind.APPROVAL, approval))


def _by_response(method: Method) -> Method:
    return _forward(method, lambda self, response: self.shard_with(IdKind.RESPONSE, response))


def _by_request(method: Method) -> Method:
    return _forward(method, lambda self, answer: self.shard_with(IdKind.REQUEST, answer))


def _by_delivery(method: Method) -> Method:
    return _forward(method, lambda self, id: self.shard_with(IdKind.DELIVERY, id))


def _by_tenant(method: Method) -> Method:
    return _forward(method, lambda self, tenant: self.shard_of(tenant))


class ShardedLedger(Ledger):
    """A ledger over several databases. The order of the list is part of the data: only append to it.

    Example:
        ledger = ShardedLedger([await open_ledger("a.db"), await open_ledger("b.db")])
    """

    def __init__(self, ledgers: Sequence[SqlLedger]) -> None:
        if not ledgers:
            raise DefinitionError("a list of ledgers must not be empty", hint="Name at least one database.")
        self._shards = [_Shard(number, ledger) for number, ledger in enumerate(ledgers)]
        self._tenants: _Recent[_Shard] = _Recent(_MAX_TENANTS)
        self._routes: _Recent[_Shard] = _Recent(_MAX_IDS)
        self._turn = 0
        self.on_failure: Callable[[LedgerError], None] = _ignore_failure
        """Called with the error of a database that a sweep goes without."""

    @property
    def shards(self) -> tuple[SqlLedger, ...]:
        return tuple(shard.ledger for shard in self._shards)

    async def of_tenant(self, tenant: str) -> Ledger:
        return await (await self.shard_of(tenant)).checked()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        for shard in self._shards:
            if shard.late is not None:
                shard.late.cancel()
                with suppress(asyncio.CancelledError, LedgerError):
                    await shard.late
        for result in await asyncio.gather(*(one.close() for one in self.shards), return_exceptions=True):
            if isinstance(result, BaseException):
                raise result

    # --- What one shard does. A new method of the interface that names something by its id is one line here. ---

    renew = _by_conversation(Ledger.renew)
    keep = _by_conversation(Ledger.keep)
    let_go = _by_conversation(Ledger.let_go)
    release = _by_conversation(Ledger.release)
    apply = _by_conversation(Ledger.apply)
    save = _by_conversation(Ledger.save)
    take_over = _by_conversation(Ledger.take_over)
    finish = _by_conversation(Ledger.finish)
    refuse = _by_conversation(Ledger.refuse)
    mark_unknown = _by_conversation(Ledger.mark_unknown)
    call = _by_conversation(Ledger.call)
    calls = _by_conversation(Ledger.calls)
    request_approval = _by_conversation(Ledger.request_approval)
    approval_for = _by_conversation(Ledger.approval_for)
    approvals_in = _by_conversation(Ledger.approvals_in)
    continuation = _by_conversation(Ledger.continuation)
    request_of = _by_conversation(Ledger.request_of)
    mark_uncollected = _by_conversation(Ledger.mark_uncollected)
    is_uncollected = _by_conversation(Ledger.is_uncollected)
    collect = _by_conversation(Ledger.collect)
    request_cancel = _by_conversation(Ledger.request_cancel)
    is_cancel_requested = _by_conversation(Ledger.is_cancel_requested)

    propose = _by_part(Ledger.propose)
    start = _by_part(Ledger.start)
    record_reply = _by_part(Ledger.record_reply)
    add_response = _by_part(Ledger.add_response)
    end_continuation = _by_part(Ledger.end_continuation)
    postpone_continuation = _by_part(Ledger.postpone_continuation)

    approve = _by_approval(Ledger.approve)
    deny = _by_approval(Ledger.deny)
    votes = _by_approval(Ledger.votes)
    approval = _by_approval(Ledger.approval)

    append_events = _by_response(Ledger.append_events)
    response_events = _by_response(Ledger.response_events)
    stored_request = _by_request(Ledger.stored_request)
    end_delivery = _by_delivery(Ledger.end_delivery)
    postpone_delivery = _by_delivery(Ledger.postpone_delivery)

    approvals_of = _by_tenant(Ledger.approvals_of)
    search_approvals = _by_tenant(Ledger.search_approvals)
    earlier_approvals = _by_tenant(Ledger.earlier_approvals)
    conversations_of = _by_tenant(Ledger.conversations_of)
    traces_of = _by_tenant(Ledger.traces_of)

    # --- Keys: the first database has those of all tenants. ---

    async def key_number(self) -> int:
        return await (await self._shards[0].checked()).key_number()

    async def usable_keys(self, *, ended_after: float) -> tuple[KeyRecord, ...]:
        return await (await self._shards[0].checked()).usable_keys(ended_after=ended_after)

    async def key_tenants(self) -> tuple[str, ...]:
        return await (await self._shards[0].checked()).key_tenants()

    async def list_keys(
        self, tenant: str | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[KeyRecord, ...]:
        return await (await self._shards[0].checked()).list_keys(tenant, limit=limit, after=after)

    async def key(self, id: str) -> KeyRecord | None:
        return await (await self._shards[0].checked()).key(id)

    async def add_key(self, key: KeyRecord) -> None:
        await (await self._shards[0].checked()).add_key(key)

    async def rotate_key(self, id: str, new: KeyRecord, *, expires_at: float, now: float) -> KeyRecord | None:
        return await (await self._shards[0].checked()).rotate_key(id, new, expires_at=expires_at, now=now)

    async def revoke_key(self, id: str, by: str, *, now: float) -> KeyRecord | None:
        return await (await self._shards[0].checked()).revoke_key(id, by, now=now)

    async def note_key_uses(self, uses: Mapping[str, float]) -> None:
        await (await self._shards[0].checked()).note_key_uses(uses)

    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        shard = await self._shard_to_open(conversation, principal)
        record = await (await shard.checked()).open(conversation, principal, owner, lease, now=now)
        self.remember(shard, record)
        return record

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
        shard = await self._shard_to_open(conversation, principal)
        ledger = await shard.checked()
        record, results = await ledger.begin(conversation, principal, owner, lease, changes, request, now=now)
        self.remember(shard, record, *([] if request is None else [request]))
        return record, results

    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        shard = await self._shard_for(IdKind.CONVERSATION, conversation, principal)
        record = shard and await (await shard.checked()).load(conversation, principal)
        if shard and record:
            self.remember(shard, record)
        return record

    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        shard = await self._shard_for(IdKind.RESPONSE, response, principal)
        record = shard and await (await shard.checked()).response(response, principal)
        if shard and record:
            self.remember(shard, record)
        return record

    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        shard = await self._shard_for(IdKind.RESPONSE, response, principal)
        return shard and await (await shard.checked()).cancel_response(response, principal, now=now)

    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        shard = await self._shard_for(IdKind.RESPONSE, response, principal)
        return bool(shard and await (await shard.checked()).delete_response(response, principal, now=now))

    async def claim_request(self, request: StoredRequest, *, is_retry: bool, now: float) -> StoredRequest:
        shard = await self.shard_of(request.tenant, is_new=True)
        claimed = await (await shard.checked()).claim_request(request, is_retry=is_retry, now=now)
        self.remember(shard, claimed)
        return claimed

    async def move_request(self, answer: str, new_answer: str) -> bool:
        shard = await self.shard_with(IdKind.REQUEST, answer)
        is_moved = await (await shard.checked()).move_request(answer, new_answer)
        if is_moved:
            self._remember_answer(shard, new_answer)
        return is_moved

    async def credential(self, tenant: str, principal: str, id: str) -> str | None:
        return await (await self._credential_ledger(tenant)).credential(tenant, principal, id)

    async def credential_revision(self, tenant: str, principal: str, id: str) -> str:
        return await (await self._credential_ledger(tenant)).credential_revision(tenant, principal, id)

    async def store_credential(
        self, tenant: str, principal: str, id: str, sealed: str, revision: str, *, now: float
    ) -> None:
        ledger = await self._credential_ledger(tenant)
        await ledger.store_credential(tenant, principal, id, sealed, revision, now=now)

    async def remove_credential(self, tenant: str, principal: str, id: str) -> bool:
        return await (await self._credential_ledger(tenant)).remove_credential(tenant, principal, id)

    async def reseal_credentials(self, reseal: Callable[[str], str | None]) -> ResealReport:
        return sum(await self._all(lambda one: one.reseal_credentials(reseal)), ResealReport())

    async def lease_credential(
        self, tenant: str, principal: str, id: str, holder: str, until: float, *, now: float
    ) -> bool:
        ledger = await self._credential_ledger(tenant)
        return await ledger.lease_credential(tenant, principal, id, holder, until, now=now)

    async def release_credential(self, tenant: str, principal: str, id: str, holder: str) -> None:
        await (await self._credential_ledger(tenant)).release_credential(tenant, principal, id, holder)

    async def _credential_ledger(self, tenant: str) -> SqlLedger:
        """Return where a tenant's credentials are; those of the gateway itself are in the first database."""
        shard = await self.shard_of(tenant, is_new=True) if tenant else self._shards[0]
        return await shard.checked()

    async def trace(self, id: str, tenant: str, *, stale_before: float = 0.0) -> Trace | None:
        shard = await self.shard_of(tenant)
        return await (await shard.checked()).trace(id, tenant, stale_before=stale_before)

    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]:
        shard = await self._find(IdKind.CONVERSATION, conversation)
        if shard is not None:
            return await (await shard.checked()).audit(conversation)
        # Somebody may have removed the conversation, and left the rows.
        return next((rows for rows in await self._all(lambda one: one.audit(conversation)) if rows), ())

    # --- What all shards do. It must be complete. ---

    async def verify(self, conversation: str | None = None) -> Breach | None:
        if conversation is not None:
            shard = await self._find(IdKind.CONVERSATION, conversation)
            if shard is not None:
                return await (await shard.checked()).verify(conversation)
        # Without a limit: it reads everything there is.
        breaches = await asyncio.gather(
            *(shard.answer(lambda one: one.verify(conversation)) for shard in self._shards), return_exceptions=True
        )
        for breach in sorted(breaches, key=lambda one: isinstance(one, BaseException)):
            if isinstance(breach, BaseException):
                raise breach
            if breach is not None:
                return breach
        return None

    async def approvals(
        self, state: ApprovalState | None = None, *, limit: int = MAX_PAGE, after: str = ""
    ) -> tuple[Approval, ...]:
        """Return approvals of all conversations: one database after another, and each oldest first."""
        first = (await self.shard_with(IdKind.APPROVAL, after)).number if after else 0
        found: list[Approval] = []
        for shard in self._shards[first:]:
            ledger = await shard.checked()
            page = await ledger.approvals(state, limit=limit - len(found), after=after if shard.number == first else "")
            self.remember(shard, page)
            found += page
            if len(found) >= limit:
                break
        return tuple(found)

    async def count_approvals(self, state: ApprovalState) -> int:
        return sum(await self._all(lambda one: one.count_approvals(state)))

    async def usage_report(self, query: UsageQuery) -> UsageReport:
        if query.tenant is not None:
            return await (await (await self.shard_of(query.tenant)).checked()).usage_report(query)
        return merge_reports(await self._all(lambda one: one.usage_report(query)))

    async def call_seconds(self, query: UsageQuery) -> tuple[tuple[str, float], ...]:
        if query.tenant is not None:
            return await (await (await self.shard_of(query.tenant)).checked()).call_seconds(query)
        return tuple(pair for pairs in await self._all(lambda one: one.call_seconds(query)) for pair in pairs)

    async def tool_uses(self, tenant: str, since: float) -> tuple[ToolUse, ...]:
        return await (await (await self.shard_of(tenant)).checked()).tool_uses(tenant, since)

    async def record_requests(self, requests: Sequence[TracedRequest]) -> None:
        """Record them, in each database those of its tenants. If it raises, they may be recorded in the others."""
        by_shard: dict[_Shard, list[TracedRequest]] = {}
        for request in requests:
            by_shard.setdefault(await self.shard_of(request.tenant, is_new=True), []).append(request)
        for shard, some in by_shard.items():
            await (await shard.checked()).record_requests(some)

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
        report = PruneReport()
        for shard in self._shards:
            ledger = await shard.checked()
            options = {"is_dry_run": is_dry_run, "whole_weeks": whole_weeks}
            report.add(await ledger.prune(before, audit_before, now=now, after_batch=after_batch, **options))
        return report

    async def delete_principal(
        self,
        principal: Principal,
        by: str = "operator",
        *,
        now: float,
        is_dry_run: bool = False,
        after_batch: AfterBatch = no_pause,
    ) -> PruneReport:
        ledger = await (await self.shard_of(principal.tenant)).checked()
        return await ledger.delete_principal(principal, by, now=now, is_dry_run=is_dry_run, after_batch=after_batch)

    # --- Sweeps: what the shards return that answer. ---

    async def maintain(self, *, now: float) -> None:
        await self._sweep(lambda one: one.maintain(now=now))

    async def credential_owners(self, id: str, limit: int) -> tuple[tuple[str, str], ...]:
        found = await self._sweep(lambda one: one.dated_owners(id, limit))
        owners = sorted((owner for _, some in found for owner in some), key=lambda one: -one[2])
        return tuple((tenant, principal) for tenant, principal, _ in owners[:limit])

    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        found = await self._sweep(lambda one: one.unfinished_responses(limit, now=now))
        return tuple(sorted(self._usable(found), key=lambda one: one.created)[:limit])

    async def due_continuations(self, limit: int, *, now: float) -> tuple[Continuation, ...]:
        found = await self._sweep(lambda one: one.due_continuations(limit, now=now))
        return tuple(sorted(self._usable(found), key=lambda one: one.due_at)[:limit])

    async def claim_deliveries(self, limit: int, *, until: float, now: float) -> tuple[WebhookDelivery, ...]:
        # What is claimed must also be returned, so each has its share of the limit. The rest goes to each in turn.
        self._turn += 1
        count = len(self._shards)
        shares = {
            shard: limit // count + ((shard.number + self._turn) % count < limit % count) for shard in self._shards
        }
        found: list[tuple[_Shard, tuple[WebhookDelivery, ...]]] = []
        for share in set(shares.values()) - {0}:
            some = [shard for shard in self._shards if shares[shard] == share]
            found += await self._sweep(lambda one, most=share: one.claim_deliveries(most, until=until, now=now), some)
        return tuple(self._usable(found))

    async def touch_requests(self, ids: Sequence[str], *, now: float) -> None:
        await self._sweep(lambda one: one.touch_requests(ids, now=now))

    async def forget_traces(self, before: float) -> int:
        return sum(count for _, count in await self._sweep(lambda one: one.forget_traces(before)))

    # --- Where a tenant is ---

    async def shard_of(self, tenant: str, *, is_new: bool = False) -> _Shard:
        """Return the shard of a tenant. With `is_new` a tenant that is nowhere is placed."""
        known = self._tenants.get(tenant)
        if known is not None:
            return known
        try:
            require_name(tenant, "a tenant")
        except LedgerError:
            if is_new:
                raise
            # There is no such tenant, so each of them can say so.
            return self._shards[0]
        winner = max(self._shards, key=lambda shard: _score(shard.number, tenant))
        first = self._shards[0]
        places: dict[_Shard, int | None] = {}
        errors: list[LedgerError] = []

        def is_known(answers: Mapping[_Shard, int | None]) -> bool:
            # The first database knows every tenant that is in another one.
            return HERE in answers.values() or first in answers

        for some in ([winner], [shard for shard in self._shards if shard is not winner]):
            answers, more_errors = await self._ask(lambda one: one.placement(tenant), some, is_known)
            places.update(answers)
            errors += more_errors
            here = [shard for shard, place in answers.items() if place == HERE]
            if len(here) > 1:
                raise LedgerError(
                    f"the tenant {tenant!r} is in two databases",
                    code="ledger_list_changed",
                    hint="A database that is added to a list must be empty.",
                )
            if here:
                self._tenants.put(tenant, here[0])
                return here[0]
        if first not in places:
            raise errors[0]
        place = places[first]
        if place is None and not is_new:
            # There is nothing of it anywhere, so each of them can say so.
            return winner
        if place is None:
            # Other processes may place it at the same time: one row decides.
            place = await (await self._shards[0].checked()).place_tenant(tenant, winner.number)
        shard = self._shard_at(tenant, place)
        if is_new:
            await (await shard.checked()).place_tenant(tenant, HERE)
            self._tenants.put(tenant, shard)
        return shard

    def _shard_at(self, tenant: str, number: int) -> _Shard:
        if number < len(self._shards):
            return self._shards[number]
        raise LedgerUnavailableError(
            f"the tenant {tenant!r} is in database {number + 1}, and this process has {len(self._shards)} in its list",
            hint="Give every process the same list of ledgers.",
        )

    # --- Where an id is ---

    async def shard_with(self, kind: IdKind, id: str) -> _Shard:
        """Return the shard that has an id; any one, if none has it."""
        return await self._find(kind, id) or self._shards[0]

    async def _find(self, kind: IdKind, id: str) -> _Shard | None:
        known = self._routes.get((kind, id))
        if known is not None:
            return known

        def is_known(answers: Mapping[_Shard, bool]) -> bool:
            return any(answers.values()) and all(shard in answers or shard.is_silent for shard in self._shards)

        answers, errors = await self._ask(lambda one: one.has(kind, id), self._shards, is_known)
        having = [shard for shard, has_it in answers.items() if has_it]
        if len(having) > 1:
            raise _taken_error(id)
        if not having and errors:
            raise errors[0]
        for shard in having:
            self._routes.put((kind, id), shard)
        return having[0] if having else None

    async def _shard_to_open(self, conversation: str, principal: Principal) -> _Shard:
        shard = await self.shard_of(principal.tenant, is_new=True)
        # Before it is opened: what is refused must leave nothing behind.
        if self._routes.get((IdKind.CONVERSATION, conversation)) not in (None, shard):
            raise _taken_error(conversation)
        return shard

    async def _shard_for(self, kind: IdKind, id: str, principal: Principal | None) -> _Shard | None:
        """Return the shard of a principal's tenant, unless the id leads to another one: then it is not found.

        Without a principal, the shard that has the id.
        """
        if principal is None:
            return await self.shard_with(kind, id)
        shard = await self.shard_of(principal.tenant)
        return shard if self._routes.get((kind, id)) in (None, shard) else None

    def remember(self, shard: _Shard, *records: object) -> None:
        """Remember the shard of what it has returned."""
        for record in _flat(records):
            for kind, id in _ids_of(record):
                if self._routes.get((kind, id)) is None:
                    self._routes.put((kind, id), shard)

    def _remember_answer(self, shard: _Shard, answer: str) -> None:
        for kind in _ANSWERS:
            self._routes.put((kind, answer), shard)

    def _usable(self, found: Iterable[tuple[_Shard, Iterable[T]]]) -> Iterator[T]:
        """Yield what was found, without that whose id leads to another shard in this process."""
        for shard, records in found:
            for record in records:
                self.remember(shard, record)
                if all(self._routes.get(key) is shard for key in _ids_of(record)):
                    yield record

    # --- Questions to several shards ---

    async def _ask(
        self,
        question: Callable[[SqlLedger], Coroutine[Any, Any, T]],
        shards: Sequence[_Shard],
        is_known: Callable[[Mapping[_Shard, T]], bool],
    ) -> tuple[dict[_Shard, T], list[LedgerError]]:
        """Ask several shards at once, until the answer is known. Returns the answers, and the errors of the others."""
        tasks = {asyncio.ensure_future(shard.answer(question)): shard for shard in shards}
        answers: dict[_Shard, T] = {}
        errors: list[LedgerError] = []
        pending = {*tasks}
        end = asyncio.get_running_loop().time() + _ANSWER_SECONDS
        try:
            while pending and not is_known(answers):
                left = end - asyncio.get_running_loop().time()
                done, pending = await asyncio.wait(pending, timeout=left, return_when=asyncio.FIRST_COMPLETED)
                if not done:
                    break
                for task in done:
                    try:
                        answers[tasks[task]] = task.result()
                    except LedgerError as error:
                        errors.append(error)
            errors += [_silent_error(tasks[task]) for task in pending]
        finally:
            for task in tasks:
                task.add_done_callback(_take_result)
                task.cancel()
        return answers, errors

    async def _all(self, question: Callable[[SqlLedger], Coroutine[Any, Any, T]]) -> list[T]:
        """Ask all shards. Each of them must answer."""
        return await asyncio.gather(*(shard.answer(question) for shard in self._shards))

    async def _sweep(
        self, question: Callable[[SqlLedger], Coroutine[Any, Any, T]], shards: Sequence[_Shard] = ()
    ) -> list[tuple[_Shard, T]]:
        """Ask all shards, and return the answers of those that answer. Raises if none does."""
        tasks: dict[_Shard, asyncio.Task[T]] = {}
        answers: list[tuple[_Shard, T]] = []
        errors: list[LedgerError] = []
        try:
            for shard in shards or self._shards:
                if shard.is_silent:
                    errors.append(_silent_error(shard))
                else:
                    tasks[shard] = asyncio.ensure_future(shard.answer(question))
            if tasks:
                await asyncio.wait(tasks.values(), timeout=_PATIENCE_SECONDS)
            for shard, task in tasks.items():
                if not task.done():
                    shard.late = task
                    task.add_done_callback(_take_result)
                    errors.append(_silent_error(shard))
                    continue
                try:
                    answers.append((shard, task.result()))
                except LedgerError as error:
                    errors.append(error)
        finally:
            for shard, task in tasks.items():
                if shard.late is not task:
                    task.cancel()
        if not answers and errors:
            raise errors[0]
        for error in errors:
            self.on_failure(error)
        return answers


_ANSWERS = (IdKind.REQUEST, IdKind.CONVERSATION, IdKind.RESPONSE)
"""What the id of an answer may name."""


def _ids_of(record: object) -> list[tuple[IdKind, str]]:
    """Return the ids by which other methods may name a record later."""
    match record:
        case ConversationRecord() | ConversationSummary():
            return [(IdKind.CONVERSATION, record.id)]
        case Approval():
            return [(IdKind.APPROVAL, record.id), (IdKind.CONVERSATION, record.conversation)]
        case ResponseRecord():
            return [(IdKind.RESPONSE, record.id), (IdKind.CONVERSATION, record.conversation)]
        case WebhookDelivery():
            return [(IdKind.DELIVERY, record.id)]
        case Continuation():
            return [(IdKind.CONVERSATION, record.conversation)]
        case StoredRequest():
            return [(kind, record.answer) for kind in _ANSWERS]
        case _:
            return []


def _flat(records: Iterable[object]) -> Iterator[object]:
    for record in records:
        if isinstance(record, tuple):
            yield from cast("tuple[object, ...]", record)
        else:
            yield record


def _score(number: int, tenant: str) -> bytes:
    return hashlib.sha256(f"{number}/{tenant}".encode(errors="surrogatepass")).digest()


def _taken_error(id: str) -> LedgerError:
    # The message does not say whose it is.
    return LedgerError(f"the id {id!r} is taken", code="conversation_taken", hint="Use random ids.")


def _silent_error(shard: _Shard) -> LedgerUnavailableError:
    return LedgerUnavailableError(f"database {shard.number + 1} of the ledger does not answer", hint="Try again.")


def _take_result(task: asyncio.Task[Any]) -> None:
    """Take the result of a question that nobody waits for any more. Its error was reported when it was late."""
    if not task.cancelled():
        task.exception()


def _ignore_failure(error: LedgerError) -> None:
    """The default: it is not reported."""
