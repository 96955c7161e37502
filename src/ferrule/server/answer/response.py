"""An answer as an HTTP response, whole or as a stream. Independent of any dialect: an `ApiEncoder` encodes the events.

APIs without rounds get one answer, whatever the loop does (`RoundFlattener`). Calls that the gateway runs are not part
of that answer. They are reported as extension events next to it, as is everything that tools and approvers do
meanwhile. Calls that the client runs pass through.

Nothing is sent before there is something to say, so that a failure before it gets an HTTP status and the API's error
body: also an engine that breaks off inside its first call. Every client knows whether to retry after a status; after an
error inside a stream, some give up.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol, Self, TypeVar, cast

from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    TextDelta,
    ToolSearch,
    add_usage,
)
from ferrule.core.reply import Reply, ReplyFold
from ferrule.dialects.extension import KEY
from ferrule.errors import FerruleError
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.machine import State
from ferrule.server.answer.plan import ToolOwner, Turn
from ferrule.server.answer.stream import AnswerStream
from ferrule.server.answer.waiting_text import waiting_text
from ferrule.server.config.config import GatewayLimits
from ferrule.server.http import StreamingResponse

_FIRST_DATA_SECONDS = 10.0
"""How long to wait for something to send. Then the answer starts anyway, and errors come inside the stream."""
RECEIPTS = "ferrule-receipts"
"""The response header with the receipts of the calls, for clients that do not read the extension."""


@dataclass(frozen=True, slots=True)
class ExtensionEvent:
    """Data that no API has a field for. It is sent under the extension's key, which strict clients ignore."""

    data: dict[str, Any]


AnswerEvent = Event | ExtensionEvent


E = TypeVar("E")
E_contra = TypeVar("E_contra", contravariant=True)
E_co = TypeVar("E_co", covariant=True)


class AnswerEvents(Protocol[E_co]):
    """The events of one answer: an `AnswerStream`, or the parts of an answer that is forwarded."""

    @property
    def headers(self) -> dict[str, str]: ...

    def __aiter__(self) -> Self: ...

    async def __anext__(self) -> E_co: ...

    async def aclose(self) -> None: ...


class ApiEncoder(Protocol[E_contra]):
    """Encodes the events of one answer in one API as bytes."""

    def feed(self, event: E_contra, /) -> bytes: ...

    def fail(self, error: FerruleError, /) -> bytes:
        """End the answer with an error of the API."""
        ...

    def end(self) -> bytes:
        """Return what follows the last event."""
        ...

    @property
    def keep_alive(self) -> bytes: ...


@dataclass(slots=True)
class RoundFlattener:
    """`gateway_runs_calls`: the calls are not the client's. `conversation` is sent if an answer waits for approval."""

    gateway_runs_calls: bool = False
    conversation: str = ""
    _finish: Finish | None = None
    _calls: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    has_text: bool = False
    _pending: list[ConfirmationRequired] = field(default_factory=list[ConfirmationRequired])

    @staticmethod
    def of(turn: Turn) -> RoundFlattener:
        return RoundFlattener(turn.tool_owner is ToolOwner.GATEWAY, turn.conversation)

    def feed(self, event: LoopEvent) -> list[AnswerEvent]:
        match event:
            case Finish():
                self._finish = _sum_usage(self._finish, event)
                return []
            case CallStart() | ArgumentsDelta() | CallEnd() if self.gateway_runs_calls:
                return self._gateway_call(event)
            case ToolStarted(call):
                return [
                    ExtensionEvent(
                        {"tool_started": {"id": call.id, "name": call.name, "arguments": call.function.arguments}}
                    )
                ]
            case ToolProgressed(id, progress):
                return [ExtensionEvent({"tool_progress": {"id": id, **asdict(progress)}})]
            case ToolFinished(result):
                data = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error}
                media = {"media": [one.as_dict() for one in result.media]} if result.media else {}
                return [ExtensionEvent({"tool_finished": {**data, "content": result.content, **media}})]
            case ToolSearch(declared=declared) if declared:
                return [event]
            case ToolSearch(call, _, found):
                # A client that brings its own tools never heard of a search.
                data = {"id": call.id, "arguments": call.function.arguments, "found": list(found)}
                return [ExtensionEvent({"tool_search": data})] if self.gateway_runs_calls else []
            case ConfirmationRequired(call, approval):
                self._pending.append(event)
                data = {"approval": approval, "id": call.id, "name": call.name, "arguments": call.function.arguments}
                return [ExtensionEvent({"confirmation_required": data})]
            case LoopEnded(state, limit):
                return self._end(state, limit)
            case _:
                self.has_text = self.has_text or isinstance(event, TextDelta)
                return [event]

    def _gateway_call(self, event: CallStart | ArgumentsDelta | CallEnd) -> list[AnswerEvent]:
        match event:
            case CallStart(index, id, name):
                self._calls[index] = (id, name)
            case CallEnd(index, complete, receipt) if receipt:
                id, name = self._calls.get(index, ("", ""))
                return [
                    ExtensionEvent(
                        {"tool_call": {"id": id, "name": name, "complete": complete, "receipt": receipt.as_dict()}}
                    )
                ]
            case _:
                pass
        return []

    def _end(self, state: State, limit: str) -> list[AnswerEvent]:
        usage = self._finish.usage if self._finish else None
        events: list[AnswerEvent] = []
        if limit:
            events.append(ExtensionEvent({"limit": limit}))
        if state is State.WAITING and self.gateway_runs_calls:
            events += self._pending_events()
        reason = self._finish.reason if self._finish else FinishReason.STOP
        if self.gateway_runs_calls and reason is FinishReason.TOOL_CALLS:
            # The calls were the gateway's, and have been run.
            reason = FinishReason.STOP
        return [*events, Finish(reason, usage, self._finish.stop if self._finish else "")]

    def _pending_events(self) -> list[AnswerEvent]:
        """Report the pending approvals, also as text, for clients that do not read the extension."""
        approvals = [one.approval for one in self._pending]
        extension = ExtensionEvent({"waiting": {"conversation": self.conversation, "approvals": approvals}})
        return [extension, TextDelta(waiting_text(self._pending, after_text=self.has_text))]


