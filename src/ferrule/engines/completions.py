"""Text completions over HTTP: what servers that offer `/v1/completions` have in common. Must not know any of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any, cast

from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import message_of
from ferrule.engines.generator import Ended, Piece
from ferrule.engines.http import Http
from ferrule.errors import EngineError


async def streamed(http: Http, path: str, body: Mapping[str, Any]) -> AsyncGenerator[Piece | Ended, None]:
    """The pieces of a streamed completion."""
    framing, reading = SseObjects(), Reading()
    async with aclosing(http.stream(path, body)) as received:
        async for data in received:
            for chunk in framing.feed(data):
                for piece in reading.pieces(chunk):
                    yield piece
    for chunk in framing.close():
        for piece in reading.pieces(chunk):
            yield piece
    if reading.ended:
        yield reading.ended


def refuse_errors(chunk: Mapping[str, Any]) -> None:
    """`EngineError` where an engine says in the middle of a stream that it cannot go on."""
    if "error" in chunk:
        raise EngineError(f"the engine stopped: {message_of(chunk['error'])}", code="engine_refused")


class Reading:
    """Chunks in, pieces out, whoever of the engines sent them. `ended` is whole only when the stream is over.

    The last word on usage may come after the last choice.
    """

    def __init__(self) -> None:
        self.ended: Ended | None = None

    def pieces(self, chunk: Mapping[str, Any]) -> list[Piece]:
        refuse_errors(chunk)
        found: list[Piece] = []
        for choice in cast("list[Mapping[str, Any]]", chunk.get("choices") or ()):
            ids = _ids_of(chunk, choice)
            if choice.get("text") or ids:
                found.append(Piece(choice.get("text") or "", len(ids) or 1, ids=ids))
            if choice.get("finish_reason"):
                self.ended = Ended(choice["finish_reason"] == "length", stopped_by=_stop_of(chunk, choice))
        usage = cast("Mapping[str, Any]", chunk.get("usage") or {})
        if self.ended is not None and usage:
            cached = cast("Mapping[str, Any]", usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached
            self.ended = Ended(self.ended.is_cut_off, *counts, stopped_by=self.ended.stopped_by)
        return found


def _ids_of(chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[int, ...]:
    """The tokens of a chunk, where it was asked for them: vLLM says them of the choice, llama.cpp among the verbose."""
    return tuple(cast("list[int]", choice.get("token_ids") or _verbose(chunk).get("tokens") or ()))


def _stop_of(chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> str:
    """The stop that ended it: vLLM and SGLang say it of the choice, llama.cpp where it was asked to be verbose."""
    said = choice.get("stop_reason") or choice.get("matched_stop") or _verbose(chunk).get("stopping_word")
    # vLLM gives the number of a token there where a token ended it.
    return said if isinstance(said, str) else ""


def _verbose(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """What llama.cpp adds where it was asked to be verbose."""
    return cast("Mapping[str, Any]", chunk.get("__verbose") or {})
