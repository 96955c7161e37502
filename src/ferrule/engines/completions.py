"""Text completions over HTTP: what all servers with `/v1/completions` share. Must not know any of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, cast

from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import message_of
from ferrule.engines.generator import CompletionEnd, Piece
from ferrule.engines.http import HttpClient
from ferrule.errors import EngineError


async def stream_completion(
    http: HttpClient, path: str, body: Mapping[str, Any], on_progress: Callable[[], None] | None = None
) -> AsyncGenerator[Piece | CompletionEnd, None]:
    """Stream a completion: yield its pieces, then its end. `on_progress`: see `CompletionRequest`."""
    framing, decoder = SseObjects(), CompletionDecoder(on_progress)
    async with aclosing(http.stream(path, body)) as stream:
        while data := await stream.read():
            for chunk in framing.feed(data):
                for piece in decoder.decode(chunk):
                    yield piece
    for chunk in framing.close():
        for piece in decoder.decode(chunk):
            yield piece
    if decoder.end:
        yield decoder.end


def raise_on_error(chunk: Mapping[str, Any]) -> None:
    """Raise `EngineError` if the chunk is an error in the middle of a stream."""
    if "error" in chunk:
        raise EngineError(f"the engine stopped: {message_of(chunk['error'])}", code="engine_refused")


class CompletionDecoder:
    """Turns the chunks of any server into pieces. `end` is complete only when the stream is over.

    The usage may arrive after the last choice.
    """

    def __init__(self, on_progress: Callable[[], None] | None = None) -> None:
        self.end: CompletionEnd | None = None
        self._on_progress = on_progress
        self._prompt_read = -1

    def decode(self, chunk: Mapping[str, Any]) -> list[Piece]:
        raise_on_error(chunk)
        if "prompt_progress" in chunk:
            # llama.cpp adds an empty text to it, and with `verbose` a token 0 that nobody generated.
            self._note_progress(cast("Mapping[str, Any]", chunk["prompt_progress"]))
            return []
        pieces: list[Piece] = []
        for choice in cast("list[Mapping[str, Any]]", chunk.get("choices") or ()):
            ids = _token_ids_of(chunk, choice)
            if choice.get("text") or ids:
                pieces.append(Piece(choice.get("text") or "", len(ids) or 1, token_ids=ids))
            if choice.get("finish_reason"):
                self.end = CompletionEnd(
                    choice["finish_reason"] == "length", matched_stop=_matched_stop_of(chunk, choice)
                )
        usage = cast("Mapping[str, Any]", chunk.get("usage") or {})
        if self.end is not None and usage:
            cached = cast("Mapping[str, Any]", usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            counts = usage.get("prompt_tokens"), usage.get("completion_tokens"), cached
            self.end = CompletionEnd(self.end.is_cut_off, *counts, matched_stop=self.end.matched_stop)
        return pieces

    def _note_progress(self, progress: Mapping[str, Any]) -> None:
        """Only more of the prompt is progress: a server that repeats itself has stopped."""
        processed = progress.get("processed")
        if self._on_progress is not None and isinstance(processed, int) and processed > self._prompt_read:
            self._prompt_read = processed
            self._on_progress()


def _token_ids_of(chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> tuple[int, ...]:
    """The token ids of a chunk, if requested. vLLM has them in the choice, llama.cpp in its verbose fields."""
    return tuple(cast("list[int]", choice.get("token_ids") or _verbose_fields(chunk).get("tokens") or ()))


def _matched_stop_of(chunk: Mapping[str, Any], choice: Mapping[str, Any]) -> str:
    """The stop that ended the completion. vLLM and SGLang have it in the choice, llama.cpp in its verbose fields."""
    stop = choice.get("stop_reason") or choice.get("matched_stop") or _verbose_fields(chunk).get("stopping_word")
    # vLLM puts a token id there if a token ended it.
    return stop if isinstance(stop, str) else ""


def _verbose_fields(chunk: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields that llama.cpp adds for `verbose` requests."""
    return cast("Mapping[str, Any]", chunk.get("__verbose") or {})
