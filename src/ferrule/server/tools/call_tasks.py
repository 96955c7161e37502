"""CallTasks: calls that their caller does not wait for. It asks for their state later, from any process.

A task is a call of the `ToolService` and nothing more. Its id is the conversation of the call in the ledger, and the
request that began it is stored there, so every process of the ledger finds the task and what became of it. The process
that is asked for a task at which none works takes it up: the rules of calls decide what that means. An effect that had
begun is not begun again, a call that waits for approval waits on, and one that had not begun begins.

In memory there is only what runs now, and the refusals that the ledger does not keep.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, cast

from ferrule.core.call import FunctionCall, ToolCall, ToolResult
from ferrule.core.context import Principal, Progress
from ferrule.core.json_text import dumps, loads
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.dialects.caller_error import caller_error
from ferrule.errors import (
    ApprovalError,
    AuthorityError,
    DefinitionError,
    DrainingError,
    FencedError,
    FerruleError,
    LedgerError,
    TooManyError,
)
from ferrule.run.ledger.claim import sha256
from ferrule.run.ledger.continuation import FAILED as CONTINUATION_FAILED
from ferrule.run.ledger.ledger import Approval, ApprovalState, CallRecord, CallState, Ledger, StoredRequest
from ferrule.run.ledger.search import ConversationQuery
from ferrule.run.ledger.stored_requests import KEY_SECONDS
from ferrule.run.machine import denial_outcome
from ferrule.run.server_questions import WITHDRAWN_BY
from ferrule.server.gateway import Gateway
from ferrule.server.tools.service import (
    CANCELLED_BY_CALLER,
    CallKey,
    CallRequest,
    CompletedCall,
    PendingCall,
    ToolService,
)
from ferrule.sources.mcp.tasks import CANCELLED, COMPLETED, FAILED, WORKING

API = "mcp/tasks"
"""Of the stored requests that began a task."""
LONGEST_TTL, SHORTEST_TTL = KEY_SECONDS, 60.0
"""How many seconds after its beginning a task can be asked for."""
MAX_RUNNING = 32
"""How many tasks of one principal run in one process. Those that wait for approval do not run."""
PATIENCE_SECONDS = 0.5
"""How long a call may take before it becomes a task, where that is the server's choice."""
_MAX_REFUSALS = 256
_MAX_MESSAGE = 500
_PAGE = 100
_WAIT_SECONDS = 0.5
_WITHDRAWN = "its caller cancelled it"
_ID = re.compile(f"{CallKey.PREFIX}[0-9a-f]{{40}}")
_OVER = frozenset({CallState.DONE, CallState.FAILED, CallState.DENIED, CallState.REFUSED})
_LOST = Unknown("its outcome was not recorded", code="owner_lost")


@dataclass(frozen=True, slots=True)
class CallTask:
    """A task as it is now. `approval` is the one that it waits for; `result` is that of a call that has ended."""

    id: str
    status: str
    created_at: float
    updated_at: float
    ttl: float
    message: str = ""
    approval: Approval | None = None
    result: ToolResult | None = None
    code: str = ""

    @property
    def has_ended(self) -> bool:
        return self.status in (COMPLETED, FAILED, CANCELLED)


@dataclass(slots=True)
class _Run:
    """A call that this process runs."""

    request: CallRequest
    message: str = ""
    updated_at: float = 0.0
    task: asyncio.Task[CompletedCall | PendingCall] | None = None

    def note(self, progress: Progress) -> None:
        self.message, self.updated_at = progress.message[:_MAX_MESSAGE], time.time()
        self.request.on_progress(progress)


@dataclass(frozen=True, slots=True)
class _StoredCall:
    """What is stored of the request that began a task."""

    name: str
    arguments: str
    call_id: str
    hops: int
    ttl: float
    begun_at: float

    @staticmethod
    def of(stored: StoredRequest) -> _StoredCall | None:
        match loads(stored.request_text):
            case {
                "name": str(name),
                "arguments": str(arguments),
                "call_id": str(call_id),
                "hops": int(hops),
                "ttl": int() | float() as ttl,
            }:
                return _StoredCall(name, arguments, call_id, hops, float(ttl), stored.begun_at)
            case _:
                # The principal was deleted.
                return None

    def request(self, principal: Principal) -> CallRequest:
        return CallRequest(
            name=self.name,
            arguments=self.arguments,
            principal=principal,
            call_id=self.call_id,
            hops=self.hops,
            is_task=True,
        )


