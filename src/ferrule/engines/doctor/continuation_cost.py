"""Going on: what one more request on a text that was just read costs an endpoint, counted in tokens.

It is what skipping forced text has to be paid with: each piece that is appended ends a request and begins another.
Must not know what the price is used for.
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
# As long as a prompt with a few tools: an endpoint that reads it anew each time is found out.
_LINES = 40
# Stands for an argument's name between two values.
_APPENDED = '", "name": "'


class Streams(Protocol):
    """What is needed of `engines.http`."""

    def stream(self, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]: ...


@dataclass(frozen=True, slots=True)
class _Heard:
    """One answer: until its first piece, from there to its last, and how many pieces came."""

    first: float
    rest: float
    pieces: int
    text: str


async def price_of_going_on(http: Streams, model: str, clock: Callable[[], float] = time.monotonic) -> float | None:
    """How many tokens could have been written while one more request came to its first; None where nobody can tell.

    An endpoint without raw completions has no price, and neither has one that gives its answer in a single piece.
    """
    prompt = _prompt()
    tokens: list[float] = []
    requests: list[float] = []
    try:
        await _heard(http, model, prompt, 1, clock)
        for _ in range(_ROUNDS):
            whole = await _heard(http, model, prompt, _TOKENS, clock)
            if whole.pieces < _TOKENS // 2 or whole.rest <= 0:
                return None
            tokens.append(whole.rest / (whole.pieces - 1))
            said = prompt + whole.text
            for _ in range(_STEPS):
                said += _APPENDED
                requests.append((await _heard(http, model, said, 1, clock)).first)
    except EngineError as refusal:
        if refusal.code != "engine_refused":
            raise
        return None
    # The first token of a request would have been written in any case.
    return max(statistics.median(requests) / statistics.median(tokens) - 1, 0.0)


async def _heard(http: Streams, model: str, prompt: str, most: int, clock: Callable[[], float]) -> _Heard:
    body = {"model": model, "prompt": prompt, "max_tokens": most, "temperature": 0, "stream": True, "seed": 1}
    framing = SseObjects()
    moments: list[float] = []
    said = ""
    asked = clock()
    async with aclosing(http.stream(PATH, body)) as received:
        async for data in received:
            for chunk in framing.feed(data):
                written = "".join(text(choice.get("text")) for choice in entries(chunk.get("choices")))
                if written:
                    moments.append(clock())
                    said += written
    if not moments:
        return _Heard(clock() - asked, 0.0, 0, "")
    return _Heard(moments[0] - asked, moments[-1] - moments[0], len(moments), said)


def _prompt() -> str:
    """Something that can be gone on with for a while: a list of numbered things."""
    return "".join(f"{dumps({'number': number, 'square': number * number})}\n" for number in range(_LINES))
