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
from ferrule.server.answer.flatten import Aside
from ferrule.server.answer.headers import answer_headers
from ferrule.server.answer.plan import said_to, with_asides
from ferrule.server.answer.stream import Said, streamed, whole
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole

_KEEP_ALIVE = b": keep-alive\n\n"
_DONE = b"data: [DONE]\n\n"


def routes(gateway: Gateway) -> list[Route]:
    async def create(asked: Asked) -> Answer:
        return await _answered(gateway, asked)

    return [Route("POST", "/v1/chat/completions", create, "models", shape)]


def shape(error: FerruleError, request_id: str) -> dict[str, Any]:
    return error_body(error)


async def _answered(gateway: Gateway, asked: Asked) -> Answer:
    body, request = await asked.read(read_request)
    said = said_to(gateway, body, request, asked.principal)
    names: dict[str, Any] = {
        "id": f"chatcmpl-{secrets.token_hex(14)}",
        "model": request.model or gateway.router.engine(None).model,
        "created": int(time.time()),
        "uses_functions": uses_functions(body),
    }
    if wants_stream(body):
        return await streamed(
            said, _Chunks(ChunkEncoder(**names, include_usage=wants_usage(body)), names), gateway.config.limits
        )
    reply, asides = await whole(said)
    return Whole.of(with_asides(body_of(reply, **names), asides), headers=answer_headers(reply))


class _Chunks:
    """Chunks as bytes."""

    keep_alive = _KEEP_ALIVE

    def __init__(self, encoder: ChunkEncoder, names: dict[str, Any]) -> None:
        self._encoder = encoder
        head = {name: names[name] for name in ("id", "created", "model")}
        nothing: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": None}
        self._aside: dict[str, Any] = {**head, "object": "chat.completion.chunk", "choices": [nothing]}

    def feed(self, said: Said, /) -> bytes:
        if isinstance(said, Aside):
            return encode(dumps({**self._aside, KEY: said.told}))
        return b"".join([encode_json(chunk) for chunk in self._encoder.feed(said)])

    def fail(self, error: FerruleError, /) -> bytes:
        rest = [encode(dumps(chunk)) for chunk in self._encoder.close()]
        return b"".join([*rest, encode(dumps(error_body(error)))])

    def end(self) -> bytes:
        return _DONE
