"""AnswerStream: the one way from a turn to the events of its answer, for every API.

It selects the engine, checks the limits, opens the conversation if the gateway runs the calls, keeps the deadlines and
records what is measured. An API only encodes the events: as an HTTP response (`answer.response`), as stored response
events, or as WebSocket frames.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Self, cast

from ferrule.core import history
from ferrule.core.context import CallContext
from ferrule.core.event import CallEnd, Diagnostic, Finish, FinishReason, RuleShown, TextDelta, ToolSearch
from ferrule.core.message import ChatMessage
from ferrule.core.named_media import MEDIA_NAMED, named_kinds
from ferrule.core.reply import ReplyFold
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.engines.engine import Engine
from ferrule.errors import EngineTimeoutError, FerruleError, InterruptedAnswerError, LedgerError, NotFoundError
from ferrule.run.call_loops import GuardedRequest, guard_request, loop_text
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEnded, LoopEvent, ToolFinished
from ferrule.run.lease import Lease
from ferrule.run.ledger.trace import TraceStatus
from ferrule.run.machine import State
from ferrule.run.tool_usage import tool_usage_of
from ferrule.server.answer.claim import has_effects
from ferrule.server.answer.keyed_reply import stream_keyed_reply
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.waiting_text import waiting_text
from ferrule.server.gateway import Gateway
from ferrule.server.observability.answer_record import AnswerRecord
from ferrule.server.observability.metrics import CHOICE_EVENTS
from ferrule.server.observability.prompt_prefix import PromptParts
from ferrule.server.observability.trace_recorder import OpenRequest
from ferrule.server.quotas.charge import QuotaUse
from ferrule.server.quotas.rate_headers import rate_headers
from ferrule.server.router import RoutedEngine

# Why a call was not passed on, except that it was cut off: then the finish reason says so.
_REFUSALS = frozenset(
    {"invalid_arguments", "not_offered", "malformed_call", "one_call_only", "bad_arguments", "repeated_call"}
)
_BEFORE_PROMPTS = frozenset({Finish, ToolFinished, ToolSearch})
LOOP = "ferrule-loop"
"""The response header with the calls that the client's history repeats, and what was done about each."""
MEDIA = "ferrule-media"
"""The response header with what the engine does not take, of which the model reads only the names."""
ConversationOpener = Callable[[Turn, Engine], Awaitable[ToolConversation]]


