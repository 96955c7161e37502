"""TraceRecorder: records every request in the ledger, for people who look at traces. No request waits for it.

Requests are written in the background, in batches, after they have ended; a long one also when it begins. While the
ledger cannot be reached they wait in memory, and the oldest are dropped when there are too many (a metric counts them).
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ferrule.core.context import Principal
from ferrule.core.json_text import dumps
from ferrule.core.message import ChatMessage, Role, Text, messages_as_json
from ferrule.core.named_media import without_data
from ferrule.dialects.caller_error import caller_error, hides_details
from ferrule.errors import FerruleError, LedgerError, LedgerUnavailableError
from ferrule.run.history_key import history_keys
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.trace import RequestError, TracedRequest, TraceStatus
from ferrule.run.timeline_entry import title_of
from ferrule.server.config.config import TracesConfig, TraceText
from ferrule.server.observability.prompt_prefix import PromptHistory, PromptParts
from ferrule.server.observability.telemetry import CURRENT, RequestRecord, Telemetry
from ferrule.server.secret_mask import mask_text

STALE_SECONDS = 60.0
"""How long after its last sign of life a running request counts as interrupted."""
_TOUCH_SECONDS = 15.0
_LONG_REQUEST_SECONDS = 1.0
"""A request is written when it has run that long. Most have ended by then, and are written once."""
_PAUSE_SECONDS = 0.25
"""Between two batches, so that many short requests share a transaction."""
_RETRY_SECONDS = 1.0
_STOP_SECONDS = 3.0
_FORGET_SECONDS = 600.0
_DAY_SECONDS = 86_400.0
_MAX_WAITING = 10_000
_MAX_WAITING_BYTES = 32_000_000
"""Of text, in rows that wait for the ledger."""
_MAX_BATCH = 500
_RESUMED = "resumed"
"""The API of a request that the gateway makes itself, after an approval or for a process that stopped."""
_ANSWERING_APIS = frozenset({"/v1/chat/completions", "/v1/messages", "/v1/responses"})
_MAX_NAME = 200
_BEGINNING_MESSAGES = 8
_MAX_TEXT_BYTES = 1_000_000
"""Longer messages are kept as if only their beginning was wanted."""


@dataclass(slots=True, eq=False)
class OpenRequest:
    """A request that is being answered. Fill it in, then pass it to `TraceRecorder.end`."""

    id: str
    principal: Principal
    messages: Sequence[ChatMessage]
    api: str
    request_id: str
    model: str = ""
    at: float = field(default_factory=time.time)
    began: float = field(default_factory=time.monotonic)
    seconds: float | None = None
    status: TraceStatus = TraceStatus.RUNNING
    finish: str = ""
    error: FerruleError | None = None
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    cost: float | None = None
    tools: tuple[str, ...] = ()
    conversation: str = ""
    reply: ChatMessage | None = None
    """The reply as the client has seen it; None if there was none."""
    parts: PromptParts = field(default_factory=PromptParts)
    is_stored: bool = False


class TraceRecorder:
    """Created with the gateway; `start` begins to write and returns what ends it.

    One task turns requests that have ended into rows, and another writes the rows. So the messages of requests are not
    kept in memory while the ledger does not answer, only what is stored of them.
    """

    def __init__(self, ledger: Ledger, config: TracesConfig, telemetry: Telemetry) -> None:
        self._ledger = ledger
        self._config = config
        self._telemetry = telemetry
        self._prompts = PromptHistory()
        self._open: dict[str, OpenRequest] = {}
        self._ended: deque[OpenRequest] = deque()
        self._rows: deque[TracedRequest] = deque()
        self._has_ended, self._has_rows = asyncio.Event(), asyncio.Event()
        self._conversion, self._writing = asyncio.Lock(), asyncio.Lock()
        self._touched_at = self._forgotten_at = 0.0
        self._is_on = False

    def start(self) -> Callable[[], Awaitable[None]]:
        if self._config.days <= 0:
            return _do_nothing
        self._is_on = True
        self._telemetry.on_early_error = self._record_early_error
        tasks = [asyncio.ensure_future(self._repeat(one)) for one in (self._convert_next, self._write_next)]

        async def stop() -> None:
            self._is_on = False
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            try:
                async with asyncio.timeout(_STOP_SECONDS):
                    await self.flush()
            except (LedgerError, TimeoutError):
                # The gateway stops regardless: it must not wait for a ledger that does not answer.
                self._telemetry.counts.add("ferrule_traces_lost", by=self.waiting)

        return stop

    def begin(self, principal: Principal, messages: Sequence[ChatMessage], model: str) -> OpenRequest:
        record = CURRENT.get()
        if record is not None:
            record.is_traced = True
        request = OpenRequest(
            f"request_{secrets.token_hex(16)}",
            principal,
            messages,
            record.api if record else _RESUMED,
            record.id if record else "",
            model,
        )
        if self._is_on:
            self._open[request.id] = request
        return request

    def end(self, request: OpenRequest) -> None:
        request.seconds = time.monotonic() - request.began
        self._open.pop(request.id, None)
        if self._is_on:
            self._ended.append(request)
            self._has_ended.set()

    @property
    def waiting(self) -> int:
        """How many requests have ended and are not in the ledger."""
        return len(self._ended) + len(self._rows)

    async def flush(self) -> None:
        """Write everything that has ended. Raises if the ledger is unreachable."""
        await self._convert()
        await self._write()

    def _record_early_error(self, record: RequestRecord, error: FerruleError) -> None:
        """Record a request that was refused before it could be understood."""
        if record.api not in _ANSWERING_APIS or not record.principal:
            return
        request = self.begin(Principal(record.principal, record.tenant), (), "")
        request.at, request.began = time.time() - record.seconds, time.monotonic() - record.seconds
        request.api, request.request_id = record.api, record.id
        request.status, request.error = TraceStatus.FAILED, error
        self.end(request)

    async def _repeat(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except LedgerError as failure:
                self._telemetry.record_ledger_failure(failure)
                await asyncio.sleep(_RETRY_SECONDS)
            # Traces must outlive every mistake in one of them.
            except Exception as error:
                self._telemetry.handle_unexpected(error, "")
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _convert_next(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONG_REQUEST_SECONDS):
                await self._has_ended.wait()
        self._has_ended.clear()
        await self._convert()

    async def _write_next(self) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_TOUCH_SECONDS):
                await self._has_rows.wait()
        self._has_rows.clear()
        await self._write()
        await self._touch()
        await self._forget()

    async def _convert(self) -> None:
        """Make rows of what has ended, and of what has run long enough to be looked at."""
        async with self._conversion:
            since = time.monotonic() - _LONG_REQUEST_SECONDS
            long_ones = [one for one in self._open.values() if not one.is_stored and one.began < since]
            for one in long_ones:
                one.is_stored = True
            await self._add_rows(long_ones)
            while self._ended:
                ended = [self._ended.popleft() for _ in range(min(len(self._ended), _MAX_BATCH))]
                try:
                    await self._add_rows(ended)
                except asyncio.CancelledError:
                    # The gateway stops meanwhile: they are still to be written, or to be counted as lost.
                    self._ended.extendleft(reversed(ended))
                    raise

    async def _add_rows(self, requests: Sequence[OpenRequest]) -> None:
        if not requests:
            return
        # Copied, because one that runs may end meanwhile.
        copies = [replace(one) for one in requests]
        # Hashing a long history takes time that other requests need.
        self._rows += await asyncio.to_thread(lambda: [row_of(one, self._config.text, self._prompts) for one in copies])
        self._drop_oldest()
        self._has_rows.set()

    def _drop_oldest(self) -> None:
        """Drop what is too much to keep in memory while the ledger does not answer."""
        size = sum(len(row.messages_text) for row in self._rows)
        while len(self._rows) > _MAX_WAITING or size > _MAX_WAITING_BYTES:
            size -= len(self._rows.popleft().messages_text)
            self._telemetry.counts.add("ferrule_traces_lost")

    async def _write(self) -> None:
        async with self._writing:
            has_one_database = len(self._ledger.shards) == 1
            left: list[TracedRequest] = []
            failure: LedgerUnavailableError | None = None
            batch: list[TracedRequest] = []
            try:
                while self._rows:
                    batch = [self._rows.popleft() for _ in range(min(len(self._rows), _MAX_BATCH))]
                    try:
                        await self._write_batch(batch)
                    except LedgerUnavailableError as error:
                        if has_one_database:
                            raise
                        # The tenants of the other databases need not wait for this one.
                        failure = error
                        left += await self._write_by_tenant(batch)
                    batch = []
            finally:
                # Whatever stopped it, also a cancellation: a row that was written is not counted again.
                self._rows.extendleft(reversed([*left, *batch]))
            if failure is not None:
                raise failure

    async def _write_by_tenant(self, rows: Sequence[TracedRequest]) -> list[TracedRequest]:
        """Write the rows of each tenant apart. Returns those whose database does not answer."""
        left: list[TracedRequest] = []
        for tenant in dict.fromkeys(row.tenant for row in rows):
            own = [row for row in rows if row.tenant == tenant]
            try:
                await self._write_batch(own)
            except LedgerUnavailableError:
                left += own
        return left

    async def _write_batch(self, rows: Sequence[TracedRequest]) -> None:
        try:
            await self._ledger.record_requests(rows)
            return
        except LedgerUnavailableError:
            raise
        except LedgerError as failure:
            self._telemetry.record_ledger_failure(failure)
        # One of them is at fault, or two processes were in each other's way: the others need not suffer.
        for row in rows:
            try:
                await self._ledger.record_requests([row])
            except LedgerUnavailableError:
                raise
            except LedgerError as failure:
                self._telemetry.record_ledger_failure(failure)
                self._telemetry.counts.add("ferrule_traces_lost")

    async def _touch(self) -> None:
        if time.monotonic() - self._touched_at < _TOUCH_SECONDS:
            return
        self._touched_at = time.monotonic()
        ids = [one.id for one in self._open.values() if one.is_stored]
        if ids:
            await self._ledger.touch_requests(ids, now=time.time())

    async def _forget(self) -> None:
        if self._forgotten_at and time.monotonic() - self._forgotten_at < _FORGET_SECONDS:
            return
        self._forgotten_at = time.monotonic()
        while await self._ledger.forget_traces(time.time() - self._config.days * _DAY_SECONDS):
            await asyncio.sleep(_PAUSE_SECONDS)


async def _do_nothing() -> None:
    """Traces are off."""


def row_of(request: OpenRequest, text: TraceText, prompts: PromptHistory) -> TracedRequest:
    """Return what is stored of a request, and remember its prompt for the next one of its run."""
    is_running = request.status is TraceStatus.RUNNING
    reply = request.reply if request.reply and request.reply.parts else None
    first_question = next((one for one in request.messages if one.role is Role.USER and one.content.strip()), None)
    keys = history_keys(request.messages, reply)
    prefix, same_run = None, ""
    if not is_running and request.messages:
        prefix, same_run = prompts.compare(request.parts, request.principal, keys, reply)
    # What is in the ledger's conversation need not be stored twice.
    messages = () if request.conversation or is_running else _added(request.messages, reply)
    return TracedRequest(
        id=request.id,
        tenant=request.principal.tenant,
        principal=request.principal.name,
        at=request.at,
        api=request.api,
        request_id=request.request_id,
        seconds=request.seconds,
        status=request.status,
        model=_name(request.model),
        finish=request.finish,
        error=_error(request.error) if request.error else None,
        prompt_tokens=request.prompt_tokens,
        cached_tokens=request.cached_tokens,
        completion_tokens=request.completion_tokens,
        cost=request.cost,
        tools=tuple(dict.fromkeys(map(_name, request.tools))),
        conversation=request.conversation,
        title=title_of(first_question.content) if first_question and text is not TraceText.NONE else "",
        messages_text=_messages_text(messages, text),
        history_key="" if is_running else keys.own,
        prompt_prefix=prefix,
        # A client that edits its history continues the same trace.
        earlier_keys=(same_run, *keys.earlier) if same_run else keys.earlier,
    )


def _added(messages: Sequence[ChatMessage], reply: ChatMessage | None) -> tuple[ChatMessage, ...]:
    """Return the messages after the last reply in the history, and the new reply."""
    last = max((at for at, one in enumerate(messages) if one.role is Role.ASSISTANT), default=-1)
    return (*messages[last + 1 :], *([reply] if reply else ()))


def _messages_text(messages: Sequence[ChatMessage], text: TraceText) -> str:
    if text is TraceText.NONE:
        return "[]"
    messages = [without_data(message) for message in messages]
    whole = dumps(messages_as_json(messages)) if text is TraceText.ALL else ""
    if whole and len(whole) <= _MAX_TEXT_BYTES:
        return whole
    visible = [one for one in messages if one.role is not Role.SYSTEM][-_BEGINNING_MESSAGES:]
    return dumps(messages_as_json([_beginning(one) for one in visible]))


def _beginning(message: ChatMessage) -> ChatMessage:
    """Return the beginning of the text of a message, and the names of the tools that it calls or answers."""
    calls = ", ".join(title_of(f"{one.name} {one.function.arguments}") for one in message.tool_calls)
    results = ", ".join(title_of(f"{one.name} {one.content}") for one in message.results)
    return ChatMessage(message.role, (Text("\n".join(filter(None, (title_of(message.content), calls, results)))),))


def _error(error: FerruleError) -> RequestError:
    detail = mask_text(error.message) if hides_details(error) else ""
    shown = caller_error(error)
    return RequestError(
        code=_name(error.code), status=error.status, message=title_of(shown.text), detail=title_of(detail)
    )


def _name(text: str) -> str:
    """Return a name from outside so that every database stores it."""
    return title_of(text)[:_MAX_NAME]
