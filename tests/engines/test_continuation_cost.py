from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.engines.doctor.examination import PATH, measure_continuation_cost
from ferrule.errors import EngineError


@dataclass
class TimedEndpoint:
    """Answers in virtual time, with fixed times for reading new text and for each token."""

    token: float
    request: float
    unread: float = 0.0
    in_one_piece: bool = False
    refusal: str = ""
    remembers: bool = True
    now: float = 0.0
    read: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def stream(self, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        assert path == PATH
        self.requests.append(body)
        if self.refusal:
            raise EngineError("no such path", code=self.refusal)
        cached = self.read if body["prompt"].startswith(self.read) else ""
        self.read = body["prompt"] if self.remembers else ""
        self.now += self.request + self.unread * (len(body["prompt"]) - len(cached))
        words = ["x"] * body["max_tokens"]
        for word in ["".join(words)] if self.in_one_piece else words:
            self.now += self.token
            yield f"data: {dumps({'choices': [{'text': word}]})}\n\n".encode()
        yield b"data: [DONE]\n\n"

    def cost(self) -> float | None:
        return asyncio.run(measure_continuation_cost(self, "m", lambda: self.now))


@given(st.floats(0.001, 0.2), st.floats(0, 1))
def test_the_cost_is_the_time_of_a_request_in_tokens(token: float, request: float) -> None:
    assert TimedEndpoint(token, request).cost() == pytest.approx(request / token, rel=1e-3, abs=1e-3)


def test_an_endpoint_without_a_prompt_cache_has_a_high_cost() -> None:
    with_cache, without_cache = TimedEndpoint(0.01, 0.0, 0.0001), TimedEndpoint(0.01, 0.0, 0.0001, remembers=False)
    cheap, expensive = with_cache.cost(), without_cache.cost()
    assert cheap is not None
    assert expensive is not None
    assert expensive > 10 * max(cheap, 1)


def test_without_raw_completions_there_is_no_cost() -> None:
    assert TimedEndpoint(0.01, 0.0, refusal="engine_refused").cost() is None


def test_an_endpoint_that_becomes_unreachable_raises() -> None:
    with pytest.raises(EngineError):
        TimedEndpoint(0.01, 0.0, refusal="engine_unavailable").cost()


def test_an_answer_in_one_piece_has_no_cost() -> None:
    assert TimedEndpoint(0.01, 0.0, in_one_piece=True).cost() is None
