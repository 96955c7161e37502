"""`/v1/completions` and `/v1/embeddings`: forwarded to engines that have them.

No tools are in them, so no promise is kept there and no receipt is written: the engine's answer is the client's.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing
from typing import Any

from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.core.json_text import dumps
from ferrule.dialects.openai_error import error_body
from ferrule.dialects.openai_forward import read_completion, read_embeddings
from ferrule.dialects.sse import encode_json_text
from ferrule.errors import FerruleError
from ferrule.server.answer.forward import ForwardedAnswer
from ferrule.server.answer.response import stream_answer
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import AnyResponse, Handler, Request, Response, Route

_READERS: dict[ForwardApi, Callable[[dict[str, Any]], ForwardRequest]] = {
    ForwardApi.COMPLETIONS: read_completion,
    ForwardApi.EMBEDDINGS: read_embeddings,
}


def routes(gateway: Gateway) -> list[Route]:
    def handler(read: Callable[[dict[str, Any]], ForwardRequest]) -> Handler:
        async def create(request: Request) -> AnyResponse:
            _, forwarded = await request.read(read)
            gateway.telemetry.record_ignored(forwarded.ignored)
            answer = ForwardedAnswer(gateway, request.principal, forwarded)
            if forwarded.is_streamed:
                return await stream_answer(answer, _PartEncoder(), gateway.config.limits)
            async with aclosing(answer) as parts:
                return Response(b"".join([part.data async for part in parts]))

        return create

    return [Route("POST", f"/v1/{api}", handler(read), "models", render_error) for api, read in _READERS.items()]


class _PartEncoder:
    """Passes the engine's events on as they are."""

    keep_alive = b": keep-alive\n\n"

    def feed(self, part: ForwardedPart, /) -> bytes:
        return part.data

    def fail(self, error: FerruleError, /) -> bytes:
        return encode_json_text(dumps(error_body(error)))

    def end(self) -> bytes:
        return b""
