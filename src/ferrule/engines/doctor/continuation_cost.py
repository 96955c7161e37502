"""Continuation cost: measures the cost of one more request on a prompt that the endpoint has just read, in tokens.

Skipping forced text pays this cost: each appended text ends one request and starts another. Must not know what the cost
is used for.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from ferrule.core.json_text import dumps
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.lenient_json import entries, text
from ferrule.errors import EngineError

PATH = "/v1/completions"
_TOKENS = 24
_ROUNDS = 3
_STEPS = 4
# As long as a prompt with a few tools, so that an endpoint without a prompt cache shows a high cost.
_LINES = 40
# Like an argument's name between two values.
_APPENDED = '", "name": "'


class StreamingClient(Protocol):
    """The part of `HttpClient` that is needed here."""

    def stream(self, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]: ...


@dataclass(frozen=True, slots=True)
class _TimedCompletion:
    """The seconds until a completion's first piece, from there to its last piece, and the number of pieces."""

    first: float
    rest: float
    pieces: int
    text: str


async def measure_continuation_cost(
    http: StreamingClient, model: str, clock: Callable[[], float] = time.monotonic
) -> float | None:
    """Return how many tokens the endpoint could have generated while one more request reached its first token.

    None if that cannot be measured: the endpoint has no raw completions, or sends its answer in a single piece.
    """
    prompt = _prompt()
    tokens: list[float] = []
    requests: list[float] = []
    try:
        await _time_completion(http, model, prompt, 1, clock)
        for _ in range(_ROUNDS):
            completion = await _time_completion(http, model, prompt, _TOKENS, clock)
            if completion.pieces < _TOKENS // 2 or completion.rest <= 0:
                return None
            tokens.append(completion.rest / (completion.pieces - 1))
            text_so_far = prompt + completion.text
            for _ in range(_STEPS):
                text_so_far += _APPENDED
                requests.append((await _time_completion(http, model, text_so_far, 1, clock)).first)
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return None
    # The first token of a request would have been generated in any case.
    return max(statistics.median(requests) / statistics.median(tokens) - 1, 0.0)


async def _time_completion(
    http: StreamingClient, model: str, prompt: str, max_tokens: int, clock: Callable[[], float]
) -> _TimedCompletion:
    body = {"model": model, "prompt": prompt, "max_tokens": max_tokens, "temperature": 0, "stream": True, "seed": 1}
    framing = SseObjects()
    moments: list[float] = []
    answer = ""
    started = clock()
    async with aclosing(http.stream(PATH, body)) as data_chunks:
        async for data in data_chunks:
            for chunk in framing.feed(data):
                piece = "".join(text(choice.get("text")) for choice in entries(chunk.get("choices")))
                if piece:
                    moments.append(clock())
                    answer += piece
    if not moments:
        return _TimedCompletion(clock() - started, 0.0, 0, "")
    return _TimedCompletion(moments[0] - started, moments[-1] - moments[0], len(moments), answer)


def _prompt() -> str:
    """A prompt that a model can continue for a while: a numbered list."""
    return "".join(f"{dumps({'number': number, 'square': number * number})}\n" for number in range(_LINES))
