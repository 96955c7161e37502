"""ServerQuestions: what MCP servers ask people in the middle of a call, as approvals in the ledger.

A question is recorded like a call that waits for approval, so it is listed, decided, expires and is audited like one.
It belongs to the call that runs: a person who may approve in that call's tenant sees it. What the server wrote is
outside text: it stands in the arguments, under the server's name, and is shown with hidden characters written out.

A question never outlives the call that waits for it. If nobody decides in time, if the server dies, if the call is
cancelled or the gateway stops, it is withdrawn (denied, with the reason), and the server gets no answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.json_text import digest
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.visible_text import visible
from ferrule.errors import FerruleError, LedgerError
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval, ApprovalState, Ledger

_log = logging.getLogger(__name__)
_T = TypeVar("_T")

CONVERSATION = "asked-"
"""What the conversations of questions begin with. No client can name one of its own like this and `ELICITATION`."""
ELICITATION, SAMPLING = "question", "sampling"
"""The ids of the calls that stand for questions."""
WITHDRAWN_BY = "ferrule"
"""Who denied a question that was withdrawn."""
_NOT_ANSWERED = "nobody answered in time"
_CALL_ENDED = "the call that it belongs to has ended"
_STOPPING = "this process is stopping"
# The lease outlasts the wait for the decision by this much.
_MARGIN = 60.0
_MAX_BYTES = 64 * 1024
_MAX_OPEN = 16
_MAX_SERVER = 200


@dataclass(frozen=True, slots=True)
class ServerQuestion:
    """What a server asks. `kind` is `ELICITATION` or `SAMPLING`; `asks` is what a person reads after its name."""

    kind: str
    server: str
    asks: str
    arguments: Mapping[str, Any]
    callers: tuple[CallContext, ...]
    """The calls of the server that run; the question belongs to one of them."""


@dataclass(slots=True)
class ServerQuestions:
    """Asks people, and waits `patience` seconds for each decision. One for each process is enough.

    `needs_call` refuses questions while none of the server's calls runs: in a gateway nobody could say whose they are.
    `is_ending` says whether the process stops, which ends all questions.
    """

    ledger: Ledger
    patience: float = 300.0
    clock: Callable[[], float] = time.time
    poll_seconds: float = 0.2
    remind_seconds: float = 15.0
    """How often the caller gets progress while the call waits: silence would end an answer."""
    needs_call: bool = False
    is_ending: Callable[[], bool] = lambda: False
    _open: dict[str, int] = field(default_factory=dict[str, int])
    _running: set[asyncio.Future[Any]] = field(default_factory=set[Any])
    _is_closed: bool = False

    async def close(self) -> None:
        """Withdraw all questions, and wait until the ledger has it."""
        self._is_closed = True
        while self._running:
            await asyncio.gather(*self._running, return_exceptions=True)

    @asynccontextmanager
    async def ask(self, question: ServerQuestion) -> AsyncGenerator[Approval | None]:
        """Yield the decision, or None if there is none. What it allows is done inside of the block: see `finish`."""
        principal = self._principal(question)
        if principal is None or not self._admit(question):
            yield None
            return
        self._open[question.server] = self._open.get(question.server, 0) + 1
        pending = _PendingQuestion(self, question, principal)
        waiting = self._start(pending.wait())
        try:
            yield await asyncio.shield(waiting)
        finally:
            self._open[question.server] -= 1
            waiting.cancel()
            # In a task of its own: whatever cancels this one, the ledger learns that the question is over.
            await asyncio.shield(self._start(pending.end(waiting)))

    async def finish(self, approval: Approval, work: Awaitable[Outcome]) -> Outcome:
        """Do what was approved, once, and record its outcome."""
        record = await self.ledger.load(approval.conversation)
        epoch = record.epoch if record else 0
        principal = (approval.tenant, approval.principal)
        claim = Claim(
            approval.conversation,
            approval.call_id,
            *principal,
            approval.tool,
            approval.tool_fingerprint,
            approval.arguments,
        )
        await self.ledger.start(claim, epoch, approval=approval.id, now=self.clock())
        try:
            outcome = await work
        except FerruleError as failure:
            failed = Answered(failure.message, is_error=True, code=failure.code)
            await self.ledger.finish(approval.conversation, approval.call_id, epoch, failed, now=self.clock())
            raise
        await self.ledger.finish(approval.conversation, approval.call_id, epoch, outcome, now=self.clock())
        return outcome

    @property
    def is_over(self) -> bool:
        """Whether no question may wait any longer, because the process stops."""
        return self._is_closed or self.is_ending()

    def _principal(self, question: ServerQuestion) -> Principal | None:
        """Who is asked: the caller. None if the callers are of several tenants, and one would read another's data."""
        principals = {caller.principal for caller in question.callers}
        tenants = {principal.tenant for principal in principals}
        if len(principals) == 1:
            return principals.pop()
        if len(tenants) == 1:
            return Principal("several callers", tenants.pop())
        if not tenants and not self.needs_call:
            return Principal()
        reason = "while calls of several tenants ran" if tenants else "while none of its calls ran"
        _log.warning("%r asked something %s, so nobody was asked", question.server, reason)
        return None

    def _admit(self, question: ServerQuestion) -> bool:
        if self.is_over:
            return False
        size = len(canonical_bytes(dict(question.arguments)))
        if size > _MAX_BYTES:
            _log.warning("%r asked a question of %d bytes, which is too large; nobody was asked", question.server, size)
            return False
        if self._open.get(question.server, 0) >= _MAX_OPEN:
            _log.warning("%r asks more than %d questions at once; nobody was asked", question.server, _MAX_OPEN)
            return False
        return True

    def _start(self, work: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start work that `close` waits for."""
        task = asyncio.ensure_future(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task


@dataclass(slots=True)
class _PendingQuestion:
    """One question in the ledger, from its first row to its end."""

    desk: ServerQuestions
    question: ServerQuestion
    principal: Principal
    conversation: str = field(default_factory=lambda: f"{CONVERSATION}{uuid.uuid4().hex}")
    _epoch: int | None = None

    async def wait(self) -> Approval | None:
        desk, ledger, now = self.desk, self.desk.ledger, self.desk.clock()
        record = await ledger.open(
            self.conversation, self.principal, self.conversation, desk.patience + _MARGIN, now=now
        )
        self._epoch = record.epoch
        claim = self._claim()
        await ledger.propose(claim, record.epoch, side_effects=False, needs_approval=True, now=now)
        expires = now + desk.patience
        approval = await ledger.request_approval(
            self.conversation, claim.call_id, record.epoch, expires=expires, now=now
        )
        decided = await self._wait_for_decision(approval, expires)
        if decided.state is ApprovalState.PENDING:
            self._report(f"{visible(self.question.server)} got no answer: nobody gave one in time")
            return None
        return decided

    async def _wait_for_decision(self, approval: Approval, until: float) -> Approval:
        desk, next_report = self.desk, -1.0
        waiting = f"{visible(self.question.server)} asks {self.question.asks}; it waits for approval {approval.id}"
        while approval.state is ApprovalState.PENDING and desk.clock() < until and not desk.is_over:
            if time.monotonic() >= next_report:
                self._report(waiting, approval.id)
                next_report = time.monotonic() + desk.remind_seconds
            await asyncio.sleep(desk.poll_seconds)
            # A database that is away for a moment is no answer.
            with suppress(LedgerError):
                approval = await desk.ledger.approval(approval.id) or approval
        return approval

    async def end(self, waiting: asyncio.Task[Any]) -> None:
        """Withdraw the question if it was not decided, and release its conversation."""
        await asyncio.gather(waiting, return_exceptions=True)
        if self._epoch is None:
            return
        ledger, now = self.desk.ledger, self.desk.clock()
        # The lease ends by itself if the ledger is away, and the question expires.
        with suppress(LedgerError):
            # A wait that was cancelled may not have learned what it wrote.
            approval = await ledger.approval_for(self.conversation, self.question.kind)
            if approval is not None and approval.state is ApprovalState.PENDING:
                await self._withdraw(approval, now)
            await ledger.release(self.conversation, self._epoch, now=now)

    async def _withdraw(self, approval: Approval, now: float) -> None:
        is_expired = now >= approval.expires_at
        why = _STOPPING if self.desk.is_over else _NOT_ANSWERED if is_expired else _CALL_ENDED
        _log.info("a question of %r was withdrawn: %s", self.question.server, why)
        # It may be decided, or expire, in this moment.
        with suppress(LedgerError):
            if not is_expired:
                await self.desk.ledger.deny(approval.id, WITHDRAWN_BY, why, now=now)

    def _claim(self) -> Claim:
        question = self.question
        server = question.server[:_MAX_SERVER]
        return Claim(
            self.conversation,
            question.kind,
            self.principal.tenant,
            self.principal.name,
            f"{server} asks{'' if question.kind == ELICITATION else ' a model'}",
            digest(question.arguments.get("schema", {})),
            canonical_bytes({"server": question.server, **question.arguments}),
        )

    def _report(self, message: str, approval: str = "") -> None:
        for caller in self.question.callers:
            caller.on_progress(Progress(0, None, message, approval))


def is_question(conversation: str, call_id: str) -> bool:
    """Whether an approval is for a question of a server, and not for a call."""
    return conversation.startswith(CONVERSATION) and call_id in (ELICITATION, SAMPLING)