@dataclass(slots=True)
class CallTasks:
    """The tasks of a gateway, as one process sees them."""

    gateway: Gateway
    service: ToolService
    _runs: dict[str, _Run] = field(default_factory=dict[str, _Run])
    _refusals: OrderedDict[str, CompletedCall | FerruleError] = field(
        default_factory=OrderedDict[str, "CompletedCall | FerruleError"]
    )
    """What became of calls that never ran, and of which the ledger therefore knows nothing."""

    def __post_init__(self) -> None:
        self.gateway.shutdown_callbacks.append(self.close)

    async def close(self) -> None:
        """Stop what only reads; the service completes what has side effects. Another process takes the rest up."""
        running = [run.task for run in self._runs.values() if run.task is not None]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def has_room(self, principal: Principal) -> bool:
        whose = (principal.tenant, principal.name)
        own = sum((run.request.principal.tenant, run.request.principal.name) == whose for run in self._runs.values())
        return own < MAX_RUNNING

    async def begin(self, request: CallRequest, ttl: float) -> CallTask:
        """Begin a task. With the call id of an earlier one, that one is returned. Raises if the call may not run."""
        await self.service.validate(request)
        request = _with_id(request)
        key = _key_of(request)
        if await self._is_stored(request.principal, key.conversation):
            await self._store(request, key.conversation, ttl)
        else:
            if not self.has_room(request.principal):
                raise TooManyError(
                    f"{MAX_RUNNING} tasks of {request.principal.name} run already", hint="Wait for one, or cancel one."
                )
            run = self._runs.setdefault(key.conversation, _Run(request))
            try:
                await self._store(request, key.conversation, ttl)
            # Whatever it is, also a cancellation: a run that never starts must not count as running.
            except BaseException:
                self._drop(key.conversation, run)
                raise
            if run.task is None:
                self._start(run, key)
        return await self._require(request.principal, key.conversation)

    async def call(self, request: CallRequest) -> CompletedCall | CallTask:
        """Run a call. One that takes long, or that waits for approval, becomes a task."""
        is_named = bool(request.call_id)
        request = _with_id(request)
        key = _key_of(request)
        if is_named and await self._is_stored(request.principal, key.conversation):
            await self._store(request, key.conversation, LONGEST_TTL)
            return await self._require(request.principal, key.conversation)
        run = self._runs.get(key.conversation)
        if run is None:
            run = self._start(self._runs.setdefault(key.conversation, _Run(request)), key)
        assert run.task is not None
        try:
            await asyncio.wait((run.task,), timeout=PATIENCE_SECONDS)
        except asyncio.CancelledError:
            run.task.cancel()
            raise
        if run.task.done():
            call = run.task.result()
            if isinstance(call, CompletedCall):
                return call
        await self._store(request, key.conversation, LONGEST_TTL)
        return await self._require(request.principal, key.conversation)

    async def find(self, principal: Principal, id: str, *, resumes: bool = True) -> CallTask | None:
        """Return a task of a principal; None if it has no such task. One that nobody works at is taken up."""
        ledger = await self.gateway.ledger.of_tenant(principal.tenant)
        stored = await _stored_call(ledger, principal, id)
        if stored is None or time.time() > stored.begun_at + stored.ttl:
            return None
        try:
            self.service.tool(stored.name, principal)
        except AuthorityError:
            # Another key of the same principal.
            return None
        except DefinitionError:
            # The tool is gone. What became of the call is not.
            pass
        state = await self._state(ledger, id, stored, principal)
        if state.task.approval is not None and await ledger.is_cancel_requested(id):
            # It was cancelled before it asked for approval.
            await _withdraw(ledger, state.task.approval)
            state = await self._state(ledger, id, stored, principal)
        if resumes and state.is_idle and self.has_room(principal) and id not in self._runs:
            request = stored.request(principal)
            self._start(self._runs.setdefault(id, _Run(request)), CallKey(id, stored.call_id))
        return state.task

    async def wait(self, principal: Principal, id: str, seconds: float | None = None) -> CallTask | None:
        """Return a task when it has ended, or after so many seconds; None if there is none, or none any more."""
        give_up = None if seconds is None else time.monotonic() + seconds
        while True:
            task = await self.find(principal, id)
            if task is None or task.has_ended or (give_up is not None and time.monotonic() > give_up):
                return task
            run = self._runs.get(id)
            if run is not None and run.task is not None:
                await asyncio.wait((run.task,), timeout=_WAIT_SECONDS)
            else:
                await asyncio.sleep(_WAIT_SECONDS)

    async def cancel(self, principal: Principal, id: str) -> CallTask | None:
        """Ask for a task's end, in whichever process it runs. Returns it as it was; None if there is no such task."""
        task = await self.find(principal, id, resumes=False)
        if task is None or task.has_ended:
            return task
        ledger = await self.gateway.ledger.of_tenant(principal.tenant)
        await ledger.request_cancel(id)
        if task.approval is not None:
            await _withdraw(ledger, task.approval)
        return task

    async def list(self, principal: Principal, after: str) -> tuple[list[CallTask], str]:
        """Return some of a principal's tasks, newest first, and after which id the next ones come; "" at the end."""
        ledger = await self.gateway.ledger.of_tenant(principal.tenant)
        query = ConversationQuery(principal=principal.name, after=after, limit=_PAGE)
        rows = await ledger.conversations_of(principal.tenant, query)
        found = [await self.find(principal, row.id, resumes=False) for row in rows if _ID.fullmatch(row.id)]
        is_last = len(rows) < _PAGE or rows[-1].opened_at < time.time() - LONGEST_TTL
        return [task for task in found if task is not None], "" if is_last else rows[-1].id

    async def _require(self, principal: Principal, id: str) -> CallTask:
        task = await self.find(principal, id)
        if task is None:
            raise LedgerError("the call's id belongs to an older task", code="call_id_taken", hint="Use a new id.")
        return task

    async def _is_stored(self, principal: Principal, id: str) -> bool:
        ledger = await self.gateway.ledger.of_tenant(principal.tenant)
        return await _stored_call(ledger, principal, id) is not None

    async def _store(self, request: CallRequest, id: str, ttl: float) -> None:
        """Store what every process needs to find the task, and to take it up.

        Without effect if it is stored. Raises if the task of this id is another call.
        """
        principal = request.principal
        values: dict[str, Any] = {"name": request.name, "arguments": request.arguments}
        body = sha256(dumps(values).encode("utf-8", "surrogatepass"))
        values |= {"call_id": request.call_id, "hops": request.hops, "ttl": ttl}
        # The id is the key too, so that one call id has one task, however often it is sent at the same time.
        stored = StoredRequest(id, principal.tenant, principal.name, API, body, id, 0.0, dumps(values))
        ledger = await self.gateway.ledger.of_tenant(principal.tenant)
        await ledger.claim_request(stored, is_retry=False, now=time.time())

    def _start(self, run: _Run, key: CallKey) -> _Run:
        self._refusals.pop(key.conversation, None)
        request = replace(run.request, on_progress=run.note, is_task=True)
        run.task = asyncio.ensure_future(self._run(request, key))
        run.task.add_done_callback(lambda task: self._end(key.conversation, run, task))
        return run

    async def _run(self, request: CallRequest, key: CallKey) -> CompletedCall | PendingCall:
        call = await self.service.call(request, key)
        if isinstance(call, CompletedCall) and isinstance(call.outcome, NotDelivered):
            ledger = await self.gateway.ledger.of_tenant(request.principal.tenant)
            if not await ledger.calls(key.conversation):
                self._keep(key.conversation, call)
        return call

    def _end(self, id: str, run: _Run, task: asyncio.Task[Any]) -> None:
        self._drop(id, run)
        error = None if task.cancelled() else task.exception()
        if error is None:
            return
        if not isinstance(error, FerruleError):
            error = self.gateway.telemetry.handle_unexpected(cast("Exception", error), "")
        # What may succeed later, or is done by another process now, is tried again when it is asked for.
        is_for_now = error.retryable or isinstance(error, FencedError | DrainingError) or error.code == "call_running"
        if not is_for_now:
            self._keep(id, error)

    def _keep(self, id: str, refusal: CompletedCall | FerruleError) -> None:
        self._refusals[id] = refusal
        while len(self._refusals) > _MAX_REFUSALS:
            self._refusals.popitem(last=False)

    def _drop(self, id: str, run: _Run) -> None:
        if self._runs.get(id) is run:
            del self._runs[id]

    async def _state(self, ledger: Ledger, id: str, stored: _StoredCall, principal: Principal) -> _State:
        run, now = self._runs.get(id), time.time()
        record = await ledger.load(id)
        changed_at = max(stored.begun_at, record.changed_at if record is not None else 0.0)
        task = CallTask(id, WORKING, stored.begun_at, changed_at, stored.ttl)
        calls = await ledger.calls(id)
        last = calls[-1] if calls else None
        if last is not None and _is_over(last):
            outcome, is_withdrawn = await _outcome_of(ledger, last)
            return self._ended(task, principal, last.tool, outcome, is_cancelled=is_withdrawn)
        refusal = self._refusals.get(id)
        if isinstance(refusal, CompletedCall):
            return self._ended(task, principal, refusal.call.name, refusal.outcome)
        if refusal is not None:
            shown = caller_error(refusal)
            return _State(replace(task, status=FAILED, message=shown.message, code=shown.code))
        if last is not None and last.state is CallState.AWAITING_APPROVAL:
            approval = await ledger.approval_for(id, last.id)
            if approval is not None and approval.state is ApprovalState.PENDING:
                return self._waiting(task, principal, approval, now)
        continuation = await ledger.continuation(id)
        if continuation is not None and continuation.status == CONTINUATION_FAILED:
            message, code = continuation.error_message, continuation.error_code
            return _State(replace(task, status=FAILED, message=message, code=code))
        if run is not None and run.updated_at:
            return _State(replace(task, message=run.message, updated_at=max(changed_at, run.updated_at)))
        is_held = record is not None and record.held_until > now
        return _State(task, is_idle=run is None and not is_held)

    def _waiting(self, task: CallTask, principal: Principal, approval: Approval, now: float) -> _State:
        if approval.expires_at <= now:
            expired = Answered(
                "requires_confirmation: nobody decided in time. Nothing was done.", True, "approval_expired"
            )
            return self._ended(task, principal, approval.tool, expired)
        message = f"{approval.tool} waits for a person's approval ({approval.id})"
        # It moves each minute: the task is alive, and clients that wait for a sign of life must not end it.
        moved_at = max(task.updated_at, now - now % 60)
        return _State(replace(task, message=message, approval=approval, updated_at=moved_at))

    def _ended(
        self, task: CallTask, principal: Principal, tool: str, outcome: Outcome, *, is_cancelled: bool = False
    ) -> _State:
        executor = self.gateway.tool_catalog.executor(principal, ())
        result = executor.result_of(ToolCall(task.id, FunctionCall(tool, "{}")), outcome)
        code = outcome.code if result.is_error else ""
        is_cancelled = is_cancelled or code == CANCELLED_BY_CALLER
        status, message = (CANCELLED, _WITHDRAWN) if is_cancelled else (COMPLETED, "")
        return _State(replace(task, status=status, message=message, result=result, code=code))


