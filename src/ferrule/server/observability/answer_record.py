"""AnswerRecord: measures one answer while it is streamed. Each event costs one addition and one table lookup."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

from ferrule.core.call import How
from ferrule.core.event import CallEnd, CallStart, Finish, RuleShown, Usage, WireText
from ferrule.dialects.caller_error import hides_details
from ferrule.errors import EngineError, FerruleError
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolStarted
from ferrule.server.observability.spans import AttributeValue, Spans, SpanTiming, TraceContext
from ferrule.server.process import drain
from ferrule.server.secret_mask import mask_text

CALLER = "caller"
"""The label for all tools of callers: clients choose their names, so there is no bound on how many there are."""
OK, CLIENT_LEFT = "ok", "left"
_NANO = 1_000_000_000
_CHARS_PER_TOKEN = 4


class AnswerObserver(Protocol):
    """Receives what is measured about answers."""

    spans: Spans

    def record_call(self, model: str, tool: str, how: str, *, is_complete: bool) -> None: ...

    def record_approval_request(self, tool: str) -> None: ...

    def record_reply(
        self, record: AnswerRecord, seconds: float, first_seconds: float | None, usage: Usage | None, error: str
    ) -> None: ...

    def tool_attributes(self, tool: str) -> Mapping[str, AttributeValue]: ...

    def end_answer(self, record: AnswerRecord) -> None: ...

    def record_error(self, error: FerruleError) -> None:
        """Count an error that the client receives, and log what the client is not told."""
        ...

    def handle_unexpected(self, error: Exception, request_id: str) -> FerruleError:
        """Log an unexpected exception and return the error that the client receives instead."""
        ...


class RequestInfo(Protocol):
    """The part of a `RequestRecord` that is needed here."""

    id: str
    key_id: str
    trace: TraceContext

    @property
    def exemplar_ids(self) -> tuple[str, str]:
        """The IDs of its trace, if that is recorded, and of the request."""
        ...

    def add_answer(self, record: AnswerRecord) -> bool:
        """Add a finished answer. Returns whether it is logged with the request instead of separately."""
        ...


@dataclass(slots=True, eq=False)
class AnswerRecord:
    """Measures between `begin` and `end`. `own_tools` are the gateway's tools, if the gateway runs the calls."""

    observer: AnswerObserver
    model: str
    engine: str
    own_tools: Container[str]
    request: RequestInfo | None = None
    conversation: str = ""
    clock: Callable[[], float] = time.monotonic
    events: int = 0
    started_at: float = 0.0
    first_event_at: float = 0.0
    ended_at: float = 0.0
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    engine_tokens: int = 0
    """The tokens of what engines have read and written: not of a kept answer that is sent again."""
    unreported_replies: int = 0
    """Replies of which the engine has not said how many tokens they took."""
    unreported_events: int = 0
    finish: str = ""
    outcome: str = OK
    calls: list[str] = field(default_factory=list[str])
    tools: dict[str, None] = field(default_factory=dict[str, None])
    """The names of the tools that were called, as the client or the gateway knows them."""
    approvals: list[ConfirmationRequired] = field(default_factory=list[ConfirmationRequired])
    loop_end: LoopEnded | None = None
    cost: float | None = None
    """By the configured prices; None if the engine has none."""
    is_idle: bool = False
    _start_time_ns: int = 0
    _round_started_at: float = 0.0
    _round_first_event: int = 1
    """The number of the first event of this reply of the model."""
    _round_first_at: float = 0.0
    _cancel_error: FerruleError | None = None
    _task: asyncio.Task[Any] | None = None
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _running: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    def begin(self) -> None:
        CURRENT_ANSWER.set(self)
        self.started_at = self._round_started_at = self.clock()
        self._start_time_ns = time.time_ns()

    def record_event(self, event: LoopEvent) -> None:
        """Record one event. It is called for every token, so it must stay cheap."""
        self._task = None
        self.events += 1
        if self.events == self._round_first_event:
            self._round_first_at = self.clock()
            if self.events == 1:
                self.first_event_at = self._round_first_at
        handler = _HANDLERS.get(event.__class__)
        if handler is not None:
            handler(self, event)

    def check_cancelled(self, task: asyncio.Task[Any] | None) -> None:
        """Called before each wait for an event, with the task that waits: there the answer can be cancelled."""
        if self._cancel_error is not None:
            raise self._cancel_error
        if CURRENT_ANSWER.get() is not self:
            # The events of one answer may be read by several tasks, each with a context of its own.
            CURRENT_ANSWER.set(self)
        self._task = task

    def cancel(self, error: FerruleError | None = None) -> None:
        """End it with an error; without one, because the gateway is shutting down."""
        if self._cancel_error is None:
            self._cancel_error = error or drain.draining_error()
            if self._task is not None:
                self._task.cancel()

    def end(self, error: BaseException | None) -> None:
        """End the answer, with the error that broke it off. Raises the error that the client receives instead."""
        self.ended_at = self.clock()
        client_error = self._client_error(error)
        self.outcome = _outcome_of(client_error) if self.loop_end is None else OK
        if isinstance(client_error, FerruleError):
            self.observer.record_error(client_error)
        if isinstance(client_error, Exception):
            self._end_round(self.outcome, error_attributes(client_error))
        self.observer.end_answer(self)
        if client_error is not None and client_error is not error:
            raise client_error from error

    def add_engine_reply(self, usage: Usage | None) -> None:
        """Count what an engine has read and written for a reply that ends."""
        if usage is not None:
            self.engine_tokens += usage.prompt_tokens + usage.completion_tokens
        else:
            self.unreported_replies += 1
            self.unreported_events += self.events - self._round_first_event + 1

    def tokens_used(self, prompt_chars: int, *, is_broken_off: bool) -> int:
        """The tokens of prompts and replies. Where an engine has not said them, they are estimated.

        A client that leaves before the end of a reply, where engines say it, has used tokens too: each event has one at
        least, and four characters of a prompt are about one.
        """
        replies, events = self.unreported_replies, self.unreported_events
        open_events = self.events - self._round_first_event + 1
        if is_broken_off and open_events > 0:
            replies, events = replies + 1, events + open_events
        return self.engine_tokens + events + replies * (prompt_chars // _CHARS_PER_TOKEN)

    def _client_error(self, error: BaseException | None) -> BaseException | None:
        """The error that the client receives. For an unexpected exception it contains only the request ID."""
        if isinstance(error, asyncio.CancelledError) and self._cancel_error is not None and self._task is not None:
            # The cancellation came from `cancel`: take it back, so that the task can report the error.
            self._task.uncancel()
            return self._cancel_error
        if isinstance(error, Exception) and not isinstance(error, FerruleError):
            return self.observer.handle_unexpected(error, self.request.id if self.request else "")
        return error

    def _tool_label(self, name: str) -> str:
        return name if name in self.own_tools else CALLER

    def _on_shown(self, event: RuleShown | WireText) -> None:
        # These events are not part of the answer, so they must not count as its first event.
        self.events -= 1

    def _on_call_start(self, event: CallStart) -> None:
        self._names[event.index] = event.name

    def _on_call_end(self, event: CallEnd) -> None:
        name = self._names.pop(event.index, "")
        if event.complete:
            self.tools[name] = None
        tool = self._tool_label(name)
        how = str(event.receipt.how) if event.receipt else "none"
        self.calls.append(f"{tool}={how}")
        self.observer.record_call(self.model, tool, how, is_complete=event.complete)

    def _on_finish(self, event: Finish) -> None:
        self.finish = str(event.reason)
        attributes: dict[str, AttributeValue] = {"gen_ai.response.finish_reasons": (self.finish,)}
        if event.usage:
            self.prompt_tokens += event.usage.prompt_tokens
            self.completion_tokens += event.usage.completion_tokens
            self.cached_tokens += event.usage.cached_tokens
            attributes["gen_ai.usage.input_tokens"] = event.usage.prompt_tokens
            attributes["gen_ai.usage.output_tokens"] = event.usage.completion_tokens
            if event.usage.cached_tokens:
                attributes["gen_ai.usage.cache_read.input_tokens"] = event.usage.cached_tokens
        self._end_round("", attributes, event.usage)

    def _end_round(
        self, error: str, extra: Mapping[str, AttributeValue] | None = None, usage: Usage | None = None
    ) -> None:
        spans = self.observer.spans
        now = self.clock()
        has_begun = self.events >= self._round_first_event
        first_seconds = self._round_first_at - self._round_started_at if has_begun else None
        self.observer.record_reply(self, now - self._round_started_at, first_seconds, usage, error)
        self._round_first_event = self.events + 1
        if spans.is_on:
            attributes: dict[str, AttributeValue] = {"gen_ai.provider.name": self.engine, **(extra or {})}
            if self.conversation:
                attributes["gen_ai.conversation.id"] = self.conversation
            spans.record_chat(
                self.model,
                SpanTiming(self._unix_ns(self._round_started_at), self._unix_ns(now), error),
                self._parent,
                attributes,
            )
        self._round_started_at = now

    def _on_tool_started(self, event: ToolStarted) -> None:
        self._running[event.call.id] = (self._tool_label(event.call.name), self.clock())

    def _on_tool_finished(self, event: ToolFinished) -> None:
        now = self._round_started_at = self.clock()
        self._round_first_event = self.events + 1
        tool, started_at = self._running.pop(event.result.tool_call_id, (self._tool_label(event.result.name), now))
        if self.observer.spans.is_on:
            error = "tool_error" if event.result.is_error else ""
            timing = SpanTiming(self._unix_ns(started_at), self._unix_ns(now), error)
            attributes = self.observer.tool_attributes(tool)
            self.observer.spans.record_tool(tool, event.result.tool_call_id, timing, self._parent, attributes)

    def _on_approval_required(self, event: ConfirmationRequired) -> None:
        self.approvals.append(event)
        self.observer.record_approval_request(self._tool_label(event.call.name))

    def _on_loop_ended(self, event: LoopEnded) -> None:
        self.loop_end = event

    @property
    def _parent(self) -> Any:
        return self.request.trace.parent if self.request else None

    def _unix_ns(self, moment: float) -> int:
        return self._start_time_ns + int((moment - self.started_at) * _NANO)


_HANDLERS: Mapping[type, Callable[[AnswerRecord, Any], None]] = {
    CallStart: AnswerRecord._on_call_start,  # pyright: ignore[reportPrivateUsage]  # the table of this class
    CallEnd: AnswerRecord._on_call_end,  # pyright: ignore[reportPrivateUsage]
    Finish: AnswerRecord._on_finish,  # pyright: ignore[reportPrivateUsage]
    ToolStarted: AnswerRecord._on_tool_started,  # pyright: ignore[reportPrivateUsage]
    ToolFinished: AnswerRecord._on_tool_finished,  # pyright: ignore[reportPrivateUsage]
    ConfirmationRequired: AnswerRecord._on_approval_required,  # pyright: ignore[reportPrivateUsage]
    LoopEnded: AnswerRecord._on_loop_ended,  # pyright: ignore[reportPrivateUsage]
    RuleShown: AnswerRecord._on_shown,  # pyright: ignore[reportPrivateUsage]
    WireText: AnswerRecord._on_shown,  # pyright: ignore[reportPrivateUsage]
}
REPAIRED = str(How.REPAIRED)


CURRENT_ANSWER: ContextVar[AnswerRecord | None] = ContextVar("ferrule_answer", default=None)
"""The answer that the current task works on."""


def error_attributes(error: Exception) -> dict[str, AttributeValue]:
    """The part of an error that operators see and callers do not: the engine's status, and what it said, masked."""
    if not isinstance(error, FerruleError) or not hides_details(error):
        return {}
    attributes: dict[str, AttributeValue] = {"error.message": mask_text(error.message)}
    if isinstance(error, EngineError) and error.upstream_status is not None:
        attributes["http.response.status_code"] = error.upstream_status
    return attributes


def _outcome_of(error: BaseException | None) -> str:
    """The outcome label. Errors are labelled by class, because an engine may set any code on an instance."""
    if error is None:
        return OK
    return type(error).code if isinstance(error, FerruleError) else CLIENT_LEFT