class AnswerStream:
    """The events of one answer, ending in `LoopEnded`. Iterate it once; `aclose` stops the engine and the tools.

    It is an iterator and not a generator, because each nested generator costs every event once more.

    `open_conversation` replaces the gateway's own for callers that keep the conversation in the ledger themselves.
    Raises `EngineTimeoutError` after a deadline. The clock stands still while the reader handles an event: an engine is
    not to blame for a slow reader.
    """

    def __init__(self, gateway: Gateway, turn: Turn, open_conversation: ConversationOpener | None = None) -> None:
        self._gateway = gateway
        self.turn = turn
        self._guarded = _guard(gateway, turn.tool_owner, turn.request)
        self._open_conversation = open_conversation or self._open_own_conversation
        self._limits = gateway.config.limits
        self._seconds = self._limits.first_seconds
        self._first_seconds = self._limits.first_seconds
        self._total_seconds = self._limits.total_seconds or math.inf
        self._deadline = time.monotonic() + self._total_seconds
        self._timer: DeadlineTimer | None = None
        self._record: AnswerRecord | None = None
        self._trace: OpenRequest | None = None
        self._events: AsyncGenerator[LoopEvent] | None = None
        self._conversation: ToolConversation | None = None
        self._caller_request: ToolCallRequest | None = None
        self._fold: ReplyFold | None = None
        """Of the calls, if they are the caller's: then nobody else counts which tools were called."""
        self._refusals: list[str] = []
        """Of the reply under way."""
        self._calls: set[bool] = set()
        """Whether calls of the reply under way were complete: of each kind that occurred."""
        self._repairs: list[LoopEvent | None] = []
        """What was repaired in the conversation: every round of a loop reports it again."""
        self._texts: list[str] = []
        """The visible text, in the pieces in which it was streamed."""
        self._last_event: LoopEvent | None = None
        self._quota_uses: tuple[QuotaUse, ...] = ()
        self._named_media = ""
        """Of the latest round: it counts through the whole conversation."""
        self._is_closed = False

    @property
    def headers(self) -> dict[str, str]:
        """What a response to this request says in its head. An engine names media before it sends anything else."""
        media = {MEDIA: f"named: {self._named_media}"} if self._named_media else {}
        return {**_loop_header(self._guarded), **media, **rate_headers(self._quota_uses)}

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LoopEvent:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            event = await self._next_event()
        # Whatever broke the answer off, everything is closed, and the record has it.
        except BaseException as error:
            client_error = cause = error
            try:
                try:
                    await self._close(error)
                except FerruleError as other_error:
                    client_error = other_error
                if isinstance(client_error, FerruleError):
                    # A stored response looks at the cause: after a drain, another process continues it.
                    cause = client_error
                    client_error = await self._after_effects(client_error)
            finally:
                self._trace_end(client_error)
            if client_error is error:
                raise
            raise client_error from cause if cause is not client_error else error
        if event is None:
            try:
                await self._close(None)
            finally:
                self._trace_end(None)
            raise StopAsyncIteration
        return event

    async def aclose(self) -> None:
        if not self._is_closed:
            try:
                await self._close(GeneratorExit())
            finally:
                self._trace_end(GeneratorExit())

    def _trace_end(self, error: BaseException | None) -> None:
        """Complete what is recorded of the request, with the error that the client received."""
        trace, record = self._trace, self._record
        if trace is None:
            return
        trace.error = error if isinstance(error, FerruleError) else None
        is_kept = self.turn.is_claimed and self._events is not None
        if is_kept if self._conversation is None else self._conversation.is_recorded:
            trace.conversation = self.turn.resumes or self.turn.conversation
        if record is not None:
            trace.model, trace.finish, trace.cost = record.model, record.finish, record.cost
            trace.prompt_tokens, trace.completion_tokens = record.prompt_tokens, record.completion_tokens
            trace.cached_tokens = record.cached_tokens
            trace.tools = tuple(record.tools)
        trace.status = _trace_status(record, error)
        trace.reply = self._shown_reply(record) if trace.error is None else None
        self._gateway.traces.end(trace)

    def _shown_reply(self, record: AnswerRecord | None) -> ChatMessage:
        """The reply as the client has it: text of all rounds, and the calls that are the client's."""
        text = "".join(self._texts)
        if record is not None and record.loop_end is not None and record.loop_end.state is State.WAITING:
            text += waiting_text(record.approvals, after_text=bool(self._texts))
        return ChatMessage.assistant(text, self._fold.reply().calls if self._fold is not None else ())

    async def _next_event(self) -> LoopEvent | None:
        if self._trace is None:
            turn = self.turn
            self._trace = self._gateway.traces.begin(turn.principal, turn.request.messages, turn.request.model or "")
            self._trace.parts = PromptParts(turn.request.messages, turn.request.tools, deferred=_deferred(turn.request))
            self._trace.conversation = turn.conversation if turn.is_recorded or turn.resumes else ""
        if self._last_event is not None:
            event, self._last_event = self._last_event, None
            self._observe(event)
            return event
        timer = self._timer = self._timer or DeadlineTimer()
        task = asyncio.current_task()
        try:
            if self._events is None:
                # Another process may own the conversation: an engine is not to blame for that wait.
                timer.start(self._total_seconds if self._is_joinable else self._seconds, task)
                self._events = await self._begin()
            timer.start(min(self._seconds, max(self._deadline - time.monotonic(), 0.0)), task)
            if self._record is not None:
                self._record.check_cancelled(task)
            event = await anext(self._events, None)
            while event in self._repairs:
                event = await anext(self._events, None)
        except asyncio.CancelledError as cancelled:
            timer.reraise_unless_expired(cancelled)
            raise EngineTimeoutError(
                "the answer took too long", hint="Request less, or raise the limits."
            ) from cancelled
        timer.stop()
        if event is None:
            event = self._end_of_reply()
        if event is None:
            return None
        if event.__class__ is not TextDelta:
            event = self._with_refusals(event)
        self._observe(event)
        return event

    def _with_refusals(self, event: LoopEvent) -> LoopEvent:
        """Report refused calls, and one that was cut off, as text before the end of a reply that has no other call.

        Such a call is neither sent nor run, and a loop ends at it. Without the text the answer could be empty, and
        nobody would know why.
        """
        match event:
            case Diagnostic(code, message) if code in _REFUSALS:
                self._refusals.append(message)
            case Diagnostic(history.CODE):
                self._repairs.append(event)
            case CallEnd(complete=complete):
                self._calls.add(complete)
            case ToolSearch(declared="") if self.turn.request.tool_search is not None:
                # It was recorded by another process, which does not record whose search it was.
                return replace(event, declared=self.turn.request.tool_search.name)
            case Finish(reason):
                refusals, calls = self._refusals, self._calls
                self._refusals, self._calls = [], set()
                text = ""
                if reason is FinishReason.STOP and refusals:
                    text = f"[A tool call was refused: {'; '.join(refusals)}]"
                elif reason is FinishReason.LENGTH and calls == {False}:
                    text = "[A tool call was cut off at the token limit.]"
                if text:
                    self._last_event = event
                    return TextDelta(text)
            case _:
                pass
        return event

    def _end_of_reply(self) -> LoopEvent | None:
        """The end of an answer without a loop; None if there was an end."""
        if self._record is not None and self._record.loop_end is not None:
            return None
        if self._caller_request is not None and self._fold is not None:
            usage = tool_usage_of(self._caller_request, self._fold.reply())
            if usage is not None:
                self._gateway.tool_usage.record_usage(self._caller_request.model or "", usage)
        return LoopEnded(State.DONE)

    def _observe(self, event: LoopEvent) -> None:
        kind = event.__class__
        if kind is not RuleShown:
            # The gateway sends this one by itself: the deadline of the engine's first output still runs.
            # After a round, a tool or a search, the engine reads the prompt of the next one.
            is_prompt_next = kind in _BEFORE_PROMPTS
            self._seconds = self._first_seconds if is_prompt_next else self._limits.between_seconds
        if kind is TextDelta:
            self._texts.append(cast("TextDelta", event).text)
        elif isinstance(event, Diagnostic):
            if event.code == MEDIA_NAMED:
                self._named_media = named_kinds(event.message)
        elif self._fold is not None and kind in CHOICE_EVENTS:
            self._fold.add(event)  # pyright: ignore[reportArgumentType]  # these are events of the model
        if self._record is not None:
            self._record.record_event(event)

    async def _begin(self) -> AsyncGenerator[LoopEvent]:
        gateway, turn = self._gateway, self.turn
        engine = gateway.engine(turn.request.model, turn.principal)
        if engine.traits.reads_silently:
            self._first_seconds = max(self._limits.first_seconds, self._limits.silent_first_seconds)
            self._seconds = self._first_seconds
        await gateway.request_limits.check(turn.request, gateway.may_defer(turn.request))
        if not (turn.resumes or turn.is_repeat):
            # What is resumed or joined was counted when it began.
            self._quota_uses = await gateway.quotas.admit_request(turn.principal)
        request = self._request_for(engine)
        if self._trace is not None:
            parts = self._trace.parts
            parts.gateway_messages = request.messages
            if turn.tool_owner is ToolOwner.GATEWAY:
                parts.gateway_tools = gateway.tool_catalog.tools_for(turn.principal, turn.tool_names)
            request = replace(request, on_prompt=parts.add_prompt)
        gateway_runs_calls = turn.tool_owner is ToolOwner.GATEWAY
        own_tools = gateway.tool_catalog.tools if gateway_runs_calls else ()
        self._record = gateway.telemetry.begin_answer(
            engine.model, engine.traits.name, own_tools, turn.resumes or turn.conversation
        )
        self._record.begin()
        answering = gateway.with_tool_search(
            engine,
            turn.principal,
            has_own_tools=gateway_runs_calls,
            client_tools=request.tools,
            declared=request.tool_search,
        )
        if not gateway_runs_calls:
            if request.tools:
                self._caller_request, self._fold = request, ReplyFold()
            if turn.is_claimed:
                return stream_keyed_reply(gateway, turn, answering, request)
            return answering.stream_request(request)
        self._conversation = await self._open_conversation(replace(turn, request=request), answering)
        if turn.is_claimed:
            return self._conversation.stream_joined(request.messages)
        if not turn.resumes:
            return self._conversation.answer(request.messages)
        # Approved, it may have been resumed elsewhere in the meantime, and have ended.
        is_unfinished = self._conversation.is_unfinished
        return self._conversation.stream_resumed() if is_unfinished else self._conversation.stream_joined(())

    def _postpone(self) -> None:
        """The engine reads the prompt, or writes what is not sent yet: its silence begins anew."""
        if self._timer is not None:
            seconds = max(self._first_seconds, self._limits.between_seconds)
            self._timer.postpone(min(seconds, max(self._deadline - time.monotonic(), 0.0)))

    @property
    def _is_joinable(self) -> bool:
        return self.turn.is_claimed or bool(self.turn.resumes)

    def _request_for(self, engine: RoutedEngine) -> ToolCallRequest:
        config, request = self._gateway.config, self._guarded.request
        policy, choice = request.tool_choice_policy, request.tool_choice
        # While a call is excluded no call is demanded: nothing else may be left to call.
        is_configured = policy is ChoicePolicy.AUTO and not request.excluded_calls
        return replace(
            request,
            # The configured name, not the client's: metrics and records are labelled with it.
            model=engine.model,
            max_tokens=config.limits.max_tokens if request.max_tokens is None else request.max_tokens,
            tool_choice_policy=config.tool_choice_policy if is_configured else policy,
            on_progress=self._postpone,
            tool_choice=ToolChoice.auto() if self.turn.tool_owner is ToolOwner.NOBODY else choice,
        )

    async def _open_own_conversation(self, turn: Turn, engine: Engine) -> ToolConversation:
        """Open the conversation in the ledger, so that each call runs at most once."""
        gateway = self._gateway
        id, seconds = turn.resumes or turn.conversation, gateway.config.lease_seconds
        executor = gateway.tool_catalog.executor(turn.principal, turn.tool_names)
        options: dict[str, Any] = {"is_one_turn": True, **conversation_options(gateway, turn)}
        if turn.resumes:
            await _check_owner(gateway, turn)
        elif turn.new_request is not None:
            lease = Lease.prepare(gateway.ledger, id, turn.principal, seconds, turn.new_request)
            return ToolConversation.with_lease(lease, engine, executor, **options)
        return await ToolConversation.open(
            gateway.ledger, id, engine, executor, lease=seconds, waits=self._is_joinable, **options
        )

    async def _after_effects(self, error: FerruleError) -> FerruleError:
        """Return the error for the client: another one, if a call with side effects was recorded before it.

        A client that retried the request would otherwise begin the effect again, or request a second approval.
        """
        id = self.turn.resumes or self.turn.conversation
        is_recorded = self._conversation is not None and self._conversation.is_recorded
        if not is_recorded or isinstance(error, InterruptedAnswerError):
            return error
        if self.turn.is_keyed and error.retryable:
            # Sent again with its key, it joins this answer: nothing begins anew.
            return error
        try:
            if not await has_effects(self._gateway.ledger, id):
                return error
        except LedgerError:
            # Nobody can say. The conversation was opened, so there may be effects.
            pass
        return InterruptedAnswerError(
            f"the answer broke off ({error.code}) after a tool with side effects was called",
            conversation=id,
            hint=f'Do not send the request again as it is. Resume it: {{"ferrule": {{"resume": "{id}"}}}}.',
        )

    async def _close(self, error: BaseException | None) -> None:
        """Close everything. Raises the error that the client receives, if that is another one."""
        self._is_closed = True
        try:
            if self._timer is not None:
                self._timer.close()
            if self._events is not None:
                await self._events.aclose()
        finally:
            if self._conversation is not None:
                await self._conversation.close()
            if self._record is not None:
                self._spend(self._record, is_broken_off=error is not None and not self.turn.is_repeat)
                self._record.end(error)

    def _spend(self, record: AnswerRecord, *, is_broken_off: bool) -> None:
        """Count what the answer has used."""
        prompt_chars = sum(len(message.content) for message in self.turn.request.messages)
        tokens = record.tokens_used(prompt_chars, is_broken_off=is_broken_off)
        self._gateway.quotas.spend(self.turn.principal, tokens, record.cost or 0.0)


