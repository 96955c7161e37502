"""`/v1/messages`: the gateway for clients of Anthropic's API, both versions."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import Any

from ferrule.core.event import Event
from ferrule.core.json_text import dumps
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.anthropic.event_encoder import EventEncoder
from ferrule.dialects.anthropic.passthrough import API, BETA, still_ignored
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.dialects.anthropic.response_body import body_of, count_body, error_body
from ferrule.dialects.extension import KEY
from ferrule.dialects.field import wants_stream
from ferrule.dialects.sse import encode_json, encode_json_text
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
from ferrule.server.http import OPEN, AnyResponse, Request, Response, Route

_PING = encode_json_text(dumps({"type": "ping"}), "ping")


def routes(gateway: Gateway) -> list[Route]:
    async def hello(_: Request) -> AnyResponse:
        return Response()

    async def create(request: Request) -> AnyResponse:
        return await _answer(gateway, request)

    async def count(http_request: Request) -> AnyResponse:
        _, request = await http_request.read(read_request)
        return Response.json(count_body(await gateway.count_tokens(request, http_request.principal)))

    return [
        # Claude Code asks whether somebody is there before its first question.
        Route("HEAD", "/api/hello", hello, OPEN, error_body),
        Route("POST", "/v1/messages", create, "models", error_body),
        Route("POST", "/v1/messages/count_tokens", count, "models", error_body),
    ]


async def _answer(gateway: Gateway, http_request: Request) -> AnyResponse:
    body, request = await http_request.read(read_request)
    request = _with_betas(request, http_request.headers.get(BETA, ""))
    if gateway.router.engine(request.model).traits.client_api == API:
        request = replace(request, ignored=still_ignored(request.ignored))
    request = gateway.without_missing_search(request)
    gateway.telemetry.record_ignored(request.ignored)
    principal = http_request.principal
    is_live = gateway.sends_live_arguments(principal)
    turn = turn_of(body, request, principal, has_tools=gateway.has_tools(principal), is_live=is_live)
    turn = await claim_turn(gateway, http_request, body, turn)
    answer = AnswerStream(gateway, turn)
    id, model = f"msg_{secrets.token_hex(12)}", request.model or gateway.router.engine(None).model
    if wants_stream(body):
        encoder = _MessagesEncoder(turn, EventEncoder(id=id, model=model, is_live=turn.is_live), http_request.id)
        return await stream_answer(answer, encoder, gateway.config.limits)
    reply, extension_events = await collect_answer(answer)
    return Response.json(
        with_extension_events(body_of(reply, id=id, model=model), extension_events),
        headers=response_headers(answer, reply),
    )


def _with_betas(request: ToolCallRequest, betas: str) -> ToolCallRequest:
    """Keep the betas that the client names, for an engine of the same API: without them it refuses their fields."""
    if not betas or request.client_body is None:
        return request
    return replace(request, client_body=replace(request.client_body, headers={BETA: betas}))


class _MessagesEncoder(FlatEncoder):
    """Encodes named events as bytes. Extension events are sent in pings, which every client ignores."""

    keep_alive = _PING

    def __init__(self, turn: Turn, encoder: EventEncoder, request_id: str) -> None:
        super().__init__(turn)
        self._encoder = encoder
        self._request_id = request_id

    def encode_event(self, event: Event) -> bytes:
        return _encode_named(self._encoder.feed(event))

    def encode_extension(self, data: dict[str, Any]) -> bytes:
        return encode_json_text(dumps({"type": "ping", KEY: data}), "ping")

    def fail(self, error: FerruleError, /) -> bytes:
        return _encode_named([*self._encoder.close(), error_body(error, self._request_id)])

    def end(self) -> bytes:
        return b""


def _encode_named(events: list[dict[str, Any]]) -> bytes:
    return b"".join([encode_json(one, one["type"]) for one in events])
