"""ResponseStore: starts stored responses, streams their events, and takes over those whose process has died.

Every process has one. The lease on a response's conversation in the ledger decides which process runs it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.json_text import read_json
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.errors import EngineUnavailableError, FencedError, FerruleError, TooManyError
from ferrule.run.lease import Lease
from ferrule.run.ledger.claim import encode_json
from ferrule.run.ledger.ledger import ApprovalDecision, ResponseRecord, ResponseStatus
from ferrule.server.answer.plan import ToolOwner
from ferrule.server.answer.resume_record import ResumeRecord
from ferrule.server.apis.responses.encoder import ResponseEventLog, event_text
from ferrule.server.apis.responses.labels import Labels, hosted_tools_of
from ferrule.server.apis.responses.loop_events import LoopEventEncoder
from ferrule.server.apis.responses.run import ResponseRun, completed_parts
from ferrule.server.gateway import Gateway

_SWEEP_SIZE = 16
"""How many responses one sweep takes over at most."""
_MAX_OWNERS = 10
"""A response that has outlived so many processes probably makes them crash."""
_PAGE = 1000
_EMPTY_RESUME_RECORD = ResumeRecord(request=ToolCallRequest(messages=()), tool_owner=ToolOwner.NOBODY)
"""The record of a response that cannot continue."""
_POLL, _SLOWEST_POLL = 0.05, 1.0


class ResponseStore:
    """Open it after the gateway and close it before. Running responses are then left to another process."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.labels = Labels(gateway.tool_catalog, lambda: gateway.config.hosted)
        self._runs: dict[str, ResponseRun] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeper: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._sweeper = asyncio.ensure_future(self._sweep())
        self._sweeper.add_done_callback(self._restart_sweep)

    async def close(self) -> None:
        tasks = [*self._tasks, *([self._sweeper] if self._sweeper else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run(self, response: str) -> ResponseRun | None:
        """Return the run of a response, if this process runs it."""
        return self._runs.get(response)

    def check_capacity(self, principal: Principal) -> None:
        """Raise if too many responses run. A background response has no connection that would count for its key."""
        own_runs = [run for run in self._runs.values() if _owner_of(run.record) == (principal.name, principal.tenant)]
        width = max((key.width for key in self.gateway.keys.of_principal(principal)), default=0)
        maximum = self.gateway.config.limits.streams
        if len(self._runs) >= maximum or (width and len(own_runs) >= width):
            raise TooManyError("too many responses are running", hint="Wait until one has ended, or cancel one.")

    async def begin(
        self,
        record: ResponseRecord,
        resume_record: ResumeRecord,
        principal: Principal,
        lease: Lease,
        encoder: LoopEventEncoder,
        first_events: Sequence[dict[str, Any]],
        *,
        state: dict[str, Any] | None,
        verdicts: Sequence[ApprovalDecision] = (),
    ) -> ResponseRun:
        """Start a response. `state` is the conversation to start from; None is the leased one."""
        events = list(map(event_text, first_events))
        epoch, now = lease.record.epoch, time.time()
        await self.gateway.ledger.add_response(record, epoch, events, state, verdicts, now=now)
        if state is not None:
            lease.record = lease.record.with_state(state)
        run = self._make_run(record, resume_record, principal, lease, encoder, events)
        self._start(run)
        return run

    async def follow(self, response: str, after: int = -1) -> AsyncGenerator[tuple[str, ...]]:
        """Yield the events with a higher number than `after`, each once, until the response has ended."""
        run, pause = self.run(response), _POLL
        while True:
            run = run or self.run(response)
            is_over = run is None or run.event_log.is_over
            batch = tuple(run.event_log.events[after + 1 :]) if run else ()
            if not batch and is_over:
                # Another process runs it, or none. The record is read before the events: its end is never
                # written before them.
                record = await self.gateway.ledger.response(response)
                run = self.run(response)
                batch = await self.gateway.ledger.response_events(response, after, _PAGE)
                if not batch and (record is None or record.is_ended):
                    return
            if batch:
                after, pause = after + len(batch), _POLL
                yield batch
            elif run is not None and not run.event_log.is_over:
                await run.event_log.wait_for_events(_SLOWEST_POLL)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _SLOWEST_POLL)

    async def sweep_once(self) -> None:
        """Take over unfinished responses that no process runs."""
        if self.gateway.telemetry.drain.has_begun:
            # This process is stopping: the responses are for another one.
            return
        for record in await self.gateway.ledger.unfinished_responses(_SWEEP_SIZE, now=time.time()):
            if record.id in self._runs:
                # It is ours, and its lease is late: the run notices itself if the lease is lost.
                continue
            try:
                await self._take_over(record)
            except FencedError:
                # Another process was faster.
                continue
            except FerruleError as failure:
                # One failure must not block the other responses.
                self.gateway.telemetry.record_error(failure)

    async def all_events(self, response: str) -> list[str]:
        """Return all events so far."""
        events: list[str] = []
        while batch := await self.gateway.ledger.response_events(response, len(events) - 1, _PAGE):
            events += batch
        return events

    async def _sweep(self) -> None:
        while True:
            try:
                await self.sweep_once()
            except FerruleError as failure:
                self.gateway.telemetry.record_error(failure)
            await asyncio.sleep(self.gateway.config.lease_seconds / 2)

    async def _take_over(self, stale: ResponseRecord) -> None:
        ledger, config = self.gateway.ledger, self.gateway.config
        owner = Principal(stale.principal, stale.tenant)
        lease = await Lease.acquire(ledger, stale.conversation, owner, config.lease_seconds)
        record = await ledger.response(stale.id)
        if record is None or record.is_ended:
            await lease.release()
            return
        resume_record, principal, failure = _EMPTY_RESUME_RECORD, owner, None
        try:
            resume_record = ResumeRecord.from_json(record.request)
            principal = self.gateway.keys.current_principal(record.principal, record.tenant, resume_record.scopes)
        except FerruleError as refusal:
            failure = refusal
        if lease.record.epoch - resume_record.epoch >= _MAX_OWNERS:
            failure = EngineUnavailableError(
                f"{_MAX_OWNERS} processes have stopped while they ran this response",
                code="given_up",
                hint="Request less.",
            )
        lease.principal = principal
        events = await self.all_events(record.id)
        hosted = hosted_tools_of(resume_record, self.labels.hosts(principal))
        encoder = HostedEncoder.restore(
            parse_events(events),
            hosted,
            resume_record.client_tools,
            resume_record.late_tools,
            resume_record.request.tools,
            resume_record.deferred_tools,
        )
        run = self._make_run(
            record, resume_record, principal, lease, LoopEventEncoder(encoder, resume_record, hosted), events
        )
        if resume_record.tool_owner is not ToolOwner.GATEWAY:
            run.earlier_parts = completed_parts(encoder.response["output"], resume_record.client_tools)
        if record.is_cancelled:
            run.event_log.cancel_requested.set()
        self._start(run, failure)

    def _make_run(
        self,
        record: ResponseRecord,
        resume_record: ResumeRecord,
        principal: Principal,
        lease: Lease,
        encoder: LoopEventEncoder,
        events: Sequence[str],
    ) -> ResponseRun:
        heartbeat = self.gateway.config.lease_seconds / 3
        event_log = ResponseEventLog(self.gateway.ledger, record.id, lease.record.epoch, events, heartbeat=heartbeat)
        return ResponseRun(self.gateway, record, resume_record, principal, lease, encoder, event_log)

    def _start(self, run: ResponseRun, failure: FerruleError | None = None) -> None:
        self._runs[run.record.id] = run
        task = asyncio.ensure_future(run.run(failure))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._finish(run, done))

    def _finish(self, run: ResponseRun, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._runs.get(run.record.id) is run:
            del self._runs[run.record.id]
        self._report_unexpected(task, run.record.id)

    def _restart_sweep(self, task: asyncio.Task[None]) -> None:
        if self._report_unexpected(task, ""):
            # Restart the sweep after any error, so that responses do not wait for a new process.
            task.get_loop().call_later(self.gateway.config.lease_seconds, self.open)

    def _report_unexpected(self, task: asyncio.Task[None], about: str) -> bool:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.gateway.telemetry.handle_unexpected(error, about)
        return error is not None


def parse_events(texts: Iterable[str]) -> list[dict[str, Any]]:
    """Parse stored events."""
    return [cast("dict[str, Any]", read_json(text)) for text in texts]


def _owner_of(record: ResponseRecord) -> tuple[str, str]:
    return record.principal, record.tenant


def new_record(
    id: str, conversation: str, principal: Principal, resume_record: ResumeRecord, model: str, *, is_queued: bool
) -> ResponseRecord:
    """Return the record of a new response."""
    status = ResponseStatus.QUEUED if is_queued else ResponseStatus.IN_PROGRESS
    owner = (id, conversation, principal.tenant, principal.name)
    return ResponseRecord(*owner, status, model, time.time(), 0, False, encode_json(resume_record.as_json()))
