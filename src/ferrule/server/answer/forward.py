"""ForwardedAnswer: the parts of an answer that an engine gives in the client's own API, with deadlines and a record.

What `AnswerStream` is for conversations: it selects the engine, checks the limits and measures. There are no tools, so
there are no rounds, no receipts and no traces.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator
from typing import Self

from ferrule.core.context import Principal
from ferrule.core.event import TextDelta
from ferrule.core.forward import ForwardedPart, ForwardRequest
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.errors import EngineTimeoutError
from ferrule.server.gateway import Gateway
from ferrule.server.observability.answer_record import AnswerRecord
from ferrule.server.quotas.charge import QuotaUse
from ferrule.server.quotas.rate_headers import rate_headers

_PART = TextDelta("")
"""Counted for each part of a stream: records count events."""


class ForwardedAnswer:
    """The parts of one answer. Iterate it once; `aclose` stops the engine."""

    def __init__(self, gateway: Gateway, principal: Principal, request: ForwardRequest) -> None:
        limits = gateway.config.limits
        self._gateway = gateway
        self._principal = principal
        self._request = request
        self._seconds = limits.first_seconds
        self._deadline = time.monotonic() + (limits.total_seconds or math.inf)
        self._timer: DeadlineTimer | None = None
        self._record: AnswerRecord | None = None
        self._parts: AsyncGenerator[ForwardedPart] | None = None
        self._quota_uses: tuple[QuotaUse, ...] = ()
        self._is_closed = False

    @property
    def headers(self) -> dict[str, str]:
        """What a response to this request says in its head, besides its type."""
        return rate_headers(self._quota_uses)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ForwardedPart:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            part = await self._next_part()
        # Whatever broke the answer off, everything is closed, and the record has it.
        except BaseException as error:
            await self._close(error)
            raise
        if part is None:
            await self._close(None)
            raise StopAsyncIteration
        return part

    async def aclose(self) -> None:
        if not self._is_closed:
            await self._close(GeneratorExit())

    async def _next_part(self) -> ForwardedPart | None:
        if self._parts is None:
            self._parts = await self._begin()
        timer = self._timer = self._timer or DeadlineTimer()
        task = asyncio.current_task()
        timer.start(min(self._seconds, max(self._deadline - time.monotonic(), 0.0)), task)
        try:
            if self._record is not None:
                self._record.check_cancelled(task)
            part = await anext(self._parts, None)
        except asyncio.CancelledError as cancelled:
            timer.reraise_unless_expired(cancelled)
            raise EngineTimeoutError(
                "the answer took too long", hint="Request less, or raise the limits."
            ) from cancelled
        timer.stop()
        self._seconds = self._gateway.config.limits.between_seconds
        if part is not None and self._record is not None:
            self._record.record_event(part.finish or _PART)
        return part

    async def _begin(self) -> AsyncGenerator[ForwardedPart]:
        gateway = self._gateway
        engine = gateway.engine(self._request.model, self._principal)
        gateway.request_limits.check_forwarded(self._request)
        self._quota_uses = await gateway.quotas.admit_request(self._principal)
        if engine.traits.reads_silently or not self._request.is_streamed:
            # Nothing arrives before the whole answer.
            self._seconds = max(self._seconds, gateway.config.limits.silent_first_seconds)
        self._record = gateway.telemetry.begin_answer(engine.model, engine.traits.name, ())
        self._record.begin()
        return engine.forward(self._request)

    async def _close(self, error: BaseException | None) -> None:
        """Close everything. Raises the error that the client receives, if that is another one."""
        self._is_closed = True
        try:
            if self._timer is not None:
                self._timer.close()
            if self._parts is not None:
                await self._parts.aclose()
        finally:
            if self._record is not None:
                tokens = self._record.tokens_used(len(str(self._request.fields)), is_broken_off=error is not None)
                self._gateway.quotas.spend(self._principal, tokens, self._record.cost or 0.0)
                self._record.end(error)
