"""Every API ignores events with raw model output: the encoded answer is the same with them."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import streams
from ferrule.core.event import Event, RuleShown, WireText
from ferrule.core.reply import fold
from ferrule.dialects.anthropic.event_encoder import EventEncoder as AnthropicEncoder
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.dialects.openai_responses.event_encoder import EventEncoder as ResponsesEncoder


class Encoder(Protocol):
    def feed(self, event: Event, /) -> list[dict[str, Any]]: ...


ENCODERS: dict[str, Callable[[], Encoder]] = {
    "openai_chat": lambda: ChunkEncoder(id="a", model="m", created=1),
    "openai_responses": lambda: ResponsesEncoder(id="a", model="m", created=1),
    "anthropic": lambda: AnthropicEncoder(id="a", model="m"),
}


def with_shown(events: list[Event], seed: int) -> list[Event]:
    luck = Random(seed)
    mixed: list[Event] = [RuleShown("hermes", "lark", "start: /a/", "prompt")]
    for event in events:
        mixed += [WireText("<tool_call>", luck.random() < 0.5)] * luck.randrange(3)
        mixed.append(event)
    return mixed


@pytest.mark.parametrize("api", ENCODERS)
@given(streams(), st.integers(0, 2**32))
def test_an_answer_is_encoded_the_same(api: str, events: list[Event], seed: int) -> None:
    plain, raw = ENCODERS[api](), ENCODERS[api]()
    chunks = [one for event in events for one in plain.feed(event)]
    assert [one for event in with_shown(events, seed) for one in raw.feed(event)] == chunks


@given(streams(), st.integers(0, 2**32))
def test_a_reply_is_folded_the_same(events: list[Event], seed: int) -> None:
    assert fold(with_shown(events, seed)) == fold(events)
