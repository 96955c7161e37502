"""ChatEngine: an engine on a provider's chat API. The provider renders and parses; this engine checks its answers.

Before anything is sent, tools and schema are admitted, and a choice that the API cannot express is expressed in another
way or refused. Every finished call is checked and gets a receipt. A call with invalid arguments is repaired: after the
answer has ended, the model writes the arguments, and nothing else, again, at most `repairs` times. The call keeps its
id and name. A call of a tool that was not offered, or one that was cut off, is refused without a repair.

Events cannot be taken back. So while repairs are possible, a call's arguments are buffered until the call is known to
be valid; with `repairs=0` they stream as they arrive. Text and reasoning always stream.

If an answer breaks off before any event was sent, the engine raises `EngineError`, and the caller can retry. Otherwise
the events that were sent stay valid, a diagnostic says what happened, and the answer finishes with LENGTH, the reason
by which every client recognizes an incomplete answer. An exception would discard text that a reader has seen and valid
calls. A connection that fails or stalls raises, as on every other engine.

Must not know any provider: that is a `ChatApi`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.choice import ChoiceMode
from ferrule.core.event import Diagnostic, Event, Finish, FinishReason, Usage, add_usage
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.choice import AdaptedRequest, adapt_request, require_call
from ferrule.engines.chat.repair import Repair, new_arguments, repair_request
from ferrule.engines.chat.turn import FAILURES, Attempt, ChatTurn
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.http import DEFAULT_DEADLINES, Deadlines, HttpClient
from ferrule.engines.receipts import ReceiptWriter
from ferrule.errors import EngineError
from ferrule.schema.admission_cache import admit_schema, admit_tools
from ferrule.schema.checker import checker_for


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of chat engines.

    `repairs` is how often the model may write the arguments of one call again. `is_streamed=False` requests answers in
    one piece, for servers that do not stream correctly.
    """

    repairs: int = 1
    is_streamed: bool = True


