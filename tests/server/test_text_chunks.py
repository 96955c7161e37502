"""The chunks of a streamed text differ in the text alone, and are encoded so: as the general encoder does it."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.core.event import CallStart, TextDelta
from ferrule.core.json_text import loads
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.server.answer.plan import turn_of
from ferrule.server.apis.chat import ChatEncoder

models = st.sampled_from(["m", 'a "content":"" b', "\u2028"])


def chunks_of(data: bytes) -> list[Any]:
    return [loads(one.removeprefix("data: ")) for one in data.decode().split("\n\n") if one]


@given(models, st.lists(st.text(), max_size=5), st.booleans())
def test_texts_are_encoded_as_the_general_encoder_does(model: str, texts: list[str], has_usage: bool) -> None:
    fields: dict[str, Any] = {"id": "c", "model": model, "created": 1}
    turn = turn_of({}, ToolCallRequest(messages=()), Principal(), has_tools=False, is_live=False)
    general = ChunkEncoder(**fields, include_usage=has_usage)
    encoder = ChatEncoder(turn, ChunkEncoder(**fields, include_usage=has_usage), fields)
    for text in texts:
        data = encoder.feed(TextDelta(text))
        assert chunks_of(data) == general.feed(TextDelta(text))
        assert not any(separator in data.decode() for separator in "\x85\u2028\u2029")


def test_a_text_inside_an_open_call_waits_for_its_end() -> None:
    fields: dict[str, Any] = {"id": "c", "model": "m", "created": 1}
    turn = turn_of({}, ToolCallRequest(messages=()), Principal(), has_tools=False, is_live=False)
    encoder = ChatEncoder(turn, ChunkEncoder(**fields), fields)
    assert chunks_of(encoder.feed(TextDelta("before")))
    encoder.feed(CallStart(0, "call_1", "tool"))
    assert encoder.feed(TextDelta("after")) == b""
