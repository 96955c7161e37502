"""HttpForwarder: sends text completions and embeddings to an engine that has OpenAI's paths for them.

The body of the answer goes to the client byte for byte, as it arrives. It is read on the way only to know that it is
whole and what it cost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.forward import ForwardApi, ForwardedPart, ForwardRequest
from ferrule.dialects.openai_forward import ForwardedStream, whole_part
from ferrule.engines.engine import no_such_api
from ferrule.engines.http import HttpClient
from ferrule.errors import EngineError, UnsupportedError

NOT_THERE = frozenset({404, 405, 501})
"""The statuses with which servers say that they have no such path, or not with this model or these settings."""
_LARGE_BODY = 65_536
"""Up to this size, parsing a body takes less time than handing it to a thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpForwarder:
    """Forwards over HTTP. `find_model` returns the engine's name for its model; without one none is sent."""

    name: str
    http: Callable[[], HttpClient]
    prefix: str = ""
    """What comes before `/completions` and `/embeddings`, after the client's address."""
    find_model: Callable[[], Awaitable[str]] | None = None
    hints: Mapping[ForwardApi, str] = field(default_factory=dict[ForwardApi, str])
    """What to do about an engine that does not have the API."""
    apis: frozenset[ForwardApi] = frozenset(ForwardApi)

    async def forward(self, request: ForwardRequest, /) -> AsyncGenerator[ForwardedPart, None]:
        body: dict[str, Any] = dict(request.fields)
        if self.find_model is not None:
            body["model"] = await self.find_model()
        try:
            async with aclosing(self.http().stream(f"{self.prefix}/{request.api}", body)) as received:
                if not request.is_streamed:
                    whole = b"".join([data async for data in received])
                    yield await asyncio.to_thread(whole_part, whole) if len(whole) > _LARGE_BODY else whole_part(whole)
                    return
                stream = ForwardedStream(request)
                async for data in received:
                    for part in stream.feed(data):
                        yield part
                        if part.finish is not None:
                            return
                for part in stream.close():
                    yield part
        except EngineError as error:
            if error.upstream_status not in NOT_THERE:
                raise
            raise self._refusal(request.api, error) from error

    def _refusal(self, api: ForwardApi, error: EngineError) -> UnsupportedError:
        refusal = no_such_api(f"{self.name} does not have /v1/{api}, or not for this model", self.hints.get(api, ""))
        refusal.upstream_status, refusal.upstream_body = error.upstream_status, error.upstream_body
        return refusal
