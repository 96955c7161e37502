"""AnswerStream: the one way from a turn to the events of its answer, for every API.

It selects the engine, checks the limits, opens the conversation if the gateway runs the calls, keeps the deadlines and
records what is measured. An API only encodes the events: as an HTTP response (`answer.response`), as stored response
events, or as WebSocket frames.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Self, cast

from ferrule.core import history
from ferrule.core.context import CallContext
from ferrule.core.event import CallEnd, Diagnostic, Finish, FinishReason, RuleShown, TextDelta
from ferrule.core.message import ChatMessage
from ferrule.core.reply import ReplyFold
from ferrule.core.request import ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.engines.deadlines import DeadlineTimer
from ferrule.errors import EngineTimeoutError, FerruleError, InterruptedAnswerError, LedgerError, NotFoundError
from ferrule.run.conversation import ToolConversation
from ferrule.run.events import LoopEnded, LoopEvent
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
from ferrule.server.observability.trace_recorder import OpenRequest
from ferrule.server.router import RoutedEngine

# Why a call was not passed on, except that it was cut off: then the finish reason says so.
_REFUSALS = frozenset({"invalid_arguments", "not_offered", "malformed_call", "one_call_only", "bad_arguments"})
ConversationOpener = Callable[[Turn, RoutedEngine], Awaitable[ToolConversation]]


class AnswerStream:
    """The events of one answer, ending in `LoopEnded`. Iterate it once; `aclose` stops the engine and the tools.

    It is an iterator and not a generator, because each nested generator costs every event once more.

    `open_conversation` replaces the gateway's own for callers that keep the conversation in the ledger themselves.
    Raises `EngineTimeoutError` after a deadline. The clock stands still while the reader handles an event: an engine is
    not to blame for a slow reader.
    """

    def __init__(self, gateway: Gateway, turn: Turn, open_conversation: ConversationOpener | None = None) -> None:
        self._gateway = gateway
        self._turn = turn
        self._open_conversation = open_conversation or self._open_own_conversation
        self._limits = gateway.config.limits
        self._seconds = self._limits.first_seconds
        self._deadline = time.monotonic() + self._limits.total_seconds
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
        self._is_closed = False

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> LoopEvent:
        if self._is_closed:
            raise StopAsyncIteration
        try:
            event = await self._next_event()
        # Whatever broke the answer off, everything is closed, and the record has it.
        except BaseException as error:
            client_error = error
            try:
                try:
                    await self._close(error)
                except FerruleError as other_error:
                    client_error = other_error
                if isinstance(client_error, FerruleError):
                    client_error = await self._after_effects(client_error)
            finally:
                self._trace_end(client_error)
            if client_error is error:
                raise
            raise client_error from error
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
        is_kept = self._turn.is_claimed and self._events is not None
        if self._conversation is not None or is_kept:
            trace.conversation = self._turn.resumes or self._turn.conversation
        if record is not None:
            trace.model, trace.finish, trace.cost = record.model, record.finish, record.cost
            trace.prompt_tokens, trace.completion_tokens = record.prompt_tokens, record.completion_tokens
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
            turn = self._turn
            self._trace = self._gateway.traces.begin(turn.principal, turn.request.messages, turn.request.model or "")
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
                timer.start(self._limits.total_seconds if self._is_joinable else self._seconds, task)
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
            self._seconds = self._limits.between_seconds
        if kind is TextDelta:
            self._texts.append(cast("TextDelta", event).text)
        elif self._fold is not None and kind in CHOICE_EVENTS:
            self._fold.add(event)  # pyright: ignore[reportArgumentType]  # these are events of the model
        if self._record is not None:
            self._record.record_event(event)

    async def _begin(self) -> AsyncGenerator[LoopEvent]:
        gateway, turn = self._gateway, self._turn
        engine = gateway.engine(turn.request, turn.principal)
        await gateway.request_limits.check(turn.request)
        request = self._request_for(engine)
        gateway_runs_calls = turn.tool_owner is ToolOwner.GATEWAY
        own_tools = gateway.tool_catalog.tools if gateway_runs_calls else ()
        self._record = gateway.telemetry.begin_answer(
            engine.model, engine.traits.name, own_tools, turn.resumes or turn.conversation
        )
        self._record.begin()
        if not gateway_runs_calls:
            if request.tools:
                self._caller_request, self._fold = request, ReplyFold()
            if turn.is_claimed:
                return stream_keyed_reply(gateway, turn, engine, request)
            return engine.stream_request(request)
        self._conversation = await self._open_conversation(replace(turn, request=request), engine)
        if turn.is_claimed:
            return self._conversation.stream_joined(request.messages)
        if not turn.resumes:
            return self._conversation.answer(request.messages)
        # Approved, it may have been resumed elsewhere in the meantime, and have ended.
        is_unfinished = self._conversation.is_unfinished
        return self._conversation.stream_resumed() if is_unfinished else self._conversation.stream_joined(())

    @property
    def _is_joinable(self) -> bool:
        return self._turn.is_claimed or bool(self._turn.resumes)

    def _request_for(self, engine: RoutedEngine) -> ToolCallRequest:
        config, request = self._gateway.config, self._turn.request
        policy, choice = request.tool_choice_policy, request.tool_choice
        return replace(
            request,
            # The configured name, not the client's: metrics and records are labelled with it.
            model=engine.model,
            max_tokens=config.limits.max_tokens if request.max_tokens is None else request.max_tokens,
            tool_choice_policy=config.tool_choice_policy if policy is ChoicePolicy.AUTO else policy,
            tool_choice=ToolChoice.auto() if self._turn.tool_owner is ToolOwner.NOBODY else choice,
        )

    async def _open_own_conversation(self, turn: Turn, engine: RoutedEngine) -> ToolConversation:
        """Open the conversation in the ledger, so that each call runs at most once."""
        gateway = self._gateway
        id = turn.resumes or turn.conversation
        if turn.resumes:
            await _check_owner(gateway, turn)
        return await ToolConversation.open(
            gateway.ledger,
            id,
            engine,
            gateway.tool_catalog.executor(turn.principal, turn.tool_names),
            lease=gateway.config.lease_seconds,
            waits=self._is_joinable,
            is_one_turn=True,
            **conversation_options(gateway, turn),
        )

    async def _after_effects(self, error: FerruleError) -> FerruleError:
        """Return the error for the client: another one, if a call with side effects was recorded before it.

        A client that retried the request would otherwise begin the effect again, or request a second approval.
        """
        id = self._turn.resumes or self._turn.conversation
        if self._conversation is None or isinstance(error, InterruptedAnswerError):
            return error
        if self._turn.is_keyed and error.retryable:
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
                self._record.end(error)


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
        "context": CallContext(principal=turn.principal),
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
