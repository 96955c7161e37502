"""Telemetry: metrics, logs and spans of every request and every answer."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections.abc import Awaitable, Callable, Container, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ferrule.core.event import Finish, Usage
from ferrule.dialects.caller_error import hides_details
from ferrule.dialects.ignored_fields import metric_label
from ferrule.errors import EngineError, FerruleError, LedgerError
from ferrule.server.observability.answer_record import (
    CLIENT_LEFT,
    CURRENT_ANSWER,
    OK,
    REPAIRED,
    AnswerRecord,
    RequestInfo,
)
from ferrule.server.observability.logs import Log, LogValue, error_types, stack_frames
from ferrule.server.observability.metrics import NO_IDS, Counts, SharedCounts, TraceIds
from ferrule.server.observability.spans import NO_TRACE, AttributeValue, Spans, TraceContext
from ferrule.server.process.drain import Drain, draining_error
from ferrule.server.secret_mask import mask_text

SWITCHING = 101
_ERROR_STATUS = 400
NOT_OK = "not_ok"
"""The outcome of a response with an error status that no exception caused, such as that of a probe."""


@dataclass(slots=True, eq=False)
class RequestRecord:
    """`api` is the path of the route, not of the request. `answers` are those that ended during the request."""

    id: str
    api: str
    is_socket: bool = False
    trace: TraceContext = NO_TRACE
    clock: Callable[[], float] = time.monotonic
    started_at: float = 0.0
    principal: str = ""
    tenant: str = ""
    is_traced: bool = False
    """Whether an answer has begun, which is recorded in traces by itself."""
    ignored: tuple[str, ...] = ()
    """What the client sent and nobody carries out; see `ToolCallRequest.ignored`."""
    status: int = 0
    outcome: str = CLIENT_LEFT
    is_streaming: bool = False
    is_finished: bool = False
    open_answers: int = 0
    answers: list[AnswerRecord] = field(default_factory=list[AnswerRecord])
    key_id: str = ""
    token_expires_at: float = math.inf
    """When the token of its caller expires, if it has one, in Unix seconds."""
    cancel_error: FerruleError | None = None
    task: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self.started_at = self.clock()
        if self.is_socket:
            self.status, self.outcome = SWITCHING, OK

    @property
    def is_idle(self) -> bool:
        """Whether it is a WebSocket connection without an active answer."""
        return self.is_socket and not self.open_answers

    def cancel(self, error: FerruleError | None = None, *, is_forced: bool = False) -> None:
        """Cancel a request that has no active answer. Answers are cancelled themselves and report it to the client.

        It ends with the error; without one, because the gateway is shutting down. `is_forced` also ends a connection
        whose turns wait for its client.
        """
        if (is_forced or not self.open_answers) and self.cancel_error is None and self.task is not None:
            self.cancel_error = error or draining_error()
            self.task.cancel()

    def record_response(self, status: int, *, is_streaming: bool) -> None:
        self.status, self.outcome, self.is_streaming = status, OK if status < _ERROR_STATUS else NOT_OK, is_streaming

    def record_error(self, error: FerruleError) -> None:
        self.status, self.outcome = error.status, type(error).code

    def add_answer(self, record: AnswerRecord) -> bool:
        """Add a finished answer. Answers on a WebSocket are logged separately, since the connection may stay open."""
        self.open_answers -= 1
        if self.is_finished or self.is_socket:
            return False
        self.answers.append(record)
        return True

    @property
    def exemplar_ids(self) -> TraceIds:
        return self.trace.exemplar_id, self.id

    @property
    def seconds(self) -> float:
        return self.clock() - self.started_at

    @property
    def last_answer(self) -> AnswerRecord | None:
        return self.answers[-1] if self.answers else None


CURRENT: ContextVar[RequestRecord | None] = ContextVar("ferrule_request", default=None)
"""The request that the current task serves; None for work without a request, such as a stored response."""

# A client may name a conversation to resume. Only what has the form of our own IDs is logged.
_CONVERSATION = re.compile(r"conv_[0-9a-f]{32}")


def current_ids() -> dict[str, str]:
    """The IDs of the request and of the conversation that the current task works on, as fields of a log line."""
    request, answer = CURRENT.get(), CURRENT_ANSWER.get()
    return _ids(request, answer)


def _ids(request: RequestInfo | None, answer: AnswerRecord | None) -> dict[str, str]:
    ids = {"id": request.id} if request is not None and request.id else {}
    if request is not None and request.trace.trace_id:
        ids["trace"] = request.trace.trace_id
    if answer is not None and _CONVERSATION.fullmatch(answer.conversation):
        ids["conversation"] = answer.conversation
    return ids


_KEYS = "/v1/keys"
UNLOGGED = ("/healthz", "/readyz", "/metrics")
"""Probed every few seconds, so logged only if the outcome is not ok."""
CHAT = "chat"
MCP_CALL = "tools/call"
_TOOL_ERRORS = {OK: "", "error": "tool_error"}
"""The attribute `error.type` by the outcome of a call; other outcomes are their own."""
_MOST_CALLS = 32
_PRICED_TOKENS = 1_000_000
_Result = TypeVar("_Result")
MakeError = Callable[[], FerruleError]
"""Makes an error: each request gets its own."""


@dataclass(slots=True)
class Telemetry:
    """Collects telemetry of a gateway. `requests` and `answers` are those in progress."""

    log: Log = field(default_factory=Log)
    spans: Spans = field(default_factory=Spans.from_environment)
    counts: Counts = field(default_factory=Counts)
    drain: Drain = field(default_factory=Drain)
    shared: SharedCounts | None = None
    prices: Mapping[str, tuple[float, float]] = field(default_factory=dict[str, tuple[float, float]])
    """The prices of a million input and output tokens, by the name of the engine."""
    on_early_error: Callable[[RequestRecord, FerruleError], None] = lambda record, error: None
    """Called when a request has failed before its answer began."""
    is_mcp_tool: Callable[[str], bool] = lambda tool: False
    """Whether one of the gateway's own tools is run by an MCP server."""
    requests: set[RequestRecord] = field(default_factory=set[RequestRecord])
    answers: set[AnswerRecord] = field(default_factory=set[AnswerRecord])

    def snapshot(self) -> Counts:
        """A copy of the counts, including the events of answers that are still in progress."""
        counts = Counts()
        counts.merge(self.counts)
        for record in self.answers:
            counts.add("ferrule_events", record.model, by=record.events)
        return counts

    def begin_request(self, record: RequestRecord) -> None:
        self.requests.add(record)
        self.drain.active.add(record)

    def end_request(self, record: RequestRecord) -> None:
        """Count and log a request that has ended."""
        record.is_finished = True
        record.trace.end(record.status, "" if record.outcome == OK else record.outcome)
        self.requests.discard(record)
        self.drain.active.discard(record)
        self.counts.add(
            "ferrule_requests", record.api, record.last_answer.model if record.last_answer else "", record.outcome
        )
        if record.api in UNLOGGED and record.outcome == OK:
            return
        log_fields: dict[str, LogValue] = {
            **_ids(record, record.last_answer),
            "api": record.api,
            "principal": record.principal,
            "status": record.status,
        }
        if record.last_answer:
            log_fields |= _answer_fields(record.last_answer)
        if record.ignored:
            log_fields["ignored"] = _labels(record.ignored)
        outcome = record.outcome if record.outcome != OK or not record.last_answer else record.last_answer.outcome
        self.log.emit("request", **log_fields, outcome=outcome, total_ms=record.seconds * 1000)

    def end_requests_of(self, revoked: Mapping[str, MakeError], expired: Mapping[str, MakeError]) -> None:
        """End what runs for keys that were revoked, and idle connections of those that have expired, by their ids."""
        busy: set[RequestInfo] = set()
        for answer in [one for one in self.answers if one.request is not None]:
            assert answer.request is not None
            busy.add(answer.request)
            if answer.request.key_id in revoked:
                answer.cancel(revoked[answer.request.key_id]())
        for request in [one for one in self.requests if one not in busy]:
            if request.key_id in revoked:
                # An answer that has ended still sends its error. A request that manages keys may revoke its own.
                if request.is_socket or not (request.answers or request.api.startswith(_KEYS)):
                    request.cancel(revoked[request.key_id](), is_forced=True)
            elif request.key_id in expired and request.is_idle:
                request.cancel(expired[request.key_id]())

    def end_idle_sockets(self, now: float, make_error: MakeError) -> None:
        """End the connections whose caller's token has expired, unless an answer is in progress on them."""
        for request in [one for one in self.requests if now >= one.token_expires_at and one.is_idle]:
            request.cancel(make_error())

    def record_ignored(self, paths: tuple[str, ...]) -> None:
        """Count what a client sent and nobody carries out. Its HTTP answer gets a header that names it."""
        if not paths:
            return
        request = CURRENT.get()
        if request is not None and not request.is_socket:
            request.ignored = paths
        for label in _labels(paths):
            self.counts.add("ferrule_ignored_fields", label)

    def begin_answer(self, model: str, engine: str, own_tools: Container[str], conversation: str = "") -> AnswerRecord:
        """Create the record of an answer. The caller enters it and passes it each event."""
        request = CURRENT.get()
        record = AnswerRecord(self, model, engine, own_tools, request, conversation)
        self.answers.add(record)
        self.drain.active.add(record)
        if request is not None:
            request.open_answers += 1
        return record

    async def run_busy(self, work: Awaitable[_Result]) -> _Result:
        """Await `work` while its connection counts as busy, even if no answer is in progress."""
        request = CURRENT.get()
        if request is None:
            return await work
        request.open_answers += 1
        try:
            return await work
        finally:
            request.open_answers -= 1

    def end_answer(self, record: AnswerRecord) -> None:
        self.answers.discard(record)
        self.drain.active.discard(record)
        counts, model = self.counts, record.model
        counts.add("ferrule_events", model, by=record.events)
        counts.add("ferrule_tokens", model, "prompt", by=record.prompt_tokens)
        counts.add("ferrule_tokens", model, "completion", by=record.completion_tokens)
        counts.add("ferrule_cached_tokens", model, by=record.cached_tokens)
        request = record.request
        ids = request.exemplar_ids if request is not None else NO_IDS
        seconds, error = record.ended_at - record.started_at, "" if record.outcome == OK else record.outcome
        counts.observe("ferrule_answer_seconds", seconds, model, ids=ids)
        operation = (CHAT, record.engine, model)
        counts.observe("gen_ai_server_request_duration_seconds", seconds, *operation, error, ids=ids)
        if record.events:
            first = record.first_event_at - record.started_at
            counts.observe("ferrule_first_event_seconds", first, model, ids=ids)
            counts.observe("gen_ai_server_time_to_first_token_seconds", first, *operation, ids=ids)
        if request is not None and request.add_answer(record):
            return
        total = (record.ended_at - record.started_at) * 1000
        ids = _ids(request, record)
        self.log.emit("answer", **ids, **_answer_fields(record), outcome=record.outcome, total_ms=total)

    def record_call(self, model: str, tool: str, how: str, *, is_complete: bool) -> None:
        self.counts.add("ferrule_calls", tool, how, "complete" if is_complete else "incomplete")
        if how == REPAIRED:
            self.counts.add("ferrule_repairs", model)

    def record_reply(
        self, record: AnswerRecord, seconds: float, first_seconds: float | None, usage: Usage | None, error: str
    ) -> None:
        """Count one reply of a model, of which an answer may have several."""
        ids = record.request.exemplar_ids if record.request is not None else NO_IDS
        operation = (CHAT, record.engine, record.model)
        self.counts.observe("gen_ai_client_operation_duration_seconds", seconds, *operation, error, ids=ids)
        if first_seconds is not None:
            name = "gen_ai_client_operation_time_to_first_chunk_seconds"
            self.counts.observe(name, first_seconds, *operation, ids=ids)
        if usage is not None:
            for kind, tokens in (("input", usage.prompt_tokens), ("output", usage.completion_tokens)):
                self.counts.observe("gen_ai_client_token_usage", tokens, *operation, kind, ids=ids)

    def record_tool_run(self, tool: str, seconds: float, outcome: str) -> None:
        request = CURRENT.get()
        ids = request.exemplar_ids if request is not None else NO_IDS
        self.counts.observe("ferrule_tool_seconds", seconds, tool, outcome, ids=ids)
        error = _TOOL_ERRORS.get(outcome, outcome)
        self.counts.observe("gen_ai_execute_tool_duration_seconds", seconds, tool, error, ids=ids)
        if self.is_mcp_tool(tool):
            name = "mcp_client_operation_duration_seconds"
            self.counts.observe(name, seconds, MCP_CALL, tool, error, ids=ids)

    def tool_attributes(self, tool: str) -> Mapping[str, AttributeValue]:
        """What the span of a call says besides, if an MCP server runs the tool."""
        return {"mcp.method.name": MCP_CALL} if self.is_mcp_tool(tool) else {}

    def record_approval_request(self, tool: str) -> None:
        self.counts.add("ferrule_approvals_asked", tool)

    def record_quota_refusal(self, quota: str) -> None:
        self.counts.add("ferrule_quota_refusals", quota)

    def record_quota_store_failure(self, error: FerruleError) -> None:
        self.counts.add("ferrule_quota_store_failures")
        self.log.emit("quota_store_failed", outcome=error.code, detail=mask_text(error.message))

    def record_engine_failure(self, model: str, engine: str, error: EngineError, *, is_failover: bool) -> None:
        code = type(error).code
        self.counts.add("ferrule_engine_errors", engine, code)
        if is_failover:
            self.counts.add("ferrule_failovers", model)
        status = {} if error.upstream_status is None else {"upstream_status": error.upstream_status}
        self.log.emit(
            "failover" if is_failover else "engine_failed",
            **current_ids(),
            model=model,
            engine=engine,
            outcome=code,
            **status,
            detail=mask_text(error.message),
        )

    def record_engine_finish(self, engine: str, finish: Finish) -> None:
        """Add what a reply took and cost to the answer that it is part of."""
        answer, (input_price, output_price) = CURRENT_ANSWER.get(), self.prices.get(engine, (0.0, 0.0))
        if answer is None:
            return
        answer.add_engine_reply(finish.usage)
        if finish.usage is not None and (input_price or output_price):
            usage = finish.usage
            cost = usage.prompt_tokens * input_price + usage.completion_tokens * output_price
            answer.cost = (answer.cost or 0.0) + cost / _PRICED_TOKENS

    def record_probe(self, engine: str, error: EngineError | None) -> None:
        """Log whether an engine could be reached when the gateway started."""
        detail = {} if error is None else {"detail": mask_text(error.message)}
        self.log.emit("engine_probe", engine=engine, outcome=OK if error is None else type(error).code, **detail)

    def record_ledger_failure(self, error: LedgerError) -> None:
        self.counts.add("ferrule_ledger_errors", type(error).code)

    def record_error(self, error: FerruleError) -> None:
        """Record an error that a client receives, once: count it, and log what the client is not told.

        Failures of engines were counted and logged by `record_engine_failure`.
        """
        if error.request_id:
            return
        ids = current_ids()
        error.request_id = ids.get("id", "")
        if isinstance(error, LedgerError):
            self.record_ledger_failure(error)
        if hides_details(error) and not isinstance(error, EngineError):
            self.log.emit("failed", **ids, outcome=type(error).code, detail=mask_text(error.message))

    def record_quarantine(self, tool: str) -> None:
        """Log a tool that is quarantined: its definition changed, or its schema is not admitted."""
        self.log.emit("quarantine", tool=tool)

    def handle_unexpected(self, error: Exception, request_id: str) -> FerruleError:
        """Log an unexpected exception. Returns the error for the client, which contains only the request ID."""
        self.counts.add("ferrule_unexpected_errors")
        self.log.emit(
            "unexpected", **{**current_ids(), "id": request_id}, kinds=error_types(error), stack=stack_frames(error)
        )
        suffix = f" (request ID {request_id})" if request_id else ""
        return FerruleError(f"internal error{suffix}", hint="The details are in the gateway's log.")


def _labels(paths: tuple[str, ...]) -> list[str]:
    return list(dict.fromkeys(metric_label(path) for path in paths))


def _answer_fields(record: AnswerRecord) -> dict[str, LogValue]:
    log_fields: dict[str, LogValue] = {
        "model": record.model,
        "finish": record.finish,
        "prompt_tokens": record.prompt_tokens,
        "completion_tokens": record.completion_tokens,
        "events": record.events,
    }
    if record.cached_tokens:
        log_fields["cached_tokens"] = record.cached_tokens
    if record.events:
        log_fields["first_ms"] = (record.first_event_at - record.started_at) * 1000
    if record.calls:
        log_fields["calls"] = record.calls[:_MOST_CALLS]
    if len(record.calls) > _MOST_CALLS:
        log_fields["more_calls"] = len(record.calls) - _MOST_CALLS
    return log_fields
