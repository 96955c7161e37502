"""ProbeClient: sends probe requests to an endpoint. Must not know what the response should be."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any, cast

from ferrule.core.call import ToolCall
from ferrule.core.ids import ANY_ID
from ferrule.core.json_text import canonical
from ferrule.core.reply import Reply, fold
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder
from ferrule.engines.http import HttpClient
from ferrule.errors import EngineError, EngineTimeoutError, EngineUnavailableError

PATH = "/v1/chat/completions"
_MAX_CONCURRENT = 4
_EMPTY = Reply()


@dataclass(frozen=True, slots=True)
class ProbeRequest:
    """The body of a request, without model and seed. Equal requests are sent once.

    `repeat` distinguishes two requests with the same body. `may_crash` is set if the request may crash the endpoint;
    then a lost connection counts as a response.
    """

    body: Mapping[str, Any]
    repeat: int = 0
    may_crash: bool = False

    @property
    def is_streamed(self) -> bool:
        return bool(self.body.get("stream"))


@dataclass(frozen=True, slots=True)
class ProbeResponse:
    """`chunks` are the JSON objects as received (one if not streamed), and `reply` is their fold.

    `refusal` is the endpoint's error message, if any, and `status` its HTTP status; 0 if there was none.
    """

    reply: Reply = _EMPTY
    chunks: tuple[dict[str, Any], ...] = ()
    refusal: str = ""
    status: int = 200

    @property
    def finish(self) -> str:
        """The endpoint's own finish reason."""
        words = [text(choice.get("finish_reason")) for chunk in self.chunks for choice in entries(chunk.get("choices"))]
        return next((word for word in reversed(words) if word), "")

    @property
    def is_cut_off(self) -> bool:
        return self.finish == "length"

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """Every call that was started, complete or not."""
        return tuple(part for part in self.reply.parts if isinstance(part, ToolCall))

    @property
    def call_pieces(self) -> list[dict[str, Any]]:
        """The `tool_calls` entries of all chunks, in order."""
        choices = [choice for chunk in self.chunks for choice in entries(chunk.get("choices"))]
        bodies = [mapping(choice.get("delta")) or mapping(choice.get("message")) for choice in choices]
        return [piece for body in bodies for piece in entries(body.get("tool_calls"))]


@dataclass(slots=True)
class ProbeClient:
    """Sends a few requests at once, and none twice."""

    http: HttpClient
    model: str
    limit_field: str = "max_tokens"
    """The endpoint's name for the token limit; OpenAI's newer models refuse the older name."""
    _semaphore: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_MAX_CONCURRENT))
    _responses: dict[str, asyncio.Future[ProbeResponse]] = field(
        default_factory=dict[str, "asyncio.Future[ProbeResponse]"]
    )

    async def send(self, request: ProbeRequest, seed: int) -> ProbeResponse:
        key = canonical([request.body, request.repeat, seed])
        if key not in self._responses:
            self._responses[key] = asyncio.ensure_future(self._send_once(request, seed))
        return await self._responses[key]

    async def _send_once(self, request: ProbeRequest, seed: int) -> ProbeResponse:
        renamed = {self.limit_field if name == "max_tokens" else name: value for name, value in request.body.items()}
        body = {"model": self.model, "seed": seed, **renamed}
        try:
            async with self._semaphore:
                chunks = await self._chunks(body, request.is_streamed)
        except EngineTimeoutError as late:
            return ProbeResponse(refusal=late.message, status=0)
        except EngineUnavailableError as gone:
            if request.may_crash:
                return ProbeResponse(refusal=gone.message, status=0)
            raise
        except EngineError as refusal:
            if refusal.upstream_status is None:
                return ProbeResponse(refusal=refusal.message, status=0)
            # A body may be empty, but a refusal must not look like an answer.
            body = refusal.upstream_body or refusal.message
            return ProbeResponse(refusal=body, status=refusal.upstream_status)
        return ProbeResponse(_fold_chunks(chunks), tuple(chunks))

    async def _chunks(self, body: dict[str, Any], is_streamed: bool) -> list[dict[str, Any]]:
        if not is_streamed:
            response = await self.http.post(PATH, body)
            if not isinstance(response, dict):
                raise EngineError(f"it did not answer with a JSON object: {response!r:.80}")
            return [cast("dict[str, Any]", response)]
        framing, chunks = SseObjects(), list[dict[str, Any]]()
        async with aclosing(self.http.stream(PATH, body)) as data_chunks:
            async for data in data_chunks:
                chunks += framing.feed(data)
        return chunks + framing.close()


def _fold_chunks(chunks: list[dict[str, Any]]) -> Reply:
    # The decoder does not get the tools, so that it does not fill in missing arguments.
    decoder = ReplyDecoder(make_id=ANY_ID.make)
    events = [event for chunk in chunks for event in decoder.feed(chunk)]
    return fold([*events, *decoder.close()])
