"""Text completions over HTTP: what servers that offer `/v1/completions` have in common. Must not know any of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.dialects.sse import SseDecoder
from ferrule.engines.generator import Ended, Piece
from ferrule.engines.http import Http
from ferrule.errors import EngineError

_DONE = "[DONE]"


async def streamed(http: Http, path: str, body: Mapping[str, Any]) -> AsyncGenerator[Piece | Ended, None]:
    """The pieces of a streamed completion."""
    decoder = SseDecoder()
    reading = Reading()
    async with aclosing(http.stream(path, body)) as received:
        async for data in received:
            for message in decoder.feed(data):
                if message.data != _DONE:
                    for piece in reading.pieces(_chunk(message.data)):
                        yield piece
    if reading.ended:
        yield reading.ended


class Reading:
    """Chunks in, pieces out, whoever of the engines sent them. `ended` is whole only when the stream is over.

    The last word on usage may come after the last choice.
    """

    def __init__(self) -> None:
        self.ended: Ended | None = None

    def pieces(self, chunk: Mapping[str, Any]) -> list[Piece]:
        if "error" in chunk:
            told = chunk["error"]
            words = cast("Mapping[str, Any]", told).get("message", told) if isinstance(told, Mapping) else told
            raise EngineError(f"the engine stopped: {words}", code="engine_refused")
        found: list[Piece] = []
        for choice in cast("list[Mapping[str, Any]]", chunk.get("choices") or ()):
            if choice.get("text"):
                found.append(Piece(choice["text"]))
            if choice.get("finish_reason"):
                self.ended = Ended(choice["finish_reason"] == "length")
        usage = cast("Mapping[str, Any]", chunk.get("usage") or {})
        if self.ended is not None and usage:
            cached = cast("Mapping[str, Any]", usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached
            self.ended = Ended(self.ended.is_cut_off, *counts)
        return found


def _chunk(data: str) -> Mapping[str, Any]:
    try:
        value = loads(data)
    except ValueError as damage:
        raise EngineError(f"the engine sent something that is not JSON: {data[:80]!r}") from damage
    if not isinstance(value, dict):
        raise EngineError(f"the engine sent something that is no object: {data[:80]!r}")
    return cast("Mapping[str, Any]", value)
