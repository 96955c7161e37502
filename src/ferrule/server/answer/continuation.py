"""ContinuationRunner: continues conversations after a decision, whether or not their caller is still there.

Every process has one. It looks in the ledger for decisions that nobody has acted on, takes the lease of the
conversation and resumes it with the tools, the choice and the limits of the request that began it; then it notes the
end, and sends the webhook about it. If it dies anywhere on this way, the next process begins again with what is noted:
calls run at most once, and the webhook keeps its id. See `run.ledger.continuations`.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import aclosing
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.dialects.caller_error import caller_error
from ferrule.engines.engine import Engine
from ferrule.errors import DrainingError, FencedError, FerruleError, LedgerUnavailableError
from ferrule.run.conversation import ToolConversation
from ferrule.run.ledger.continuation import DONE, FAILED, Continuation
from ferrule.run.ledger.ledger import CallState
from ferrule.run.server_questions import CONVERSATION
from ferrule.server.answer.confirming_executor import executor_of
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.result import COMPLETED, FAILURE, result_of
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.answer.stream import AnswerStream, conversation_options
from ferrule.server.answer.webhook import WebhookSender
from ferrule.server.gateway import Gateway
from ferrule.server.tools.service import UNNAMED_PREFIX, CallKey, CallRequest, ToolService

_MAX_RUNNING = 16
_MAX_ATTEMPTS = 8
_MAX_PAUSE_SECONDS = 60.0
_POLL_SECONDS = 0.5
# Another process has the conversation, the ledger is away, or this process is stopping: it stays due.
_NOT_NOW = (FencedError, LedgerUnavailableError, DrainingError)


class ContinuationRunner:
    """Open it after the gateway. Conversations that run when it is closed are left to another process."""

    def __init__(self, gateway: Gateway, service: ToolService) -> None:
        self._gateway = gateway
        self._service = service
        self._webhooks = WebhookSender(gateway)
        self._running: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._loop = asyncio.ensure_future(self._run())
        self._gateway.shutdown_callbacks.append(self.close)

    async def close(self) -> None:
        tasks = [*self._running.values(), *([self._loop] if self._loop else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def sweep(self) -> None:
        """Start what is due, and send the webhooks that are due."""
        if self._gateway.telemetry.drain.has_begun:
            return
        free = _MAX_RUNNING - len(self._running)
        for one in await self._gateway.ledger.due_continuations(free, now=time.time()) if free > 0 else ():
            if one.conversation not in self._running:
                task = asyncio.ensure_future(self._continue(one))
                self._running[one.conversation] = task
                task.add_done_callback(lambda _, id=one.conversation: self._running.pop(id, None))
        await self._webhooks.send_due()

    async def _run(self) -> None:
        while True:
            try:
                await self.sweep()
            except FerruleError as failure:
                self._gateway.telemetry.record_error(failure)
            # The sweep must outlive every mistake in it: without it, decisions are not acted on.
            except Exception as error:
                self._gateway.telemetry.handle_unexpected(error, "")
            await asyncio.sleep(_POLL_SECONDS)

    async def _continue(self, continuation: Continuation) -> None:
        ledger = self._gateway.ledger
        try:
            await self._resume(continuation)
            await self._end(continuation)
        except _NOT_NOW:
            return
        except FerruleError as failure:
            if _is_final(failure) or continuation.attempts + 1 >= _MAX_ATTEMPTS:
                await self._fail(continuation, failure)
                return
            pause = min(2.0**continuation.attempts, _MAX_PAUSE_SECONDS)
            await ledger.postpone_continuation(
                continuation, time.time() + pause, code=failure.code, message=caller_error(failure).message
            )
        # A mistake in one conversation must not stop the others, nor be tried for ever.
        except Exception as error:
            await self._fail(continuation, self._gateway.telemetry.handle_unexpected(error, continuation.conversation))

    async def _resume(self, continuation: Continuation) -> None:
        gateway, id = self._gateway, continuation.conversation
        if any(call.state is CallState.APPROVED for call in await gateway.ledger.calls(id)) and id.startswith(
            (CallKey.PREFIX, UNNAMED_PREFIX)
        ):
            await self._run_calls(continuation)
            return
        data = await gateway.ledger.request_of(id)
        record = await gateway.ledger.load(id)
        state = cast("dict[str, Any]", record.state or {}) if record is not None else {}
        if data is None or not state.get("loop"):
            # A program's own conversation, which it continues itself; or one that has ended by now.
            return
        resume_record = ResumeRecord.from_json(data)
        await self._resume_turn(id, resume_record, self._principal(continuation, resume_record.scopes))

    async def _run_calls(self, continuation: Continuation) -> None:
        """Run approved calls that came one by one, without a conversation."""
        id = continuation.conversation
        for call in await self._gateway.ledger.calls(id):
            if call.state is CallState.APPROVED:
                # The call was admitted when it came: of a caller with a token, that is all that is known.
                principal = self._principal(continuation, frozenset({call.tool}))
                if id.startswith(UNNAMED_PREFIX):
                    await self._gateway.ledger.mark_uncollected(id, call.id)
                # The only ones of these with a stored request are tasks.
                is_task = await self._gateway.ledger.stored_request(id) is not None
                request = CallRequest(
                    name=call.tool, arguments=call.arguments.decode(), principal=principal, is_task=is_task
                )
                await self._service.call(request, CallKey(id, call.id))

    async def _resume_turn(self, id: str, record: ResumeRecord, principal: Principal) -> None:
        gateway = self._gateway
        turn = Turn(
            request=record.request,
            principal=principal,
            tool_owner=ToolOwner.GATEWAY,
            tool_names=record.tool_names,
            resumes=id,
            conversation=id,
        )

        async def open_conversation(turn: Turn, engine: Engine) -> ToolConversation:
            # Nobody waits here for the next decision: it is another continuation.
            options: dict[str, Any] = {**conversation_options(gateway, turn, record.instructions), "patience": 0.0}
            executor = executor_of(gateway, record, principal)
            lease = gateway.config.lease_seconds
            return await ToolConversation.open(gateway.ledger, id, engine, executor, lease=lease, **options)

        async with aclosing(AnswerStream(gateway, turn, open_conversation)) as events:
            async for _ in events:
                pass

    def _principal(self, continuation: Continuation, recorded_scopes: frozenset[str] | None) -> Principal:
        return self._gateway.keys.current_principal(continuation.principal, continuation.tenant, recorded_scopes)

    async def _end(self, continuation: Continuation) -> None:
        ledger = self._gateway.ledger
        record = await ledger.load(continuation.conversation)
        if record is None:
            return
        # Asked as if nothing was due any more: this is what is due.
        status, _ = await result_of(self._gateway, replace(record, lease_until=0.0), time.time())
        webhook = self._webhook(continuation, status) if status in (COMPLETED, FAILURE) else ""
        await ledger.end_continuation(continuation, DONE, webhook=webhook, now=time.time())

    async def _fail(self, continuation: Continuation, failure: FerruleError) -> None:
        self._gateway.telemetry.record_error(failure)
        await self._gateway.ledger.end_continuation(
            continuation,
            FAILED,
            code=failure.code,
            # The caller reads it with the result: no engine's own words.
            message=caller_error(failure).message,
            webhook=self._webhook(continuation, FAILURE),
            now=time.time(),
        )

    def _webhook(self, continuation: Continuation, status: str) -> str:
        """Return the body of the webhook; empty if none is configured, or if it was a server's question."""
        id = continuation.conversation
        if not self._gateway.config.server.webhook_url or id.startswith(CONVERSATION):
            return ""
        data: dict[str, Any] = {
            "conversation": id,
            "tenant": continuation.tenant,
            "principal": continuation.principal,
            "status": status,
            "result": f"/v1/conversations/{id}/result",
        }
        timestamp = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        return dumps({"type": f"conversation.{status}", "timestamp": timestamp, "data": data})


def _is_final(failure: FerruleError) -> bool:
    """Whether the same would happen again: the request is wrong, or its principal may no longer make it."""
    return 400 <= failure.status < 500 and failure.status not in (408, 409, 424, 429)
