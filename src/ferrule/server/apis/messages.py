"""`/v1/messages`: the gateway for clients of Anthropic's API, both versions."""

from __future__ import annotations

import secrets
from typing import Any

from ferrule.core.json_text import dumps
from ferrule.dialects.anthropic.event_encoder import EventEncoder
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.dialects.anthropic.response_body import body_of, count_body, error_body
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import wants_stream
from ferrule.dialects.sse import encode, encode_json
from ferrule.errors import FerruleError
from ferrule.server.answer.flatten import Aside
from ferrule.server.answer.headers import answer_headers
from ferrule.server.answer.plan import said_to, with_asides
from ferrule.server.answer.stream import Said, streamed, whole
from ferrule.server.gateway import Gateway
from ferrule.server.http import Answer, Asked, Route, Whole

_PING = encode(dumps({"type": "ping"}), "ping")


def routes(gateway: Gateway) -> list[Route]:
    async def create(asked: Asked) -> Answer:
        return await _answered(gateway, asked)

    async def count(asked: Asked) -> Answer:
        _, request = await asked.read(read_request)
        return Whole.of(count_body(await gateway.count_tokens(request, asked.principal)))

    return [
        Route("POST", "/v1/messages", create, "models", error_body),
        Route("POST", "/v1/messages/count_tokens", count, "models", error_body),
    ]


async def _answered(gateway: Gateway, asked: Asked) -> Answer:
    body, request = await asked.read(read_request)
    said = said_to(gateway, body, request, asked.principal)
    id, model = f"msg_{secrets.token_hex(12)}", request.model or gateway.router.engine(None).model
    if wants_stream(body):
        return await streamed(said, _Events(EventEncoder(id=id, model=model), asked.id), gateway.config.limits)
    reply, asides = await whole(said)
    return Whole.of(with_asides(body_of(reply, id=id, model=model), asides), headers=answer_headers(reply))


class _Events:
    """Named events as bytes. What is told beside the answer rides on a ping, which every client passes over."""

    keep_alive = _PING

    def __init__(self, encoder: EventEncoder, request_id: str) -> None:
        self._encoder = encoder
        self._request_id = request_id

    def feed(self, said: Said, /) -> bytes:
        if isinstance(said, Aside):
            return encode(dumps({"type": "ping", KEY: said.told}), "ping")
        return _named(self._encoder.feed(said))

    def fail(self, error: FerruleError, /) -> bytes:
        return _named([*self._encoder.close(), error_body(error, self._request_id)])

    def end(self) -> bytes:
        return b""


def _named(told: list[dict[str, Any]]) -> bytes:
    return b"".join([encode_json(one, one["type"]) for one in told])
