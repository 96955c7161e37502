"""ChatEngine: any provider's chat API as an engine. The provider renders and parses; here its answer is made sure of.

Before anything is sent, tools and schema are admitted, and a choice that the API cannot say is said in another way or
refused. Every finished call is checked and leaves with a receipt. One whose arguments do not fit is repaired by having
its arguments, and nothing else, written again: `repairs` times at most, after the answer has ended, with the call's id
and name kept. A name that was not offered and a call that was cut off are refused without that.

What was handed on cannot be taken back, so while repairs are possible a call's arguments are held until it is known to
be good; `repairs=0` hands them on as they come. Text and reasoning always stream.

An answer that does not come to its end: where nothing was handed on it is an `EngineError`, for the caller may simply
ask again. Otherwise what was handed on stands, a diagnostic says what happened, and the answer ends with LENGTH, the
one reason by which every client knows an answer that is not whole; an exception would throw away text that a reader
has seen and calls that are good. A connection that fails or stalls raises on this engine as on all others.

Must not know any provider: that is a `ChatApi`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.choice import ChoiceMode
from ferrule.core.event import Diagnostic, Event, Finish, FinishReason, Usage, added
from ferrule.core.receipt import How, Receipt
from ferrule.core.reply import fold
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.chat.api import ChatApi
from ferrule.engines.chat.choice import Said, demanding, said
from ferrule.engines.chat.repair import Repair, answer, question
from ferrule.engines.chat.turn import FAILURES, Attempt, ChatTurn
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.http import PATIENT, Deadlines, Http
from ferrule.engines.receipts import Seal
from ferrule.engines.tool_admission import admitted, admitted_schema
from ferrule.errors import EngineError
from ferrule.schema.checker import checker_for


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """`repairs` is how often the arguments of one call may be written again; `is_streamed` off asks for whole answers,
    for a server that streams badly.
    """

    repairs: int = 1
    is_streamed: bool = True


class ChatEngine(Engine):
    """Calls that were checked, from anything with a chat API. The engine's model counts, not the request's."""

    def __init__(
        self, url: str, api: ChatApi, options: ChatOptions | None = None, deadlines: Deadlines = PATIENT
    ) -> None:
        self.options = options or ChatOptions()
        self.api = api
        self.traits: Traits = Traits(name=api.name, honours=api.honours | {"auto"}, parallel=api.parallel)
        self._http = Http(url.rstrip("/"), api.headers, deadlines)

    async def stream(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        ready = replace(
            request, tools=admitted(request.tools), response_schema=admitted_schema(request.response_schema)
        )
        asked = said(ready, self.api)
        if asked.unsaid:
            told = f"{self.api.name} has no place for {', '.join(asked.unsaid)}, so nothing was said of it"
            yield Diagnostic("not_sent", told)
        work = _Work(ready, asked, time.monotonic())
        turn = self._turn(work)
        async with aclosing(self._handed_on(work, turn)) as events:
            async for event in events:
                yield event
        if work.is_unanswered(turn) and turn.is_empty and not turn.is_cut_off:
            # An empty answer where a call was demanded: nobody has seen anything yet, so it is asked for once more.
            turn = self._turn(work)
            async with aclosing(self._handed_on(work, turn)) as events:
                async for event in events:
                    yield event
        if turn.failure and turn.is_empty:
            raise EngineError(f"{self.api.name}: {turn.failure.message}", code=turn.failure.code)
        async with aclosing(self._ended(work, turn)) as events:
            async for event in events:
                yield event

    async def close(self) -> None:
        await self._http.close()

    def _turn(self, work: _Work) -> ChatTurn:
        draft = Receipt(how=How.VALIDATED, engine=self.api.name, path=self.api.label, notes=work.asked.notes)
        return ChatTurn(Seal(work.offered, draft), self.options.repairs > 0, work.request.parallel_tool_calls)

    async def _handed_on(self, work: _Work, turn: ChatTurn) -> AsyncGenerator[Event, None]:
        async with aclosing(self._answered(work.asked.request, self.options.is_streamed)) as batches:
            async for batch in batches:
                turn.seal.seconds = work.seconds
                turn.seal.tokens = _tokens(batch) or turn.seal.tokens
                for event in turn.passed(batch):
                    yield event
        work.usage = added(work.usage, turn.usage)

    async def _answered(self, request: ToolCallRequest, is_streamed: bool) -> AsyncGenerator[list[Event], None]:
        """The events of one answer; an answer that the provider ends with an error is not waited for any longer."""
        decoder = self.api.decoder(request)
        async with aclosing(self._messages(self.api.request_body(request, stream=is_streamed), is_streamed)) as found:
            async for message in found:
                events = decoder.feed(message)
                yield events
                if any(isinstance(event, Diagnostic) and event.code in FAILURES for event in events):
                    break
        yield decoder.close()

    async def _messages(self, body: dict[str, Any], is_streamed: bool) -> AsyncGenerator[dict[str, Any], None]:
        if not is_streamed:
            whole = await self._http.post(self.api.path, body)
            if not isinstance(whole, dict):
                raise EngineError(f"{self.api.name} answered with JSON that is no object: {whole!r:.80}")
            yield cast("dict[str, Any]", whole)
            return
        framing = self.api.framing()
        async with aclosing(self._http.stream(self.api.path, body)) as received:
            async for data in received:
                for message in framing.feed(data):
                    yield message
        for message in framing.close():
            yield message

    async def _ended(self, work: _Work, turn: ChatTurn) -> AsyncGenerator[Event, None]:
        for attempt in turn.attempts:
            repair = Repair(None) if turn.is_cut_off else await self._repaired(work, turn, attempt)
            work.usage = added(work.usage, repair.usage)
            turn.seal.seconds = work.seconds
            if repair.arguments is None:
                events = turn.refused(attempt, repair.why_not)
            else:
                events = turn.replaced(attempt, repair.arguments, _repaired_seal(turn.seal, attempt, repair))
            for event in events:
                yield event
        if work.is_unanswered(turn):
            yield Diagnostic("choice_not_honoured", f"a call was demanded and {self.api.name} made none")
        for event in turn.invalid_answer(work.request.response_schema):
            yield event
        if turn.failure:
            yield turn.failure
        reason = FinishReason.TOOL_CALLS if turn.handed_on else FinishReason.STOP
        yield Finish(FinishReason.LENGTH if turn.is_cut_off else reason, work.usage)

    async def _repaired(self, work: _Work, turn: ChatTurn, attempt: Attempt) -> Repair:
        """Arguments that fit, or why none came. An engine that fails here costs the one call, not the answer."""
        tool = work.offered[attempt.name]
        usage: Usage | None = None
        for _ in range(self.options.repairs):
            asked = demanding(question(work.request, attempt, turn.text), tool, self.api)
            try:
                reply = fold([event async for events in self._answered(asked, False) for event in events])
            except EngineError as failure:
                return Repair(None, f"; asked again, {failure.message}", usage)
            usage = added(usage, reply.usage)
            written = answer(reply, attempt)
            if written is None:
                return Repair(None, f"; asked again, {self.api.name} made no call of it", usage)
            faults = checker_for(tool.parameters).faults_of_text(written)
            if not faults:
                return Repair(written, usage=usage)
            attempt = replace(attempt, arguments=written, faults=faults)
        return Repair(None, f"; written again: {attempt.told}", usage)


@dataclass(slots=True)
class _Work:
    """One request under way; `request` is what the caller wants, `asked` how the provider is told."""

    request: ToolCallRequest
    asked: Said
    started: float
    usage: Usage | None = None

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def offered(self) -> dict[str, ToolDefinition]:
        return {tool.name: tool for tool in self.request.choice.offered(self.request.tools)}

    def is_unanswered(self, turn: ChatTurn) -> bool:
        return self.request.choice.mode is ChoiceMode.REQUIRED and not turn.has_calls


def _repaired_seal(seal: Seal, attempt: Attempt, repair: Repair) -> Seal:
    told = f"the arguments were written again, because at first: {attempt.told}"
    draft = replace(seal.draft, how=How.REPAIRED, notes=(*seal.draft.notes, told))
    tokens = seal.tokens + (repair.usage.completion_tokens if repair.usage else 0)
    return Seal(seal.tools, draft, seconds=seal.seconds, tokens=tokens)


def _tokens(events: list[Event]) -> int:
    """What the answer took, which providers tell at its end; calls that ended before have no count."""
    last = events[-1] if events else None
    return last.usage.completion_tokens if isinstance(last, Finish) and last.usage else 0
