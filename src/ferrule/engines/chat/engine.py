"""ChatEngine: an engine on a provider's chat API. The provider renders and parses; this engine checks its answers.

Before anything is sent, tools and schema are admitted, and a choice that the API cannot express is expressed in another
way or refused. Every finished call is checked and gets a receipt. An invalid call is repaired: after the answer has
ended, the model writes it again, at most `repairs` times. The call keeps its id. A call whose arguments are invalid, or
were cut off by the token limit, keeps its tool; one of a tool that was not offered may become a call of another, or a
text.

Events cannot be taken back. So while repairs are possible, a call's arguments are buffered until the call is known to
be valid; with `repairs=0` they stream as they arrive. Text and reasoning always stream; of a repair, only a text that
replaces a call is added.

If an answer breaks off before any event was sent, the engine raises `EngineError`, and the caller can retry. Otherwise
the events that were sent stay valid, a diagnostic says what happened, and the answer finishes with LENGTH, the reason
by which every client recognizes an incomplete answer. An exception would discard text that a reader has seen and valid
calls. A connection that fails or stalls raises, as on every other engine.

Must not know any provider: that is a `ChatApi`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, cast

from ferrule.core.call import How, Receipt
from ferrule.core.event import Diagnostic, Event, Finish, FinishReason, Usage, add_usage
from ferrule.core.media import to_media_kinds
from ferrule.core.named_media import has_media, name_unsupported_media
from ferrule.core.reply import Reply, fold
from ferrule.core.request import ChoiceMode, ChoicePolicy, ToolCallRequest, ToolChoice
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.lenient_json import mapping
from ferrule.engines.chat.api import ChatApi, ReplyDecoder
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.forward import HttpForwarder
from ferrule.engines.http import DEFAULT_DEADLINES, ByteStream, Deadlines, HttpClient
from ferrule.engines.receipts import ReceiptWriter, ignored_notes
from ferrule.engines.repair import Attempt, Repair, no_valid_call, repair_call, repair_request, repaired_draft
from ferrule.engines.turn import FAILURES, CheckedTurn
from ferrule.errors import EngineError, UnsupportedError
from ferrule.schema.admission_cache import admit_schema, admit_tools
from ferrule.wire.drift import DriftReader

# Tool choice for chat APIs: adapts a request to an API that cannot express all of it, or refuses it before it is
# sent.
#
# Must not know any provider: what an API can express is in its `ChatApi`.


@dataclass(frozen=True, slots=True)
class AdaptedRequest:
    """A request that the API can express. `notes` are for receipts; `dropped_fields` were left out."""

    request: ToolCallRequest
    notes: tuple[str, ...] = ()
    dropped_fields: tuple[str, ...] = ()


def adapt_request(request: ToolCallRequest, api: ChatApi) -> AdaptedRequest:
    """Express the request in the API's terms; `UnsupportedError` if that is not possible."""
    resolved = replace(request, tool_choice=request.choice, tool_choice_policy=ChoicePolicy.AUTO)
    resolved.tool_choice.select_tools(resolved.tools)
    dropped = tuple(name for name in api.unsupported_fields if getattr(resolved, name) not in (None, ()))
    # All of these fields except `stop` are None if not set.
    resolved = replace(resolved, **{name: () if name == "stop" else None for name in dropped})
    unknown = tuple(name for name in resolved.engine_options if name not in api.options)
    if unknown:
        known = {name: value for name, value in resolved.engine_options.items() if name in api.options}
        resolved, dropped = replace(resolved, engine_options=known), (*dropped, *unknown)
    adapted, notes = _adapt_choice(resolved, api)
    if adapted.tools and not adapted.parallel_tool_calls and not api.parallel:
        notes = (*notes, f"{api.name} cannot be limited to one call, so calls after the first are refused")
    return AdaptedRequest(adapted, notes, dropped)


def require_call(request: ToolCallRequest, tool: ToolDefinition, api: ChatApi) -> ToolCallRequest:
    """Return the request with a call of this tool required, as strongly as the API can express it."""
    narrowed_request = replace(
        request, tools=(tool,), tool_choice=ToolChoice.one(tool.name), tool_choice_policy=ChoicePolicy.AUTO
    )
    try:
        return adapt_request(narrowed_request, api).request
    except UnsupportedError:
        return adapt_request(replace(narrowed_request, tool_choice=ToolChoice.auto()), api).request


