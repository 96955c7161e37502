"""A chunk that is nothing but text takes a short way through the decoder. It gives what the long way gives."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.event import Event
from ferrule.core.ids import ANY_ID
from ferrule.dialects.json_stream import SseObjects
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder
from ferrule.dialects.sse import encode_json

values: st.SearchStrategy[Any] = st.sampled_from([None, "", "word", 0, 1, True, [], {}, {"prompt_tokens": 1}, "stop"])
deltas = st.dictionaries(st.sampled_from(["role", "content", "reasoning", "refusal", "tool_calls"]), values)
choices = st.fixed_dictionaries({}, optional={"index": values, "delta": deltas | values, "finish_reason": values})
chunks = st.fixed_dictionaries(
    {"id": values}, optional={"choices": st.lists(choices, max_size=2) | values, "usage": values, "error": values}
)


def decoded(given_chunks: list[dict[str, Any]], more: dict[str, Any]) -> list[Event]:
    decoder = ReplyDecoder((), make_id=ANY_ID.make)
    return [event for chunk in given_chunks for event in decoder.feed({**chunk, **more})] + decoder.close()


@given(st.lists(chunks, max_size=4))
def test_a_field_that_means_nothing_changes_no_event(given_chunks: list[dict[str, Any]]) -> None:
    # An unknown field sends a chunk the long way.
    assert decoded(given_chunks, {}) == decoded(given_chunks, {"unknown": 1})


@given(st.lists(st.text(max_size=4), min_size=1, max_size=3))
def test_a_message_that_arrives_alone_is_read_as_one_in_pieces(texts: list[str]) -> None:
    whole, in_pieces = SseObjects(), SseObjects()
    messages = [encode_json({"text": text}) for text in texts]
    alone = [value for message in messages for value in whole.feed(message)]
    joined = b"".join(messages)
    cut = [value for at in range(len(joined)) for value in in_pieces.feed(joined[at : at + 1])]
    assert alone == cut == [{"text": text} for text in texts]