def loop_headers(gateway: Gateway, tool_owner: ToolOwner, request: ToolCallRequest) -> dict[str, str]:
    """Return the header that says which calls the client's history repeats; none if there is no such call."""
    return _loop_header(_guard(gateway, tool_owner, request))


def _guard(gateway: Gateway, tool_owner: ToolOwner, request: ToolCallRequest) -> GuardedRequest:
    """Find loops in a history of calls that the client runs. A loop of the gateway's own calls has its own limits."""
    if tool_owner is ToolOwner.CALLER and gateway.config.loop_guard:
        return guard_request(request)
    return GuardedRequest(request)


def _loop_header(guarded: GuardedRequest) -> dict[str, str]:
    return {LOOP: loop_text(guarded.loops)} if guarded.loops else {}


def _deferred(request: ToolCallRequest) -> frozenset[str]:
    """Return the names of the tools that the client sent and the model is offered only after they were loaded."""
    entries = request.client_body.body.get("tools") if request.client_body is not None else None
    return frozenset(str(one.get("name")) for one in entries or () if one.get("defer_loading"))


def _trace_status(record: AnswerRecord | None, error: BaseException | None) -> TraceStatus:
    end = record.loop_end if record is not None else None
    if isinstance(error, FerruleError):
        return TraceStatus.FAILED
    if end is None:
        return TraceStatus.LEFT
    if end.state is State.WAITING:
        return TraceStatus.WAITING
    is_cut = bool(end.reason) or (record is not None and record.finish == FinishReason.LENGTH)
    return TraceStatus.INCOMPLETE if is_cut else TraceStatus.COMPLETED


def conversation_options(gateway: Gateway, turn: Turn, instructions: str | None = None) -> dict[str, Any]:
    """The options of every conversation that the gateway opens for a turn."""
    return {
        "patience": gateway.config.approval_patience_seconds,
        "request": replace(turn.request, messages=(), tools=()),
        "context": CallContext(principal=turn.principal, is_stopping=gateway.is_stopping),
        "instructions": instructions or "",
        "on_usage": gateway.tool_usage.record_usage,
        "hooks": gateway.hooks,
    }


async def _check_owner(gateway: Gateway, turn: Turn) -> None:
    """Raise the same error for a conversation of another principal as for one that does not exist."""
    # No database stores NUL in text, and PostgreSQL rejects it even in a query.
    is_valid = "\x00" not in turn.resumes and turn.resumes.isprintable()
    if not is_valid or await gateway.ledger.load(turn.resumes, turn.principal) is None:
        raise NotFoundError(
            "there is no such conversation", hint="Use the ID of a conversation of yours that is waiting."
        )
