"""ToolService: runs one call of one of the gateway's tools. Independent of the API that the call came by.

A call is validated and authorized. A call with side effects needs approval, is recorded before it starts, and starts at
most once: the same call again returns the recorded result. Each call has its own conversation in the ledger, whose name
is derived from the caller and the caller's call id, so that calls never block each other and no caller can name another
caller's call.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.context import DEFAULT_HOPS, CallContext, Principal, Progress
from ferrule.core.json_text import digest, loads
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError, FencedError, LedgerError, LedgerUnavailableError, TooSlowError
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import CallEntry, Decision
from ferrule.run.lease import Lease
from ferrule.run.ledger.claim import canonical_bytes, sha256
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, Ledger
from ferrule.run.ledger.saved_state import StateUpdate
from ferrule.run.ledger_journal import LedgerJournal
from ferrule.server.gateway import Gateway

_ENDED = frozenset({CallState.DONE, CallState.FAILED, CallState.REFUSED})
_VERSION = 1
_CANCEL_POLL_SECONDS = 0.5
CANCELLED_BY_CALLER = "cancelled_by_caller"
"""The code of the outcome of a call that its caller cancelled while, or before, it ran."""
UNNAMED_PREFIX = "same_"
"""Of the conversation of calls whose caller gives them no id: identical ones share it."""


@dataclass(frozen=True, slots=True)
class CallKey:
    """The key of a call in the ledger."""

    conversation: str
    call_id: str

    PREFIX: ClassVar[str] = "call_"

    @staticmethod
    def of(principal: Principal, conversation: str, call_id: str) -> CallKey:
        """Return the key of a call with a caller's call id. Keys of different callers never collide."""
        parts = [principal.tenant, principal.name, conversation, call_id]
        return CallKey(f"{CallKey.PREFIX}{digest(parts)[:40]}", call_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """A call to make. `arguments` are JSON text; `conversation` is the caller's name for what the call belongs to."""

    name: str
    arguments: str
    principal: Principal
    call_id: str = ""
    conversation: str = ""
    deadline: float | None = None
    hops: int = DEFAULT_HOPS
    is_task: bool = False
    """Whether the caller can cancel it by its conversation in the ledger, from any process."""
    on_progress: Callable[[Progress], None] = field(default=lambda progress: None, compare=False)


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """A call that has ended, with its outcome and the result for the model."""

    call: ToolCall
    outcome: Outcome
    result: ToolResult

    @property
    def error_code(self) -> str:
        """The code of its outcome; empty if it succeeded."""
        return self.outcome.code if self.result.is_error else ""


@dataclass(frozen=True, slots=True)
class PendingCall:
    """A call that waits for approval."""

    call: ToolCall
    approval: Approval


@dataclass(frozen=True, slots=True)
class _PreparedCall:
    """A validated call, with everything that is needed to run it."""

    call: ToolCall
    tool: ToolDefinition
    key: CallKey
    executor: ToolExecutor
    context: CallContext
    caller_conversation: str
    is_task: bool = False

    @property
    def needs_approval(self) -> bool:
        return self.executor.requires_confirmation(self.call)

    @property
    def entry(self) -> CallEntry:
        terms = self.executor.approval_terms(self.call)
        return CallEntry(self.key.call_id, self.call, self.tool, self.needs_approval, terms)

    def complete(self, outcome: Outcome) -> CompletedCall:
        return CompletedCall(self.call, outcome, self.executor.result_of(self.call, outcome))


@dataclass(slots=True)
class ToolService:
    """`clock` is in Unix seconds."""

    gateway: Gateway
    clock: Callable[[], float] = time.time
    _tasks: set[asyncio.Task[CompletedCall | PendingCall]] = field(default_factory=set[Any], repr=False)

    def __post_init__(self) -> None:
        self.gateway.shutdown_callbacks.append(self.close)

    async def close(self) -> None:
        """Wait for running calls with side effects, at most until the drain ends."""
        if self._tasks:
            seconds = self.gateway.telemetry.drain.seconds_left(self.gateway.config.server.drain_seconds)
            await asyncio.wait(self._tasks, timeout=seconds)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def tool(self, name: str, principal: Principal) -> ToolDefinition:
        """Return the tool with this name or capability, if this principal may use it.

        Forbidden and unknown tools are refused in the same way, so that callers cannot find out which tools exist.
        """
        tool = self.gateway.tool_catalog.tools.get(name) or self._bound_to(name)
        principal.require((tool.bound_capability or tool.name) if tool else name)
        if tool is None or not principal.may_use_source(self.gateway.tool_catalog.source_of(tool.name)):
            raise DefinitionError(f"unknown tool {name[:80]!r}", hint="See /v1/tools for the available tools.")
        return tool

    async def call(self, request: CallRequest, key: CallKey | None = None) -> CompletedCall | PendingCall:
        """Run a call, or return its recorded result, or that it waits. Raises if it may not run at all."""
        prepared = await self._prepare(request, key)
        if request.deadline is not None and request.deadline <= self.clock():
            raise TooSlowError(
                "the deadline has passed; the call was not started", code="timeout", hint="Allow more time."
            )
        recorded = await self._find_recorded(prepared)
        if recorded is not None:
            return recorded
        refusal = self.gateway.tool_catalog.source.refusal(prepared.tool.name, prepared.context)
        if refusal is not None:
            # Nothing is recorded, so a tool that hangs costs the ledger nothing, and the same call may come again.
            return prepared.complete(refusal)
        task = asyncio.ensure_future(self._run_with_lease(prepared))
        if not prepared.tool.side_effects:
            return await task
        # The client may disconnect. A call with side effects still runs to its end, so that a retry finds its result.
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return await asyncio.shield(task)

    async def validate(self, request: CallRequest) -> None:
        """Raise if a call may not run at all: its tool, its arguments or its caller's rights."""
        await self._prepare(request, None)

    async def _prepare(self, request: CallRequest, key: CallKey | None) -> _PreparedCall:
        context = CallContext(
            principal=request.principal,
            hops=request.hops,
            deadline=request.deadline,
            is_stopping=self.gateway.is_stopping,
        ).nested()
        tool = self.tool(request.name, request.principal)
        executor = self.gateway.tool_catalog.executor(request.principal, (tool.name,))
        await executor.refresh()
        id = key.call_id if key else request.call_id or f"call_{secrets.token_hex(16)}"
        call_key = key or CallKey.of(request.principal, request.conversation, id)
        call = ToolCall(id, FunctionCall(tool.name, request.arguments))
        fault = executor.fault_of(call, context)
        if isinstance(fault, Answered):
            raise DefinitionError(str(fault.content), hint="See the tool's schema in /v1/tools.")
        conversation = request.conversation or call_key.conversation
        context = replace(
            context, conversation=conversation, call_id=f"{call_key.conversation}/{id}", on_progress=request.on_progress
        )
        return _PreparedCall(call, tool, call_key, executor, context, request.conversation, request.is_task)

    async def _find_recorded(self, prepared: _PreparedCall) -> CompletedCall | PendingCall | None:
        """Return the recorded state of an earlier identical call, unless it has to run (again) now."""
        # The call may be new: other databases need not be asked for it.
        ledger = await self.gateway.ledger.of_tenant(prepared.context.principal.tenant)
        record = await ledger.call(prepared.key.conversation, prepared.key.call_id)
        if record is None:
            return None
        await self._require_same(prepared, record)
        is_lost = record.state is CallState.UNKNOWN and record.side_effects
        if (record.state in _ENDED or is_lost) and record.outcome is not None:
            return prepared.complete(record.outcome)
        approval = await ledger.approval_for(prepared.key.conversation, prepared.key.call_id)
        if approval is None:
            return None
        if record.state is CallState.DENIED:
            return prepared.complete(_denial(approval.why))
        is_open = approval.state is ApprovalState.PENDING and approval.expires_at > self.clock()
        waits_here = self.gateway.config.approval_patience_seconds > 0
        return PendingCall(prepared.call, approval) if is_open and not waits_here else None

    async def _require_same(self, prepared: _PreparedCall, record: CallRecord) -> None:
        """Raise if the call id belongs to another call. Arguments that an approver changed do not make it another."""
        requested = {"tool": prepared.tool.name, "arguments_sha256": sha256(canonical_bytes(prepared.call.arguments))}
        if requested == {"tool": record.tool, "arguments_sha256": record.arguments_sha256}:
            return
        for row in await self.gateway.ledger.audit(prepared.key.conversation):
            if row.call_id == record.id and row.kind == CallState.PROPOSED.value:
                detail = cast("dict[str, Any]", loads(row.detail))
                if requested == {key: detail.get(key) for key in requested}:
                    return
        raise LedgerError(
            f"the call id {record.id[:80]!r} is used by another call",
            code="call_id_taken",
            hint="Give every call a unique id.",
        )

    async def _run_with_lease(self, prepared: _PreparedCall) -> CompletedCall | PendingCall:
        config = self.gateway.config
        try:
            lease = await Lease.acquire(
                self.gateway.ledger,
                prepared.key.conversation,
                prepared.context.principal,
                config.lease_seconds,
                self.clock,
            )
        except FencedError as conflict:
            raise LedgerError(
                "this call is running", code="call_running", hint="Send it again with the same call_id for its result."
            ) from conflict
        try:
            async with lease:
                if prepared.caller_conversation and lease.record.state is None:
                    state = {"version": _VERSION, "messages": 0, "loop": None, "within": prepared.caller_conversation}
                    await lease.save(StateUpdate(state))
                return await self._run_or_wait(prepared, lease.journal(config.approval_patience_seconds))
        finally:
            # Another process may have taken the lease over, and then releases it itself.
            with suppress(FencedError):
                await lease.release()

    async def _run_or_wait(self, prepared: _PreparedCall, journal: LedgerJournal) -> CompletedCall | PendingCall:
        outcome = await journal.find_outcome(prepared.key.call_id)
        if outcome is not None:
            return prepared.complete(outcome)
        if prepared.needs_approval:
            approval_request = await journal.request_approval(prepared.entry)
            if approval_request.decision is None:
                self.gateway.telemetry.record_approval_request(prepared.tool.name)
            decision = approval_request.decision or await journal.wait_for_decision(approval_request.approval_id)
            if decision is None:
                approval = await self.gateway.ledger.approval(approval_request.approval_id)
                assert approval is not None
                return PendingCall(prepared.call, approval)
            if not decision.is_allowed:
                return prepared.complete(_denial(decision.why))
            prepared = _with_decision(prepared, decision)
            # The approver may have changed the arguments, so they are validated like a model's.
            fault = prepared.executor.fault_of(prepared.call, prepared.context)
            if fault is not None:
                await journal.refuse(
                    prepared.key.call_id, str(prepared.executor.result_of(prepared.call, fault).content)
                )
                return prepared.complete(fault)
        outcome = await journal.run(
            prepared.entry,
            lambda task: self._run_effect(replace(prepared, context=replace(prepared.context, task=task))),
        )
        return prepared.complete(outcome)

    async def _run_effect(self, prepared: _PreparedCall) -> Outcome:
        if not prepared.is_task:
            return await prepared.executor.run(prepared.call, prepared.context)
        ledger = await self.gateway.ledger.of_tenant(prepared.context.principal.tenant)
        if not prepared.context.task.handle and await ledger.is_cancel_requested(prepared.key.conversation):
            return Answered("its caller cancelled it before it ran", is_error=True, code=CANCELLED_BY_CALLER)
        running = asyncio.ensure_future(prepared.executor.run(prepared.call, prepared.context))
        cancelling = asyncio.ensure_future(_wait_for_cancel(ledger, prepared.key.conversation))
        try:
            await asyncio.wait((running, cancelling), return_when=asyncio.FIRST_COMPLETED)
            if not running.done():
                running.cancel()
                await asyncio.wait((running,))
            return _cancelled_outcome(prepared.tool) if running.cancelled() else running.result()
        finally:
            for work in (running, cancelling):
                work.cancel()
            await asyncio.gather(running, cancelling, return_exceptions=True)

    def _bound_to(self, name: str) -> ToolDefinition | None:
        tools = self.gateway.tool_catalog.tools.values()
        bound = [tool for tool in tools if tool.bound_capability and name in _capability_names(tool)]
        return bound[0] if len(bound) == 1 else None


async def _wait_for_cancel(ledger: Ledger, conversation: str) -> None:
    """Return when the caller, in whichever process, has asked for the call's end."""
    while True:
        # While the database does not answer, the call continues.
        with suppress(LedgerUnavailableError):
            if await ledger.is_cancel_requested(conversation):
                return
        await asyncio.sleep(_CANCEL_POLL_SECONDS)


def _cancelled_outcome(tool: ToolDefinition) -> Outcome:
    if tool.side_effects:
        return Unknown("its caller cancelled it while it ran", code=CANCELLED_BY_CALLER)
    return Answered("its caller cancelled it", is_error=True, code=CANCELLED_BY_CALLER)


def _capability_names(tool: ToolDefinition) -> tuple[str, str]:
    return tool.bound_capability or "", f"{tool.bound_capability}@{tool.bound_version}"


def _with_decision(prepared: _PreparedCall, decision: Decision) -> _PreparedCall:
    if decision.arguments is None:
        return prepared
    return replace(prepared, call=replace(prepared.call, function=FunctionCall(prepared.call.name, decision.arguments)))


def _denial(why: str) -> Answered:
    return Answered(f"denied: {why}" if why else "denied by the approver", is_error=True, code="denied")