class FlatEncoder(ABC):
    """The encoder of an API without rounds: each event of the flattened answer is encoded on its own."""

    def __init__(self, turn: Turn) -> None:
        self._flattener = RoundFlattener.of(turn)

    def feed(self, event: LoopEvent, /) -> bytes:
        if event.__class__ is TextDelta:
            # Nearly every event: rounds do not concern it.
            self._flattener.has_text = True
            return self.encode_event(cast("TextDelta", event))
        return b"".join(
            [
                self.encode_extension(one.data) if isinstance(one, ExtensionEvent) else self.encode_event(one)
                for one in self._flattener.feed(event)
            ]
        )

    @abstractmethod
    def encode_event(self, event: Event) -> bytes: ...

    @abstractmethod
    def encode_extension(self, data: dict[str, Any]) -> bytes: ...


def _sum_usage(earlier: Finish | None, latest: Finish) -> Finish:
    if earlier is None or earlier.usage is None or latest.usage is None:
        return latest
    return replace(latest, usage=add_usage(earlier.usage, latest.usage))


async def collect_answer(answer: AnswerStream) -> tuple[Reply, list[ExtensionEvent]]:
    """Return the whole answer to a turn, and its extension events."""
    flattener, folding = RoundFlattener.of(answer.turn), ReplyFold()
    extension_events: list[ExtensionEvent] = []
    async with aclosing(answer) as events:
        async for loop_event in events:
            for event in flattener.feed(loop_event):
                if isinstance(event, ExtensionEvent):
                    extension_events.append(event)
                else:
                    folding.add(event)
    return folding.reply(), extension_events


async def stream_answer(events: AnswerEvents[E], encoder: ApiEncoder[E], limits: GatewayLimits) -> StreamingResponse:
    """Return the answer as a stream. An error before there is something to send is raised here."""
    first = asyncio.ensure_future(_next_data(events, encoder))
    try:
        await asyncio.wait({first}, timeout=_FIRST_DATA_SECONDS)
        if first.done():
            first.result()
    except (asyncio.CancelledError, FerruleError):
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await events.aclose()
        raise
    return StreamingResponse(
        _encode_events(first, events, encoder),
        headers=events.headers,
        keep_alive=encoder.keep_alive,
        keep_alive_seconds=limits.keep_alive_seconds,
    )


async def _next_data(events: AnswerEvents[E], encoder: ApiEncoder[E]) -> bytes:
    """Encode events until there is something to send; empty at the end of the answer."""
    async for event in events:
        if data := encoder.feed(event):
            return data
    return b""


async def _encode_events(
    first: asyncio.Future[bytes], events: AnswerEvents[E], encoder: ApiEncoder[E]
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(events):
            if data := await first:
                yield data
                async for event in events:
                    if data := encoder.feed(event):
                        yield data
        yield encoder.end()
    except FerruleError as error:
        yield encoder.fail(error)
    finally:
        first.cancel()


def response_headers(answer: AnswerStream, reply: Reply) -> dict[str, str]:
    """Return the headers of an answer that is sent whole."""
    return {**answer.headers, **receipts_header(reply)}


def receipts_header(reply: Reply) -> dict[str, str]:
    """Return the header with `id=how` for each call, joined by commas; none if there is no call."""
    receipts = [f"{call.id}={call.receipt.how}" for call in reply.calls if call.receipt]
    return {RECEIPTS: ", ".join(receipts)} if receipts else {}


def with_extension_events(body: dict[str, Any], events: list[ExtensionEvent]) -> dict[str, Any]:
    """Return the body of an answer with its extension events under the extension's key."""
    data = [event.data for event in events]
    return {**body, KEY: {**body.get(KEY, {}), "events": data}} if data else body