class ChatEngine(Engine):
    """Generates checked calls through any chat API. The model is the engine's, not the request's."""

    def __init__(
        self, url: str, api: ChatApi, options: ChatOptions | None = None, deadlines: Deadlines = DEFAULT_DEADLINES
    ) -> None:
        self.options = options or ChatOptions()
        self.api = api
        self.traits: Traits = Traits(name=api.name, honours=api.honours | {"auto"}, parallel=api.parallel)
        self._http = HttpClient(url.rstrip("/"), api.headers, deadlines)

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        admitted = replace(
            request, tools=admit_tools(request.tools), response_schema=admit_schema(request.response_schema)
        )
        adapted = adapt_request(admitted, self.api)
        if adapted.dropped_fields:
            message = f"{self.api.name} does not support {', '.join(adapted.dropped_fields)}, so this was not sent"
            yield Diagnostic("not_sent", message)
        exchange = _Exchange(admitted, adapted, time.monotonic())
        turn = self._turn(exchange)
        async with aclosing(self._forward_events(exchange, turn)) as events:
            async for event in events:
                yield event
        if exchange.is_unanswered(turn) and turn.is_empty and not turn.is_cut_off:
            # An empty answer although a call was required. No event was sent yet, so the request is sent once more.
            turn = self._turn(exchange)
            async with aclosing(self._forward_events(exchange, turn)) as events:
                async for event in events:
                    yield event
        if turn.failure and turn.is_empty:
            raise EngineError(f"{self.api.name}: {turn.failure.message}", code=turn.failure.code)
        async with aclosing(self._finish(exchange, turn)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        await self._http.close()

    def _turn(self, exchange: _Exchange) -> ChatTurn:
        draft = Receipt(how=How.VALIDATED, engine=self.api.name, path=self.api.label, notes=exchange.adapted.notes)
        return ChatTurn(
            ReceiptWriter(exchange.offered, draft), self.options.repairs > 0, exchange.request.parallel_tool_calls
        )

    async def _forward_events(self, exchange: _Exchange, turn: ChatTurn) -> AsyncGenerator[Event, None]:
        async with aclosing(self._event_batches(exchange.adapted.request, self.options.is_streamed)) as batches:
            async for batch in batches:
                turn.receipts.seconds = exchange.seconds
                turn.receipts.tokens = _completion_tokens(batch) or turn.receipts.tokens
                for event in turn.process(batch):
                    yield event
        exchange.usage = add_usage(exchange.usage, turn.usage)

    async def _event_batches(self, request: ToolCallRequest, is_streamed: bool) -> AsyncGenerator[list[Event], None]:
        """Yield the events of one answer, and stop at the first error that the provider reports."""
        decoder = self.api.decoder(request)
        async with aclosing(
            self._messages(self.api.request_body(request, stream=is_streamed), is_streamed)
        ) as messages:
            async for message in messages:
                events = decoder.feed(message)
                yield events
                if any(isinstance(event, Diagnostic) and event.code in FAILURES for event in events):
                    break
        yield decoder.close()

    async def _messages(self, body: dict[str, Any], is_streamed: bool) -> AsyncGenerator[dict[str, Any], None]:
        if not is_streamed:
            response = await self._http.post(self.api.path, body)
            if not isinstance(response, dict):
                raise EngineError(f"{self.api.name} did not answer with a JSON object: {response!r:.80}")
            yield cast("dict[str, Any]", response)
            return
        framing = self.api.framing()
        async with aclosing(self._http.stream(self.api.path, body)) as data_chunks:
            async for data in data_chunks:
                for message in framing.feed(data):
                    yield message
        for message in framing.close():
            yield message

    async def _finish(self, exchange: _Exchange, turn: ChatTurn) -> AsyncGenerator[Event, None]:
        for attempt in turn.attempts:
            repair = Repair(None) if turn.is_cut_off else await self._repair(exchange, turn, attempt)
            exchange.usage = add_usage(exchange.usage, repair.usage)
            turn.receipts.seconds = exchange.seconds
            if repair.arguments is None:
                events = turn.refuse(attempt, repair.reason)
            else:
                events = turn.replace_arguments(
                    attempt, repair.arguments, _repair_receipts(turn.receipts, attempt, repair)
                )
            for event in events:
                yield event
        if exchange.is_unanswered(turn):
            yield Diagnostic("choice_not_honoured", f"a call was required, and {self.api.name} made none")
        for event in turn.invalid_answer(exchange.request.response_schema):
            yield event
        if turn.failure:
            yield turn.failure
        reason = FinishReason.TOOL_CALLS if turn.completed_calls else FinishReason.STOP
        yield Finish(FinishReason.LENGTH if turn.is_cut_off else reason, exchange.usage)

    async def _repair(self, exchange: _Exchange, turn: ChatTurn, attempt: Attempt) -> Repair:
        """Return valid arguments, or why there are none. A failure here costs only this call, not the answer."""
        tool = exchange.offered[attempt.name]
        usage: Usage | None = None
        for _ in range(self.options.repairs):
            request = require_call(repair_request(exchange.request, attempt, turn.text), tool, self.api)
            try:
                reply = fold([event async for events in self._event_batches(request, False) for event in events])
            except EngineError as failure:
                return Repair(None, f"; the repair failed: {failure.message}", usage)
            usage = add_usage(usage, reply.usage)
            arguments = new_arguments(reply, attempt)
            if arguments is None:
                return Repair(None, f"; the repair failed: {self.api.name} did not call the tool again", usage)
            faults = checker_for(tool.parameters).faults_of_text(arguments)
            if not faults:
                return Repair(arguments, usage=usage)
            attempt = replace(attempt, arguments=arguments, faults=faults)
        return Repair(None, f"; after the repair: {attempt.message}", usage)


@dataclass(slots=True)
class _Exchange:
    """One request in progress; `request` is the caller's, `adapted` is what the provider gets."""

    request: ToolCallRequest
    adapted: AdaptedRequest
    started: float
    usage: Usage | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def offered(self) -> dict[str, ToolDefinition]:
        return {tool.name: tool for tool in self.request.choice.select_tools(self.request.tools)}

    def is_unanswered(self, turn: ChatTurn) -> bool:
        return self.request.choice.mode is ChoiceMode.REQUIRED and not turn.has_calls


def _repair_receipts(receipts: ReceiptWriter, attempt: Attempt, repair: Repair) -> ReceiptWriter:
    note = f"the arguments were repaired; the first attempt failed: {attempt.message}"
    draft = replace(receipts.draft, how=How.REPAIRED, notes=(*receipts.draft.notes, note))
    tokens = receipts.tokens + (repair.usage.completion_tokens if repair.usage else 0)
    return ReceiptWriter(receipts.tools, draft, seconds=receipts.seconds, tokens=tokens)


def _completion_tokens(events: list[Event]) -> int:
    """The completion tokens of an answer. Providers report them at its end, so calls that end earlier have none."""
    last = events[-1] if events else None
    return last.usage.completion_tokens if isinstance(last, Finish) and last.usage else 0
