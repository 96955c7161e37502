"""Responses: the kept responses of a gateway. Begins them, follows them, and takes up those whose owner is gone.

Every process has one. Which of them works on a response is decided in the ledger, by who holds its conversation.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace
from typing import Any, cast

from ferrule.core.context import Principal
from ferrule.core.json_text import loads
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_responses.hosted_encoder import HostedEncoder
from ferrule.errors import EngineUnavailableError, FencedError, FerruleError, TooManyError
from ferrule.run.lease import Holding
from ferrule.run.ledger.claim import kept_json
from ferrule.run.ledger.ledger import ResponseRecord, ResponseStatus, Verdict
from ferrule.server.answer.turn import ToolOwner
from ferrule.server.apis.responses.encoder import Telling
from ferrule.server.apis.responses.labels import Labels, hosted_in, principal_named
from ferrule.server.apis.responses.loop_events import Speech
from ferrule.server.apis.responses.resume_record import Plan
from ferrule.server.apis.responses.run import Run, told_parts
from ferrule.server.gateway import Gateway

_AT_ONCE = 16
"""How many responses are taken up in one sweep."""
_MOST_OWNERS = 10
"""A response that outlives so many processes is likely what they die of."""
_PAGE = 1000
_NO_PLAN = Plan(request=ToolCallRequest(messages=()), whose=ToolOwner.NOBODY)
"""Of a response that cannot be gone on with."""
_POLL, _SLOWEST_POLL = 0.05, 1.0


class Responses:
    """Open it with the gateway and close it before: what is under way is then left for another process."""

    def __init__(self, gateway: Gateway) -> None:
        self.gateway = gateway
        self.labels = Labels(gateway.toolbox)
        self._runs: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._sweeping: asyncio.Task[None] | None = None

    def open(self) -> None:
        self._sweeping = asyncio.ensure_future(self._sweep())
        self._sweeping.add_done_callback(self._swept)

    async def close(self) -> None:
        tasks = [*self._tasks, *([self._sweeping] if self._sweeping else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def run(self, response: str) -> Run | None:
        """Where this process works on it."""
        return self._runs.get(response)

    def require_room(self, principal: Principal) -> None:
        """A response in the background has no connection by which its key would be counted."""
        mine = [run for run in self._runs.values() if _whose(run.record) == (principal.name, principal.tenant)]
        keys = [key for key in self.gateway.config.keys if (key.name, key.tenant) == (principal.name, principal.tenant)]
        width = max((key.width for key in keys), default=0)
        most = self.gateway.config.limits.streams
        if len(self._runs) >= most or (width and len(mine) >= width):
            raise TooManyError("too many responses are under way", hint="Wait until one has ended, or cancel one.")

    async def begin(
        self,
        record: ResponseRecord,
        plan: Plan,
        principal: Principal,
        holding: Holding,
        speech: Speech,
        first: Sequence[dict[str, Any]],
        *,
        state: dict[str, Any] | None,
        verdicts: Sequence[Verdict] = (),
    ) -> Run:
        """`first` is what is told at once. `state` is the conversation to begin from, None for the one that is held."""
        told = [kept_json(event) for event in first]
        epoch, now = holding.record.epoch, time.time()
        await self.gateway.ledger.add_response(record, epoch, told, state, verdicts, now=now)
        if state is not None:
            holding.record = replace(holding.record, state_text=kept_json(state))
        run = self._made(record, plan, principal, holding, speech, told)
        self._start(run)
        return run

    async def follow(self, response: str, after: int = -1) -> AsyncGenerator[tuple[str, ...]]:
        """Events with a higher number than `after`, each once, until the response has ended."""
        run, pause = self.run(response), _POLL
        while True:
            run = run or self.run(response)
            is_over = run is None or run.telling.is_over
            batch = tuple(run.telling.told[after + 1 :]) if run else ()
            if not batch and is_over:
                # Another process works on it, or nobody does. Read before the events: they come first.
                record = await self.gateway.ledger.response(response)
                run = self.run(response)
                batch = await self.gateway.ledger.response_events(response, after, _PAGE)
                if not batch and (record is None or record.is_ended):
                    return
            if batch:
                after, pause = after + len(batch), _POLL
                yield batch
            elif run is not None and not run.telling.is_over:
                await run.telling.news(_SLOWEST_POLL)
            else:
                await asyncio.sleep(pause)
                pause = min(pause * 1.5, _SLOWEST_POLL)

    async def sweep_once(self) -> None:
        """Take up responses that are under way and that nobody works on."""
        if self.gateway.watch.drain.has_begun:
            # What this process has let go is for another.
            return
        for record in await self.gateway.ledger.unfinished_responses(_AT_ONCE, now=time.time()):
            if record.id in self._runs:
                # Ours, and its lease is late: it finds out by itself whether it may go on.
                continue
            try:
                await self._take_up(record)
            except FencedError:
                # Somebody else was faster.
                continue
            except FerruleError as failure:
                # The others are not to wait for this one.
                self.gateway.watch.failed(failure)

    async def told(self, response: str) -> list[str]:
        """Every event so far."""
        found: list[str] = []
        while batch := await self.gateway.ledger.response_events(response, len(found) - 1, _PAGE):
            found += batch
        return found

    async def _sweep(self) -> None:
        while True:
            try:
                await self.sweep_once()
            except FerruleError as failure:
                self.gateway.watch.failed(failure)
            await asyncio.sleep(self.gateway.config.lease_seconds / 2)

    async def _take_up(self, found: ResponseRecord) -> None:
        ledger, config = self.gateway.ledger, self.gateway.config
        bare = Principal(found.principal, found.tenant)
        holding = await Holding.take(ledger, found.conversation, bare, config.lease_seconds)
        record = await ledger.response(found.id)
        if record is None or record.is_ended:
            await holding.release()
            return
        plan, principal, failure = _NO_PLAN, bare, None
        try:
            plan = Plan.from_json(record.request)
            principal = principal_named(config, record.principal, record.tenant)
        except FerruleError as refusal:
            failure = refusal
        if holding.record.epoch - plan.epoch >= _MOST_OWNERS:
            failure = EngineUnavailableError(
                f"{_MOST_OWNERS} processes have stopped while they worked on it", code="given_up", hint="Ask for less."
            )
        holding.principal = principal
        told = await self.told(record.id)
        hosted = hosted_in(plan, self.labels.hosts(principal))
        encoder = HostedEncoder.restored(events_of(told), hosted)
        run = self._made(record, plan, principal, holding, Speech(encoder, plan, hosted), told)
        if plan.whose is not ToolOwner.GATEWAY:
            run.earlier = told_parts(encoder.response["output"])
        if record.is_cancelled:
            run.telling.cancelled.set()
        self._start(run, failure)

    def _made(
        self,
        record: ResponseRecord,
        plan: Plan,
        principal: Principal,
        holding: Holding,
        speech: Speech,
        told: Sequence[str],
    ) -> Run:
        heartbeat = self.gateway.config.lease_seconds / 3
        telling = Telling(self.gateway.ledger, record.id, holding.record.epoch, told, heartbeat=heartbeat)
        return Run(self.gateway, record, plan, principal, holding, speech, telling)

    def _start(self, run: Run, failure: FerruleError | None = None) -> None:
        self._runs[run.record.id] = run
        task = asyncio.ensure_future(run.go(failure))
        self._tasks.add(task)
        task.add_done_callback(lambda done: self._stopped(run, done))

    def _stopped(self, run: Run, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._runs.get(run.record.id) is run:
            del self._runs[run.record.id]
        self._tell_unexpected(task, run.record.id)

    def _swept(self, task: asyncio.Task[None]) -> None:
        if self._tell_unexpected(task, ""):
            # Whatever it was, responses are not to wait for a new process.
            task.get_loop().call_later(self.gateway.config.lease_seconds, self.open)

    def _tell_unexpected(self, task: asyncio.Task[None], about: str) -> bool:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self.gateway.watch.unexpected(error, about)
        return error is not None


def events_of(told: Iterable[str]) -> list[dict[str, Any]]:
    """Events as they were told, from how they are kept."""
    return [cast("dict[str, Any]", loads(text)) for text in told]


def _whose(record: ResponseRecord) -> tuple[str, str]:
    return record.principal, record.tenant


def fresh_record(
    id: str, conversation: str, principal: Principal, plan: Plan, model: str, *, is_queued: bool
) -> ResponseRecord:
    """A response that begins now."""
    status = ResponseStatus.QUEUED if is_queued else ResponseStatus.IN_PROGRESS
    whose = (id, conversation, principal.tenant, principal.name)
    return ResponseRecord(*whose, status, model, time.time(), 0, False, kept_json(plan.as_json()))
