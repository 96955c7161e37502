"""`/v1/chat/completions`: the gateway for clients of OpenAI's chat API."""

from __future__ import annotations

import secrets
import time
from typing import Any

from ferrule.core.json_text import dumps
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import wants_stream
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.dialects.openai_chat.request_decoder import read_request, uses_functions, wants_usage
from ferrule.dialects.openai_chat.response_body import body_of, error_body
from ferrule.dialects.sse import encode, encode_json
from ferrule.errors import FerruleError
from ferrule.server.answer.flatten import ExtensionEvent
from ferrule.server.answer.headers import answer_headers
from ferrule.server.answer.plan import answer_events, with_extension_events
from ferrule.server.answer.stream import AnswerEvent, collect_answer, stream_answer
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route

_KEEP_ALIVE = b": keep-alive\n\n"
_DONE = b"data: [DONE]\n\n"


def routes(gateway: Gateway) -> list[Route]:
    async def create(request: Request) -> AnyResponse:
        return await _answer(gateway, request)

    return [Route("POST", "/v1/chat/completions", create, "models", render_error)]


def render_error(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def _answer(gateway: Gateway, http_request: Request) -> AnyResponse:
    body, request = await http_request.read(read_request)
    events = answer_events(gateway, body, request, http_request.principal)
    fields: dict[str, Any] = {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "model": request.model or gateway.router.engine(None).model,
        "created": int(time.time()),
        "uses_functions": uses_functions(body),
    }
    if wants_stream(body):
        return await stream_answer(
            events, _ChatEncoder(ChunkEncoder(**fields, include_usage=wants_usage(body)), fields), gateway.config.limits
        )
    reply, extension_events = await collect_answer(events)
    return Response.json(
        with_extension_events(body_of(reply, **fields), extension_events), headers=answer_headers(reply)
    )


class _ChatEncoder:
    """Encodes chunks as bytes."""

    keep_alive = _KEEP_ALIVE

    def __init__(self, encoder: ChunkEncoder, fields: dict[str, Any]) -> None:
        self._encoder = encoder
        head = {name: fields[name] for name in ("id", "created", "model")}
        empty_choice: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
        self._empty_chunk: dict[str, Any] = {**head, "object": "chat.completion.chunk", "choices": [empty_choice]}

    def feed(self, event: AnswerEvent, /) -> bytes:
        if isinstance(event, ExtensionEvent):
            return encode(dumps({**self._empty_chunk, KEY: event.data}))
        return b"".join([encode_json(chunk) for chunk in self._encoder.feed(event)])

    def fail(self, error: FerruleError, /) -> bytes:
        chunks = [encode(dumps(chunk)) for chunk in self._encoder.close()]
        return b"".join([*chunks, encode(dumps(error_body(error)))])

    def end(self) -> bytes:
        return _DONE
