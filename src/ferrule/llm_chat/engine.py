"""BusEngine: an engine whose model is on the bus, behind `llm.chat@2.0`.

The worker renders, constrains and repairs; this engine checks each call again, because a worker may be any program. The
receipt of a call is the worker's, if it wrote one.

A worker that fails before it sent anything is replaced: the request goes to another one. Afterwards the events that
were handed on cannot be taken back, and the answer ends with an `EngineUnavailableError`.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field, replace

from ferrule.core.call import How, Receipt
from ferrule.core.context import CallContext, Principal
from ferrule.core.event import CallEnd, Event, Finish, FinishReason
from ferrule.core.named_media import name_unsupported_media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.request import ChoiceMode, ToolCallRequest
from ferrule.dialects.lenient_json import mapping
from ferrule.dialects.openai_chat.media import takes_media
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.receipts import ReceiptWriter
from ferrule.engines.repair import no_valid_call
from ferrule.engines.turn import CheckedTurn
from ferrule.errors import (
    AuthorityError,
    DefinitionError,
    EngineAccessError,
    EngineError,
    EngineModelError,
    EngineRateLimitError,
    EngineRequestError,
    EngineTimeoutError,
    EngineUnavailableError,
    FerruleError,
    InvalidResponseError,
    NoValidCallError,
    SchemaError,
    UnsupportedError,
)
from ferrule.llm_chat.body import encode_body
from ferrule.llm_chat.frames import FrameDecoder
from ferrule.schema.admission_cache import admit_schema, admit_tools
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import DEFAULT_URL
from ferrule.sources.bus.subject import MODEL, Capability
from ferrule.sources.bus.token import LOCAL

_TOTAL, _TRIES = 3600.0, 3
_NOTE = "generated on the bus, checked by the caller"


class BusEngine(Engine):
    """Asks the model behind a capability.

    `context` says who asks; its principal needs the scope `llm.chat`. `total` is how many seconds an answer may take,
    and `tries` is how many workers are asked if one fails before it answers. A bus that is passed in stays open.

    Example:
        engine = load_engine("bus:llm.chat@2.0?nats=nats://127.0.0.1:4222")
        print((await engine.ask("How are you?")).text)
    """

    def __init__(
        self,
        bus: Bus,
        capability: str = str(MODEL),
        *,
        context: CallContext | None = None,
        total: float = _TOTAL,
        tries: int = _TRIES,
        is_owned: bool = False,
    ) -> None:
        self.traits = Traits(name="bus", honours=ALL_CHOICES)
        self._capability = Capability.read(capability)
        self._context = context or CallContext(principal=Principal(tenant=bus.tenant))
        self._total, self._tries = total, tries
        self._bus, self._is_owned = bus, is_owned
        self._is_open = not is_owned
        self._opening = asyncio.Lock()

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        admitted = replace(
            request, tools=admit_tools(request.tools), response_schema=admit_schema(request.response_schema)
        )
        admitted, named = name_unsupported_media(admitted, takes_media)
        for diagnostic in named:
            yield diagnostic
        offered = {tool.name: tool for tool in admitted.choice.select_tools(admitted.tools)}
        body = encode_body(admitted)
        await self._open()
        for remaining in reversed(range(self._tries)):
            answer = _Answer(
                admitted, ReceiptWriter(offered, Receipt(how=How.VALIDATED, engine="bus", path=str(self._capability)))
            )
            context = replace(self._context, deadline=time.time() + self._total)
            outcome: Outcome = NotDelivered("nothing was sent")
            async with aclosing(self._bus.stream_capability(self._capability, body, context)) as items:
                async for item in items:
                    if isinstance(item, Answered | NotDelivered | Unknown):
                        outcome = item
                        continue
                    for event in answer.feed(item):
                        yield event
            if isinstance(outcome, Answered) and not outcome.is_error:
                for event in answer.finish():
                    yield event
                return
            error = _error_of(outcome, self._capability)
            if answer.has_begun or not remaining or isinstance(outcome, Answered):
                raise error

    async def close(self) -> None:
        if self._is_owned and self._is_open:
            self._is_open = False
            await self._bus.close()

    async def _open(self) -> None:
        """Open a bus of its own with the first request."""
        async with self._opening:
            if not self._is_open:
                await self._bus.open()
                self._is_open = True


@dataclass(slots=True)
class _Answer:
    """One answer: what the worker sent, checked."""

    request: ToolCallRequest
    receipts: ReceiptWriter
    has_begun: bool = False
    _decoder: FrameDecoder = field(default_factory=FrameDecoder)
    _turn: CheckedTurn = field(init=False)

    def __post_init__(self) -> None:
        self._turn = CheckedTurn(self.receipts, can_repair=False, is_parallel=self.request.parallel_tool_calls)

    def feed(self, frame: object) -> Iterator[Event]:
        for event in self._turn.process(self._decoder.feed(frame)):
            self.has_begun = True
            yield self._with_receipt(event)

    def finish(self) -> Iterator[Event]:
        turn = self._turn
        if turn.finish is None:
            raise EngineError("the model's worker ended its answer without a done frame")
        is_required = self.request.choice.mode is ChoiceMode.REQUIRED
        if is_required and not turn.completed_calls and not turn.is_cut_off:
            raise no_valid_call("the model's worker", "; ".join(turn.refusals))
        yield from turn.invalid_answer(self.request.response_schema)
        reason = FinishReason.TOOL_CALLS if turn.completed_calls else FinishReason.STOP
        yield Finish(FinishReason.LENGTH if turn.is_cut_off else reason, turn.usage)

    def _with_receipt(self, event: Event) -> Event:
        claimed = self._decoder.receipts.get(event.index) if isinstance(event, CallEnd) else None
        if claimed is None or not isinstance(event, CallEnd) or event.complete is (claimed.how is How.REFUSED):
            # A call that was found invalid here keeps the receipt that says so.
            return event
        return replace(event, receipt=replace(claimed, notes=(*claimed.notes, _NOTE)))


# The errors that a worker may report, by their code. Their texts are the worker's, for a caller.
_ERRORS: Mapping[str, type[FerruleError]] = {
    kind.code: kind
    for kind in (
        *(AuthorityError, DefinitionError, SchemaError),
        *(EngineAccessError, EngineModelError, EngineRateLimitError, EngineRequestError, EngineTimeoutError),
        *(EngineUnavailableError, InvalidResponseError, NoValidCallError, UnsupportedError),
    )
}


def _error_of(outcome: Outcome, capability: Capability) -> FerruleError:
    match outcome:
        case Answered(content, _, code):
            details = mapping(content)
            texts = {name: text for name, text in details.items() if isinstance(text, str)}
            message = texts.get("message") or str(content)
            error = _ERRORS.get(code, EngineError)(message, code=code, hint=texts.get("hint", ""))
            error.param = texts.get("param", "")
            return error
        case NotDelivered(reason):
            return EngineUnavailableError(
                f"{capability}: {reason}", hint="Start a worker for it: ferrule worker --engine ENGINE."
            )
        case Unknown(reason, "timeout"):
            return EngineTimeoutError(f"{capability}: {reason}", hint="Request less, or allow more time (`total`).")
        case Unknown(reason):
            return EngineUnavailableError(f"{capability}: {reason}", hint="Send the request again.")


def bus(
    capability: str,
    *,
    nats: str = DEFAULT_URL,
    tenant: str = LOCAL,
    key: str = "",
    principal: str = "local",
    credentials: str = "",
    inbox: str = "",
    total: float = _TOTAL,
    tries: int = _TRIES,
) -> BusEngine:
    """Make the engine of a string such as `bus:llm.chat@2.0?nats=nats://127.0.0.1:4222`."""
    connected = Bus(
        nats,
        id="model",
        tenant=tenant,
        key=key.encode() or None,
        credentials=credentials,
        inbox=inbox,
    )
    context = CallContext(principal=Principal(principal, tenant))
    return BusEngine(connected, capability, context=context, total=total, tries=tries, is_owned=True)
