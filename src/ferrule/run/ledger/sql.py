"""SqlLedger: the ledger over any SQL database. A driver only says how one piece of work becomes one transaction."""

from __future__ import annotations

import secrets
from abc import abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, TypeVar

from ferrule.core.context import Principal
from ferrule.core.outcome import Outcome
from ferrule.errors import LedgerError
from ferrule.run.ledger import approvals, calls, conversations, queries, replies, responses, tool_usage
from ferrule.run.ledger.audit_chain import GENESIS, first_breach
from ferrule.run.ledger.claim import Claim
from ferrule.run.ledger.ledger import (
    Approval,
    ApprovalState,
    AuditRecord,
    Breach,
    CallRecord,
    ConversationRecord,
    Ledger,
    ResponseRecord,
    ResponseStatus,
    Verdict,
)
from ferrule.run.ledger.search import ConversationLine, Search
from ferrule.run.ledger.tables import EARLIER, VERSION
from ferrule.run.ledger.transaction import Work, say
from ferrule.run.reply_record import Replied
from ferrule.run.usage_figures import SelectionFigures, SelectionSearch

T = TypeVar("T")


class SqlLedger(Ledger):
    """`_transact` runs work in one transaction that is durable when it returns; work that raises leaves nothing."""

    @abstractmethod
    async def _transact(self, work: Work[T]) -> T: ...

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(
        self, conversation: str, principal: Principal, owner: str, lease: float, *, now: float
    ) -> ConversationRecord:
        return await self._transact(conversations.opened(conversation, principal, owner, lease, now))

    async def load(self, conversation: str, principal: Principal | None = None) -> ConversationRecord | None:
        return await self._transact(conversations.loaded(conversation, principal))

    async def renew(self, conversation: str, epoch: int, lease: float, *, now: float) -> None:
        await self._transact(conversations.renewed(conversation, epoch, lease, now))

    async def release(self, conversation: str, epoch: int, *, now: float) -> None:
        await self._transact(conversations.released(conversation, epoch, now))

    async def save(self, conversation: str, epoch: int, state: Any, *, now: float) -> int:
        return await self._transact(conversations.saved(conversation, epoch, state, now))

    async def take_over(self, conversation: str, owner: str, lease: float, *, now: float) -> ConversationRecord:
        return await self._transact(conversations.taken_over(conversation, owner, lease, now))

    async def propose(
        self, claim: Claim, epoch: int, *, side_effects: bool, needs_leave: bool, now: float
    ) -> CallRecord:
        return await self._transact(calls.proposed(claim, epoch, side_effects, needs_leave, now))

    async def start(self, claim: Claim, epoch: int, *, approval: str = "", now: float) -> bool:
        return await self._transact(calls.started(claim, epoch, approval, now))

    async def finish(self, conversation: str, call_id: str, epoch: int, outcome: Outcome, *, now: float) -> CallRecord:
        return await self._transact(calls.finished(conversation, call_id, epoch, outcome, now))

    async def refuse(self, conversation: str, call_id: str, epoch: int, why: str, *, now: float) -> CallRecord:
        return await self._transact(calls.refused(conversation, call_id, epoch, why, now))

    async def mark_unknown(self, conversation: str, epoch: int, *, now: float) -> tuple[str, ...]:
        return await self._transact(conversations.marked_unknown(conversation, epoch, now))

    async def call(self, conversation: str, call_id: str) -> CallRecord | None:
        return await self._transact(calls.found_call(conversation, call_id))

    async def calls(self, conversation: str) -> tuple[CallRecord, ...]:
        return await self._transact(calls.found_calls(conversation))

    async def request_approval(
        self, conversation: str, call_id: str, epoch: int, *, expires: float, now: float
    ) -> Approval:
        # Drawn at random: whoever guesses an id could decide on it.
        work = approvals.requested(secrets.token_hex(16), conversation, call_id, epoch, expires, now)
        return await self._transact(work)

    async def approve(self, approval: str, by: str, arguments: bytes | None = None, *, now: float) -> Approval:
        return await self._transact(approvals.approved(approval, by, arguments, now))

    async def deny(self, approval: str, by: str, why: str = "", *, now: float) -> Approval:
        return await self._transact(approvals.denied(approval, by, why, now))

    async def approval(self, approval: str) -> Approval | None:
        return await self._transact(approvals.found_approval(approval))

    async def approval_for(self, conversation: str, call_id: str) -> Approval | None:
        return await self._transact(approvals.found_approval_for(conversation, call_id))

    async def approvals(self, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        return await self._transact(approvals.found_approvals(state))

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
        await self._transact(responses.added(response, epoch, events, state, verdicts, now))

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
        work = responses.told(response, epoch, events, first, state, status, reach, now)
        return await self._transact(work)

    async def response(self, response: str, principal: Principal | None = None) -> ResponseRecord | None:
        return await self._transact(responses.found(response, principal))

    async def response_events(self, response: str, after: int = -1, limit: int = 1000) -> tuple[str, ...]:
        return await self._transact(responses.events_after(response, after, limit))

    async def unfinished_responses(self, limit: int, *, now: float) -> tuple[ResponseRecord, ...]:
        return await self._transact(responses.unfinished(limit, now))

    async def cancel_response(self, response: str, principal: Principal, *, now: float) -> ResponseRecord | None:
        return await self._transact(responses.asked_to_cancel(response, principal, now))

    async def delete_response(self, response: str, principal: Principal, *, now: float) -> bool:
        return await self._transact(responses.deleted(response, principal, now))

    async def approvals_of(self, tenant: str, state: ApprovalState | None = None) -> tuple[Approval, ...]:
        return await self._transact(queries.found_tenant_approvals(tenant, state))

    async def approvals_in(self, conversation: str) -> tuple[Approval, ...]:
        return await self._transact(queries.found_conversation_approvals(conversation))

    async def approved_before(self, tenant: str, moments: Sequence[tuple[str, float]]) -> tuple[Approval | None, ...]:
        return await self._transact(queries.found_approved_before(tenant, moments))

    async def conversations_of(self, tenant: str, search: Search) -> tuple[ConversationLine, ...]:
        return await self._transact(queries.found_conversations(tenant, search))

    async def note_reply(self, replied: Replied, epoch: int, *, now: float) -> None:
        await self._transact(replies.noted_reply(replied, epoch, now))

    async def selections(self, search: SelectionSearch) -> SelectionFigures:
        return await self._transact(tool_usage.found_selections(search))

    async def audit(self, conversation: str) -> tuple[AuditRecord, ...]:
        return await self._transact(_audit(conversation))

    async def verify(self, conversation: str | None = None) -> Breach | None:
        names = [conversation] if conversation is not None else await self._transact(_every_conversation())
        for name in names:
            # One transaction each: nobody waits long, and memory holds one conversation.
            breach = await self._transact(_verified(name))
            if breach is not None:
                return breach
        return None


def unkept() -> LedgerError:
    """For a value that no row can hold, so that nothing is found by it either: half a surrogate pair, or a NUL."""
    return LedgerError("no ledger keeps such a text", code="bad_name", hint="Use an id that you were given.")


def admitted() -> Work[None]:
    """Is this database of the version that we write? A new one is, from now on, and so is an earlier one."""
    versions = [row[0] for row in (yield from say("versions")).rows]
    if not versions:
        yield from say("note_version", VERSION)
    elif len(versions) == 1 and versions[0] in EARLIER:
        yield from say("raise_version", VERSION, versions[0])
    elif versions != [VERSION]:
        raise LedgerError(
            f"the ledger has version {max(versions)}, and this program writes {VERSION}", code="ledger_version"
        )


def _every_conversation() -> Work[list[str]]:
    return [row[0] for row in (yield from say("every_conversation")).rows]


def _audit(conversation: str) -> Work[tuple[AuditRecord, ...]]:
    return tuple(AuditRecord(*row) for row in (yield from say("audit", conversation)).rows)


def _verified(conversation: str) -> Work[Breach | None]:
    # Locked, so that the rows and the head are of one moment.
    yield from say("lock_conversation", conversation)
    heads = (yield from say("head", conversation)).rows
    last, head = heads[0] if heads else (0, GENESIS)
    return first_breach(conversation, (yield from _audit(conversation)), last, head)
