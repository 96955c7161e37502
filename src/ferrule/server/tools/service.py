"""Governed: one call of one of the gateway's tools, by whichever API it came. Knows no API.

It is checked and authorised, needs leave where it changes the world, is written down before it begins, and begins at
most once: the same call again finds what became of it. Each call has a conversation of its own in the ledger, named
after whose it is and what he calls it, so that calls never wait for each other and nobody can name another's.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.context import DEFAULT_HOPS, CallContext, Principal, Progress
from ferrule.core.json_text import digest, loads
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, FencedError, LedgerError, TooSlowError
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision, Entry
from ferrule.run.lease import Holding
from ferrule.run.ledger.claim import canonical_bytes, sha256
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState
from ferrule.run.ledger_journal import LedgerJournal
from ferrule.server.gateway import Gateway

_OVER = frozenset({CallState.DONE, CallState.FAILED, CallState.REFUSED})
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Where a call stands in the ledger."""

    conversation: str
    call_id: str

    @staticmethod
    def of(principal: Principal, conversation: str, call_id: str) -> Place:
        """The place of a call that its caller has named; his own, whatever others name theirs."""
        named = [principal.tenant, principal.name, conversation, call_id]
        return Place(f"call_{digest(named)[:40]}", call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What is to be called. `arguments` are JSON text; `conversation` is the caller's word for what it belongs to."""

    name: str
    arguments: str
    principal: Principal
    call_id: str = ""
    conversation: str = ""
    deadline: float | None = None
    hops: int = DEFAULT_HOPS
    tell: Callable[[Progress], None] = field(default=lambda progress: None, compare=False)


@dataclass(frozen=True, slots=True)
class Settled:
    """The call has an end: what it came to, and how that reads."""

    call: ToolCall
    outcome: Outcome
    result: ToolResult


@dataclass(frozen=True, slots=True)
class Waiting:
    """The call waits for leave."""

    call: ToolCall
    approval: Approval


@dataclass(frozen=True, slots=True)
class _Case:
    """A call that was checked, with everything that running it takes."""

    call: ToolCall
    tool: ToolDefinition
    place: Place
    executor: ToolExecutor
    context: CallContext
    within: str

    @property
    def needs_leave(self) -> bool:
        return self.executor.requires_confirmation(self.call)

    @property
    def entry(self) -> Entry:
        return Entry(self.place.call_id, self.call, self.tool, self.needs_leave)

    def settled(self, outcome: Outcome) -> Settled:
        return Settled(self.call, outcome, self.executor.result_of(self.call, outcome))


@dataclass(slots=True)
class Governed:
    """`clock` is in Unix seconds."""

    gateway: Gateway
    clock: Callable[[], float] = time.time
    _under_way: set[asyncio.Task[Settled | Waiting]] = field(default_factory=set[Any], repr=False)

    def __post_init__(self) -> None:
        self.gateway.at_end.append(self.close)

    async def close(self) -> None:
        """Gives what changes the world the time to end that a stopping gateway gives to answers."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=self.gateway.config.listening.drain_seconds)
        for work in self._under_way:
            work.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)

    def tool(self, name: str, principal: Principal) -> ToolDefinition:
        """The tool of that name, or bound to the capability of that name, that this principal may use.

        One that he may not use is refused like one that is not there: he learns nothing about either.
        """
        tool = self.gateway.toolbox.tools.get(name) or self._bound_to(name)
        principal.require((tool.bound_capability or tool.name) if tool else name)
        if tool is None:
            raise DefinitionError(f"unknown tool {name[:80]!r}", hint="See /v1/tools for what there is.")
        return tool

    async def call(self, wanted: Wanted, place: Place | None = None) -> Settled | Waiting:
        """What became of a call, or that it waits. Raises for one that may not run at all."""
        case = await self._checked(wanted, place)
        if wanted.deadline is not None and wanted.deadline <= self.clock():
            raise TooSlowError("the deadline has passed; nothing was begun", code="timeout", hint="Allow more time.")
        known = await self._known(case)
        if known is not None:
            return known
        work = asyncio.ensure_future(self._taken(case))
        if not case.tool.side_effects:
            return await work
        # Whoever asked may leave. What changes the world is brought to its end, so that asking again tells of it.
        self._under_way.add(work)
        work.add_done_callback(self._under_way.discard)
        return await asyncio.shield(work)

    async def _checked(self, wanted: Wanted, place: Place | None) -> _Case:
        context = CallContext(principal=wanted.principal, hops=wanted.hops, deadline=wanted.deadline).deeper()
        tool = self.tool(wanted.name, wanted.principal)
        executor = self.gateway.toolbox.executor(wanted.principal, (tool.name,))
        await executor.refresh()
        id = place.call_id if place else wanted.call_id or f"call_{secrets.token_hex(16)}"
        where = place or Place.of(wanted.principal, wanted.conversation, id)
        call = ToolCall(id, FunctionCall(tool.name, wanted.arguments))
        fault = executor.fault_of(call, context)
        if isinstance(fault, Answered):
            raise DefinitionError(str(fault.content), hint="See the tool's schema in /v1/tools.")
        told = wanted.conversation or where.conversation
        context = replace(context, conversation=told, call_id=f"{where.conversation}/{id}", tell=wanted.tell)
        return _Case(call, tool, where, executor, context, wanted.conversation)

    async def _known(self, case: _Case) -> Settled | Waiting | None:
        """What is written of a call that was asked for before, where that is all that there is to say."""
        ledger = self.gateway.ledger
        record = await ledger.call(case.place.conversation, case.place.call_id)
        if record is None:
            return None
        await self._require_same(case, record)
        is_lost = record.state is CallState.UNKNOWN and record.side_effects
        if (record.state in _OVER or is_lost) and record.outcome is not None:
            return case.settled(record.outcome)
        approval = await ledger.approval_for(case.place.conversation, case.place.call_id)
        if approval is None:
            return None
        if record.state is CallState.DENIED:
            return case.settled(_denied(approval.why))
        is_open = approval.state is ApprovalState.PENDING and approval.expires_at > self.clock()
        waits_here = self.gateway.config.approval_patience_seconds > 0
        return Waiting(case.call, approval) if is_open and not waits_here else None

    async def _require_same(self, case: _Case, record: CallRecord) -> None:
        """A call's id stands for one call only; one whose arguments a person has changed is still the same."""
        asked = {"tool": case.tool.name, "arguments_sha256": sha256(canonical_bytes(case.call.arguments))}
        if asked == {"tool": record.tool, "arguments_sha256": record.arguments_sha256}:
            return
        for row in await self.gateway.ledger.audit(case.place.conversation):
            if row.call_id == record.id and row.kind == CallState.PROPOSED.value:
                detail = cast("dict[str, Any]", loads(row.detail))
                if asked == {key: detail.get(key) for key in asked}:
                    return
        raise LedgerError(
            f"another call has the id {record.id[:80]!r}",
            code="call_id_taken",
            hint="Give every call an id of its own.",
        )

    async def _taken(self, case: _Case) -> Settled | Waiting:
        config = self.gateway.config
        try:
            holding = await Holding.take(
                self.gateway.ledger, case.place.conversation, case.context.principal, config.lease_seconds, self.clock
            )
        except FencedError as held:
            raise LedgerError(
                "this call is under way", code="call_running", hint="Ask again under the same call_id for its answer."
            ) from held
        try:
            async with holding:
                if case.within and holding.record.state is None:
                    await holding.save({"version": _VERSION, "messages": [], "loop": None, "within": case.within})
                return await self._held(case, holding.journal(lambda state: state, config.approval_patience_seconds))
        finally:
            # Somebody else may have it by now, and then it is his to release.
            with suppress(FencedError):
                await holding.release()

    async def _held(self, case: _Case, journal: LedgerJournal) -> Settled | Waiting:
        outcome = await journal.known(case.place.call_id)
        if outcome is not None:
            return case.settled(outcome)
        if case.needs_leave:
            leave = await journal.ask(case.entry)
            decision = leave.decision or await journal.awaited(leave.approval)
            if decision is None:
                approval = await self.gateway.ledger.approval(leave.approval)
                assert approval is not None
                return Waiting(case.call, approval)
            if not decision.is_allowed:
                return case.settled(_denied(decision.why))
            case = _decided(case, decision)
            # A person wrote these arguments, and they are checked like a model's.
            fault = case.executor.fault_of(case.call, case.context)
            if fault is not None:
                await journal.refuse(case.place.call_id, str(case.executor.result_of(case.call, fault).content))
                return case.settled(fault)
        outcome = await journal.run(case.entry, lambda: case.executor.run(case.call, case.context))
        return case.settled(outcome)

    def _bound_to(self, name: str) -> ToolDefinition | None:
        tools = self.gateway.toolbox.tools.values()
        bound = [tool for tool in tools if tool.bound_capability and name in _spelled(tool)]
        return bound[0] if len(bound) == 1 else None


def _spelled(tool: ToolDefinition) -> tuple[str, str]:
    return tool.bound_capability or "", f"{tool.bound_capability}@{tool.bound_version}"


def _decided(case: _Case, decision: Decision) -> _Case:
    if decision.arguments is None:
        return case
    return replace(case, call=replace(case.call, function=FunctionCall(case.call.name, decision.arguments)))


def _denied(why: str) -> Answered:
    return Answered(f"denied: {why}" if why else "denied: a person said no", is_error=True, code="denied")