@dataclass(frozen=True, slots=True)
class _State:
    """A task, and whether nobody works at it although there is something to do."""

    task: CallTask
    is_idle: bool = False


def bounded_ttl(seconds: float | None) -> float:
    """Return for how long a task can be asked for, of what its client wants."""
    return LONGEST_TTL if seconds is None else min(max(seconds, SHORTEST_TTL), LONGEST_TTL)


async def _stored_call(ledger: Ledger, principal: Principal, id: str) -> _StoredCall | None:
    stored = await ledger.stored_request(id) if _ID.fullmatch(id) else None
    if stored is None or (stored.tenant, stored.principal, stored.api) != (principal.tenant, principal.name, API):
        return None
    return _StoredCall.of(stored)


async def _withdraw(ledger: Ledger, approval: Approval) -> None:
    # Somebody may have decided meanwhile. If the call runs now, it sees that it is to end.
    with suppress(ApprovalError):
        await ledger.deny(approval.id, WITHDRAWN_BY, _WITHDRAWN, now=time.time())


async def _outcome_of(ledger: Ledger, call: CallRecord) -> tuple[Outcome, bool]:
    """Return the outcome of a call that is over, and whether its caller had withdrawn its request for approval."""
    if call.state is not CallState.DENIED:
        return call.outcome or (_LOST if call.state is CallState.UNKNOWN else _refused(call)), False
    approval = await ledger.approval_for(call.conversation, call.id)
    if approval is None:
        return denial_outcome(""), False
    return denial_outcome(approval.why), (approval.decided_by, approval.why) == (WITHDRAWN_BY, _WITHDRAWN)


def _refused(call: CallRecord) -> Answered:
    return Answered("refused: it may not run", is_error=True, code=call.state.value)


def _is_over(call: CallRecord) -> bool:
    # What only reads and was lost is run again.
    return call.state in _OVER or (call.state is CallState.UNKNOWN and call.side_effects)


def _with_id(request: CallRequest) -> CallRequest:
    return request if request.call_id else replace(request, call_id=f"call_{secrets.token_hex(16)}")


def _key_of(request: CallRequest) -> CallKey:
    return CallKey.of(request.principal, request.conversation, request.call_id)
