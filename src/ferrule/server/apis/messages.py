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
from ferrule.server.answer.flatten import ExtensionEvent
from ferrule.server.answer.headers import answer_headers
from ferrule.server.answer.plan import answer_events, with_extension_events
from ferrule.server.answer.stream import AnswerEvent, collect_answer, stream_answer
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Request, Response, Route

_PING = encode(dumps({"type": "ping"}), "ping")


def routes(gateway: Gateway) -> list[Route]:
    async def create(request: Request) -> AnyResponse:
        return await _answer(gateway, request)

    async def count(http_request: Request) -> AnyResponse:
        _, request = await http_request.read(read_request)
        return Response.json(count_body(await gateway.count_tokens(request, http_request.principal)))

    return [
        Route("POST", "/v1/messages", create, "models", error_body),
        Route("POST", "/v1/messages/count_tokens", count, "models", error_body),
    ]


async def _answer(gateway: Gateway, http_request: Request) -> AnyResponse:
    body, request = await http_request.read(read_request)
    events = answer_events(gateway, body, request, http_request.principal)
    id, model = f"msg_{secrets.token_hex(12)}", request.model or gateway.router.engine(None).model
    if wants_stream(body):
        return await stream_answer(
            events, _MessagesEncoder(EventEncoder(id=id, model=model), http_request.id), gateway.config.limits
        )
    reply, extension_events = await collect_answer(events)
    return Response.json(
        with_extension_events(body_of(reply, id=id, model=model), extension_events), headers=answer_headers(reply)
    )


class _MessagesEncoder:
    """Encodes named events as bytes. Extension events are sent in pings, which every client ignores."""

    keep_alive = _PING

    def __init__(self, encoder: EventEncoder, request_id: str) -> None:
        self._encoder = encoder
        self._request_id = request_id

    def feed(self, event: AnswerEvent, /) -> bytes:
        if isinstance(event, ExtensionEvent):
            return encode(dumps({"type": "ping", KEY: event.data}), "ping")
        return _encode_named(self._encoder.feed(event))

    def fail(self, error: FerruleError, /) -> bytes:
        return _encode_named([*self._encoder.close(), error_body(error, self._request_id)])

    def end(self) -> bytes:
        return b""


def _encode_named(events: list[dict[str, Any]]) -> bytes:
    return b"".join([encode_json(one, one["type"]) for one in events])
