from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.engines.doctor.continuation_cost import PATH, price_of_going_on
from ferrule.errors import EngineError


@dataclass
class Endpoint:
    """Answers in virtual time: so long to read what is new, and so long for each token."""

    token: float
    request: float
    unread: float = 0.0
    in_one_piece: bool = False
    refusal: str = ""
    remembers: bool = True
    now: float = 0.0
    read: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    async def stream(self, path: str, body: dict[str, Any]) -> AsyncGenerator[bytes, None]:
        assert path == PATH
        self.asked.append(body)
        if self.refusal:
            raise EngineError("no such path", code=self.refusal)
        known = self.read if body["prompt"].startswith(self.read) else ""
        self.read = body["prompt"] if self.remembers else ""
        self.now += self.request + self.unread * (len(body["prompt"]) - len(known))
        words = ["x"] * body["max_tokens"]
        for word in ["".join(words)] if self.in_one_piece else words:
            self.now += self.token
            yield f"data: {dumps({'choices': [{'text': word}]})}\n\n".encode()
        yield b"data: [DONE]\n\n"

    def price(self) -> float | None:
        return asyncio.run(price_of_going_on(self, "m", lambda: self.now))


@given(st.floats(0.001, 0.2), st.floats(0, 1))
def test_the_price_is_what_a_request_takes_in_tokens(token: float, request: float) -> None:
    assert Endpoint(token, request).price() == pytest.approx(request / token, rel=1e-3, abs=1e-3)


def test_an_endpoint_that_reads_a_prompt_anew_each_time_is_found_out() -> None:
    remembers, forgets = Endpoint(0.01, 0.0, 0.0001), Endpoint(0.01, 0.0, 0.0001, remembers=False)
    cheap, dear = remembers.price(), forgets.price()
    assert cheap is not None
    assert dear is not None
    assert dear > 10 * max(cheap, 1)


def test_without_raw_completions_there_is_no_price() -> None:
    assert Endpoint(0.01, 0.0, refusal="engine_refused").price() is None


def test_an_endpoint_that_is_lost_on_the_way_is_told() -> None:
    with pytest.raises(EngineError):
        Endpoint(0.01, 0.0, refusal="engine_unavailable").price()


def test_an_answer_in_one_piece_says_nothing_of_a_tokens_time() -> None:
    assert Endpoint(0.01, 0.0, in_one_piece=True).price() is None