def choice_kind(choice: ToolChoice) -> str:
    """Return the kind of choice, as in `Traits.honours`."""
    if choice.names is None or choice.mode is ChoiceMode.NONE:
        return choice.mode.value
    return "one" if choice.mode is ChoiceMode.REQUIRED and len(choice.names) == 1 else "allowed"


def _adapt_choice(request: ToolCallRequest, api: ChatApi) -> tuple[ToolCallRequest, tuple[str, ...]]:
    kind = choice_kind(request.tool_choice)
    if kind == "none" and not request.tools:
        # There is nothing to forbid, and providers refuse a choice without tools.
        return replace(request, tool_choice=ToolChoice.auto()), ()
    if kind in api.honours or kind == "auto":
        return request, ()
    if kind in api.workaround_notes:
        return request, (api.workaround_notes[kind],)
    if kind not in _WORKAROUNDS:
        raise UnsupportedError(
            f"{api.name} does not honour tool_choice {kind!r}",
            hint="Use tool_choice auto, or an engine that generates under a grammar, such as llama, vllm or sglang.",
        )
    workaround = _WORKAROUNDS[kind]
    adapted, notes = _adapt_choice(workaround.change(request), api)
    return adapted, (workaround.note, *notes)


def _without_tools(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=(), tool_choice=ToolChoice.auto())


def _only_chosen_tool(request: ToolCallRequest) -> ToolCallRequest:
    return replace(request, tools=request.tool_choice.select_tools(request.tools), tool_choice=ToolChoice.required())


@dataclass(frozen=True, slots=True)
class _Workaround:
    change: Callable[[ToolCallRequest], ToolCallRequest]
    note: str


