"""`/v1/chat/completions`: the gateway for clients of OpenAI's chat API."""

from __future__ import annotations

import secrets
import time
from typing import Any, cast

from ferrule.core.event import Event, TextDelta
from ferrule.core.json_text import dumps
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import wants_stream
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.dialects.openai_chat.request_decoder import read_request, uses_functions, wants_usage
from ferrule.dialects.openai_chat.response_body import body_of, error_body
from ferrule.dialects.sse import DONE, encode_json, encode_json_text, json_line
from ferrule.errors import FerruleError
from ferrule.server.answer.claim import claim_turn
from ferrule.server.answer.plan import Turn, turn_of
from ferrule.server.answer.response import (
    FlatEncoder,
    collect_answer,
    response_headers,
    stream_answer,
    with_extension_events,
)
from ferrule.server.answer.stream import AnswerStream
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route

_KEEP_ALIVE = b": keep-alive\n\n"


def routes(gateway: Gateway) -> list[Route]:
    async def create(request: Request) -> AnyResponse:
        return await _answer(gateway, request)

    return [Route("POST", "/v1/chat/completions", create, "models", render_error)]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def _answer(gateway: Gateway, http_request: Request) -> AnyResponse:
    body, request = await http_request.read(read_request)
    request = gateway.sort_options(request)
    gateway.telemetry.record_ignored(request.ignored)
    principal = http_request.principal
    is_live = gateway.sends_live_arguments(principal)
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal), is_live=is_live)
    turn = await claim_turn(gateway, http_request, body, turn)
    answer = AnswerStream(gateway, turn)
    fields: dict[str, Any] = {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "model": request.model or gateway.router.engine(None).model,
        "created": int(time.time()),
        "uses_functions": uses_functions(body),
    }
    if wants_stream(body):
        chunk_encoder = ChunkEncoder(**fields, include_usage=wants_usage(body), is_live=turn.is_live)
        encoder = ChatEncoder(turn, chunk_encoder, fields)
        return await stream_answer(answer, encoder, gateway.config.limits)
    reply, extension_events = await collect_answer(answer)
    return Response.json(
        with_extension_events(body_of(reply, **fields), extension_events), headers=response_headers(answer, reply)
    )


class ChatEncoder(FlatEncoder):
    """Encodes chunks as bytes."""

    keep_alive = _KEEP_ALIVE

    def __init__(self, turn: Turn, encoder: ChunkEncoder, fields: dict[str, Any]) -> None:
        super().__init__(turn)
        self._encoder = encoder
        head = {name: fields[name] for name in ("id", "created", "model")}
        empty_choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
        self._empty_chunk: dict[str, Any] = {**head, "object": "chat.completion.chunk", "choices": [empty_choice]}
        self._text_frame: tuple[bytes, bytes] | None = None
        """What comes before and after the text, in the chunk of a text."""

    def encode_event(self, event: Event) -> bytes:
        if event.__class__ is TextDelta and self._encoder.is_in_text:
            return self._encode_text(cast("TextDelta", event).text)
        return b"".join([encode_json(chunk) for chunk in self._encoder.feed(event)])

    def _encode_text(self, text: str) -> bytes:
        """Encode a text: the chunks of an answer differ in nothing else, so the rest is encoded once."""
        if not text:
            return b""
        if self._text_frame is None:
            # In JSON no string contains this: its quotes would be escaped.
            before, content, after = encode_json(self._encoder.text_chunk("")).partition(b'"content":""')
            self._text_frame = before + content[:-2], after
        before, after = self._text_frame
        return b"%b%b%b" % (before, json_line(text), after)

    def encode_extension(self, data: dict[str, Any]) -> bytes:
        return encode_json_text(dumps({**self._empty_chunk, KEY: data}))

    def fail(self, error: FerruleError, /) -> bytes:
        chunks = [encode_json_text(dumps(chunk)) for chunk in self._encoder.close()]
        return b"".join([*chunks, encode_json_text(dumps(error_body(error)))])

    def end(self) -> bytes:
        return DONE
