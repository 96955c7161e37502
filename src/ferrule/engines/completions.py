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
    """The pieces of a streamed completion. The last word on usage may come after the last choice."""
    decoder = SseDecoder()
    ended: Ended | None = None
    async with aclosing(http.stream(path, body)) as received:
        async for data in received:
            for message in decoder.feed(data):
                if message.data == _DONE:
                    continue
                for piece in pieces_of(_chunk(message.data), ended):
                    if isinstance(piece, Ended):
                        ended = piece
                    else:
                        yield piece
    if ended is not None:
        yield ended


def pieces_of(chunk: Mapping[str, Any], before: Ended | None = None) -> list[Piece | Ended]:
    """What one chunk says, whoever of the engines sent it."""
    if "error" in chunk:
        told = chunk["error"]
        words = cast("Mapping[str, Any]", told).get("message", told) if isinstance(told, Mapping) else told
        raise EngineError(f"the engine stopped: {words}", code="engine_refused")
    found: list[Piece | Ended] = []
    usage = cast("Mapping[str, Any]", chunk.get("usage") or {})
    for choice in cast("list[Mapping[str, Any]]", chunk.get("choices") or ()):
        if choice.get("text"):
            found.append(Piece(choice["text"]))
        if choice.get("finish_reason"):
            before = Ended(choice["finish_reason"] == "length")
            found.append(before)
    if before is not None and usage:
        found.append(Ended(before.is_cut_off, usage.get("prompt_tokens"), usage.get("completion_tokens")))
    return found


def _chunk(data: str) -> Mapping[str, Any]:
    try:
        value = loads(data)
    except ValueError as damage:
        raise EngineError(f"the engine sent something that is not JSON: {data[:80]!r}") from damage
    if not isinstance(value, dict):
        raise EngineError(f"the engine sent something that is no object: {data[:80]!r}")
    return cast("Mapping[str, Any]", value)