# Each workaround leads to a simpler choice, so the recursion ends. Choices that are not here have no workaround.
_WORKAROUNDS = {
    "none": _Workaround(_without_tools, "no tools were offered, because the API has no tool_choice 'none'"),
    "one": _Workaround(_only_chosen_tool, "the tool was required by offering no other"),
    "allowed": _Workaround(
        narrow_tools, "only the allowed tools were offered, because the API has no choice of a subset"
    ),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """Options of chat engines.

    `repairs` is how often the model may write one invalid call again. `is_streamed=False` requests answers in
    one piece, for servers that do not stream correctly. `reads_drift=False` leaves calls that the model printed and the
    server did not recognize in the text (see `wire.drift`). `media` are the kinds that the model takes: "image",
    "audio" and "file"; by default the server is asked, and one that does not say takes none.
    """

    repairs: int = 2
    is_streamed: bool = True
    reads_drift: bool = True
    media: Iterable[str] | None = None


class ChatEngine(Engine):
    """Generates checked calls through any chat API. The model is the engine's, not the request's."""

    def __init__(
        self, url: str, api: ChatApi, options: ChatOptions | None = None, deadlines: Deadlines = DEFAULT_DEADLINES
    ) -> None:
        self.options = options or ChatOptions()
        self.api = api
        self._media: frozenset[str] | None = (
            api.media if self.options.media is None else to_media_kinds(self.options.media)
        )
        self.traits: Traits = Traits(
            name=api.name,
            honours=api.honours | {"auto"},
            parallel=api.parallel,
            client_api=api.client_api,
            tool_search=api.tool_search,
            options=api.options,
            media=self._media or frozenset(),
        )
        self._http = HttpClient(url.rstrip("/"), api.headers, deadlines)
        if api.forward_prefix is not None:
            self.forwarder = HttpForwarder(
                name=api.name,
                http=lambda: self._http,
                prefix=api.forward_prefix,
                find_model=self._find_model,
                apis=api.forwarded_apis,
            )

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        admitted = replace(
            request, tools=admit_tools(request.tools), response_schema=admit_schema(request.response_schema)
        )
        admitted, named = await self._name_media(admitted)
        adapted = adapt_request(admitted, self.api)
        for diagnostic in named:
            yield diagnostic
            adapted = replace(adapted, notes=(*adapted.notes, diagnostic.message))
        if adapted.dropped_fields:
            message = f"{self.api.name} does not support {', '.join(adapted.dropped_fields)}, so this was not sent"
            yield Diagnostic("not_sent", message)
        exchange = _Exchange(admitted, adapted, time.monotonic())
        turn = self._turn(exchange)
        # All of it in this generator: each nested one costs every event once more.
        for is_last_try in (False, True):
            async with aclosing(self._reply(adapted.request, self.options.is_streamed)) as reply:
                while (batch := await reply.next_events()) is not None:
                    turn.receipts.seconds = exchange.seconds
                    turn.receipts.tokens = _completion_tokens(batch) or turn.receipts.tokens
                    is_silent = True
                    for event in turn.process(turn.drift.read(batch) if turn.drift else batch):
                        is_silent = False
                        yield event
                    if is_silent and request.on_progress is not None:
                        request.on_progress()
            for event in turn.process(turn.drift.close() if turn.drift else ()):
                yield event
            exchange.usage = add_usage(exchange.usage, turn.usage)
            if is_last_try or not exchange.is_unanswered(turn) or not turn.is_empty or turn.is_cut_off:
                break
            # An empty answer although a call was required. No event was sent yet, so the request is sent once more.
            turn = self._turn(exchange)
        if turn.failure and turn.is_empty:
            reason = self._http.hide_credentials(turn.failure.message)
            raise EngineError(f"{self.api.name}: {reason}", code=turn.failure.code)
        async with aclosing(self._finish(exchange, turn)) as events:
            async for event in events:
                yield event

    async def count_tokens(self, request: ToolCallRequest) -> int:
        """Ask the provider, if its API counts or the server has a tokenizer beside it."""
        if self.api.count_body is None and self.api.count_at_server is None:
            return await super().count_tokens(request)
        named, _ = await self._name_media(replace(request, tools=admit_tools(request.tools)))
        adapted = adapt_request(named, self.api).request
        if self.api.count_body is None:
            return await self._count_at_server(adapted)
        headers = self.api.request_headers(adapted) if self.api.request_headers else dict[str, str]()
        count = mapping(await self._http.post(self.api.count_path, self.api.count_body(adapted), headers))
        tokens = count.get("input_tokens")
        if not isinstance(tokens, int):
            raise EngineError(f"{self.api.name} did not answer with a count of tokens: {count!r:.80}")
        return tokens

    async def close(self) -> None:
        await self._http.close()

    async def _find_model(self) -> str:
        return self.api.model

    async def _count_at_server(self, request: ToolCallRequest) -> int:
        api = self.api
        if api.count_at_server is None or api.prompt_body is None:
            return await super().count_tokens(request)
        if has_media(request):
            raise UnsupportedError(
                f"{api.name} counts the tokens of text, and not of images or recordings",
                hint="Send the request and read the usage of its answer.",
            )
        count = await api.count_at_server(self._http, api.prompt_body(request))
        return await super().count_tokens(request) if count is None else count

    async def _name_media(self, request: ToolCallRequest) -> tuple[ToolCallRequest, tuple[Diagnostic, ...]]:
        """Replace what the model does not take by its name."""
        if not has_media(request):
            return request, ()
        if self._media is None:
            find = self.api.find_media_kinds
            self._media = await find(self._http) if find else frozenset()
            self.traits = replace(self.traits, media=self._media)
        kinds = self._media
        return name_unsupported_media(request, lambda media: media.kind.value in kinds and self.api.takes_media(media))

    def _turn(self, exchange: _Exchange) -> CheckedTurn:
        adapted = exchange.adapted
        notes = (*adapted.notes, *ignored_notes(exchange.request, adapted.dropped_fields))
        draft = Receipt(how=How.VALIDATED, engine=self.api.name, path=self.api.label, notes=notes)
        offered = exchange.offered
        reads_drift = self.options.reads_drift and offered and exchange.request.response_schema is None
        repairs = self.options.repairs > 0
        drift = DriftReader(None, tuple(offered.values()), repairs=repairs) if reads_drift else None
        receipts = ReceiptWriter(
            offered, draft, drifted=drift.drifted if drift else {}, excluded=exchange.request.excluded_calls
        )
        return CheckedTurn(receipts, repairs, exchange.request.parallel_tool_calls, drift)

    def _reply(self, request: ToolCallRequest, is_streamed: bool) -> _ProviderReply:
        body = self.api.request_body(request, stream=is_streamed)
        headers = self.api.request_headers(request) if self.api.request_headers else dict[str, str]()
        return _ProviderReply(self._http, self.api, body, headers, self.api.decoder(request), is_streamed)

    async def _finish(self, exchange: _Exchange, turn: CheckedTurn) -> AsyncGenerator[Event, None]:
        is_cut_off = turn.is_cut_off
        for invalid_call in turn.attempts:
            is_cut_call = turn.is_cut_call(invalid_call)
            attempt = invalid_call.cut_off(exchange.request.max_tokens) if is_cut_call else invalid_call
            can_repair = is_cut_call or not turn.is_cut_off
            repair = await self._repair(exchange, turn, attempt) if can_repair else Repair(None)
            is_cut_off = is_cut_off and not (is_cut_call and repair.is_answered)
            exchange.usage = add_usage(exchange.usage, repair.usage)
            turn.receipts.seconds = exchange.seconds
            for event in turn.resolve(attempt, repair, _repair_receipts(turn.receipts, attempt, repair)):
                yield event
        if exchange.request.choice.mode is ChoiceMode.REQUIRED and not turn.completed_calls and not is_cut_off:
            raise no_valid_call(self.api.name, "; ".join(turn.refusals))
        for event in turn.invalid_answer(exchange.request.response_schema):
            yield event
        if turn.failure:
            yield replace(turn.failure, message=self._http.hide_credentials(turn.failure.message))
        reason = FinishReason.TOOL_CALLS if turn.completed_calls else FinishReason.STOP
        stop = turn.finish.stop if turn.finish else ""
        yield Finish(FinishReason.LENGTH if is_cut_off else reason, exchange.usage, stop)

    async def _repair(self, exchange: _Exchange, turn: CheckedTurn, attempt: Attempt) -> Repair:
        offered = exchange.offered

        async def ask(attempt: Attempt) -> Reply:
            again = repair_request(exchange.request, attempt, turn.text)
            if attempt.is_unknown:
                request = adapt_request(again, self.api).request
            else:
                request = require_call(again, offered[attempt.name], self.api)
            events: list[Event] = []
            async with aclosing(self._reply(request, is_streamed=False)) as reply:
                while (batch := await reply.next_events()) is not None:
                    events += batch
            return fold(events)

        return await repair_call(attempt, offered, self.options.repairs, ask, exchange.request.excluded_calls)


class _ProviderReply:
    """The events of one answer of the provider. It ends at the first error that the provider reports."""

    __slots__ = (
        *("_api", "_body", "_decoder", "_framing", "_headers", "_http", "_is_ended", "_is_streamed", "_messages"),
        "_stream",
    )

    def __init__(
        self,
        http: HttpClient,
        api: ChatApi,
        body: dict[str, Any],
        headers: Mapping[str, str],
        decoder: ReplyDecoder,
        is_streamed: bool,
    ) -> None:
        self._http = http
        self._api = api
        self._body = body
        self._headers = headers
        self._decoder = decoder
        self._is_streamed = is_streamed
        self._framing = api.framing()
        self._stream: ByteStream | None = http.stream(api.path, body, headers) if is_streamed else None
        self._messages: Iterator[dict[str, Any]] = iter(())
        self._is_ended = False

    async def next_events(self) -> list[Event] | None:
        """The events of the next message, at least one; None at the end."""
        while not self._is_ended:
            for message in self._messages:
                events = self._decoder.feed(message)
                for event in events:
                    if isinstance(event, Diagnostic) and event.code in FAILURES:
                        await self._end()
                if events:
                    return events
            if self._stream is None and not self._is_streamed:
                self._messages, self._is_streamed = iter((await self._post(),)), True
            elif self._stream is None:
                self._is_ended = True
                return self._decoder.close()
            elif data := await self._stream.read():
                self._messages = iter(self._framing.feed(data))
            else:
                self._stream = None
                self._messages = iter(self._framing.close())
        return None

    async def aclose(self) -> None:
        if self._stream is not None:
            await self._stream.aclose()

    async def _end(self) -> None:
        """Read nothing more. What the decoder still has comes next."""
        await self.aclose()
        self._stream, self._is_streamed, self._messages = None, True, iter(())

    async def _post(self) -> dict[str, Any]:
        response = await self._http.post(self._api.path, self._body, self._headers)
        if not isinstance(response, dict):
            raise EngineError(f"{self._api.name} did not answer with a JSON object: {response!r:.80}")
        return cast("dict[str, Any]", response)


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

    def is_unanswered(self, turn: CheckedTurn) -> bool:
        return self.request.choice.mode is ChoiceMode.REQUIRED and not turn.has_calls


def _repair_receipts(receipts: ReceiptWriter, attempt: Attempt, repair: Repair) -> ReceiptWriter:
    draft = repaired_draft(receipts.draft, attempt)
    tokens = receipts.tokens + (repair.usage.completion_tokens if repair.usage else 0)
    return ReceiptWriter(receipts.tools, draft, seconds=receipts.seconds, tokens=tokens)


def _completion_tokens(events: list[Event]) -> int:
    """The completion tokens of an answer. Providers report them at its end, so calls that end earlier have none."""
    last = events[-1] if events else None
    return last.usage.completion_tokens if isinstance(last, Finish) and last.usage else 0
