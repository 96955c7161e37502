"""What is encoded decodes to the same reply, streamed and whole, and a request comes back as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, handed_on, is_object, no_id, receipts_of, streams, through_json
from dialects.requests import requests
from ferrule import Event, Finish, Reply, ToolCallRequest, fold
from ferrule.core.json_text import dumps, loads
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.openai_chat.chunk_encoder import ChunkEncoder
from ferrule.dialects.openai_chat.reply_decoder import ReplyDecoder, events_of
from ferrule.dialects.openai_chat.request_decoder import read_request
from ferrule.dialects.openai_chat.request_encoder import request_body
from ferrule.dialects.openai_chat.response_body import body_of
from ferrule.dialects.sse import SseDecoder, encode

HEAD: dict[str, Any] = {"id": "chat_1", "model": "m", "created": 7}
parameters = {
    "temperature": st.none() | st.floats(0, 2),
    "top_p": st.none() | st.floats(0, 1),
    "top_k": st.none() | st.integers(1, 99),
    "seed": st.none() | st.integers(),
    "stop": st.lists(st.text(min_size=1), max_size=3).map(tuple),
}


def chunks_of(events: list[Event]) -> list[dict[str, Any]]:
    encoder = ChunkEncoder(**HEAD, include_usage=True)
    return [chunk for event in events for chunk in encoder.feed(event)] + encoder.close()


def decode(chunks: list[dict[str, Any]]) -> Reply:
    decoder = ReplyDecoder(TOOLS, make_id=no_id)
    return fold([event for chunk in chunks for event in decoder.feed(chunk)] + decoder.close())


@given(streams())
def test_a_stream_comes_back_as_the_same_reply(events: list[Event]) -> None:
    reply, back = fold(events), decode(through_json(chunks_of(events)))
    assert handed_on(back) == handed_on(reply)
    assert receipts_of(back) == receipts_of(reply)


@given(streams(in_order=True))
def test_a_whole_body_comes_back_as_the_same_reply(events: list[Event]) -> None:
    reply = fold(events)
    back = fold(events_of(through_json(body_of(reply, **HEAD)), TOOLS, make_id=no_id))
    assert back == reply
    assert receipts_of(back) == receipts_of(reply)


@given(streams(), st.integers(1, 40))
def test_a_stream_of_bytes_comes_back_however_it_is_cut(events: list[Event], size: int) -> None:
    data = b"".join(encode(dumps(chunk)) for chunk in chunks_of(events))
    sse = SseDecoder()
    messages = [message for at in range(0, len(data), size) for message in sse.feed(data[at : at + size])]
    chunks: list[Any] = [loads(message.data) for message in messages]
    assert handed_on(decode(chunks)) == handed_on(fold(events))


@given(streams())
def test_a_client_never_joins_a_whole_object_out_of_a_call_that_must_not_be_run(events: list[Event]) -> None:
    joined: dict[str, str] = {}
    ids: dict[int, str] = {}
    for chunk in chunks_of(events):
        for call in [call for choice in chunk["choices"] for call in choice["delta"].get("tool_calls", [])]:
            ids.setdefault(call["index"], call.get("id", ""))
            joined[ids[call["index"]]] = joined.get(ids[call["index"]], "") + call["function"]["arguments"]
    reply = fold(events)
    assert {id for id, json in joined.items() if is_object(json)} == {call.id for call in reply.calls}


@given(streams())
def test_chunks_keep_to_what_the_openai_client_needs(events: list[Event]) -> None:
    chunks = chunks_of(events)
    assert {(chunk["id"], chunk["model"], chunk["created"]) for chunk in chunks} == {("chat_1", "m", 7)}
    deltas = [choice for chunk in chunks for choice in chunk["choices"]]
    assert [choice["delta"].get("role") for choice in deltas] == ["assistant"] + [None] * (len(deltas) - 1)
    assert [choice["finish_reason"] is None for choice in deltas] == [True] * (len(deltas) - 1) + [False]
    assert deltas[-1]["delta"] == {}
    indices = [call["index"] for choice in deltas for call in choice["delta"].get("tool_calls", [])]
    assert indices == sorted(indices)
    named = [call for choice in deltas for call in choice["delta"].get("tool_calls", []) if "id" in call]
    assert [call["index"] for call in named] == list(range(len(named)))
    assert all(call["function"]["arguments"] == "" for call in named)


@given(streams())
def test_a_stream_that_breaks_off_does_not_come_back_finished(events: list[Event]) -> None:
    broken: list[Event] = [event for event in events if not isinstance(event, Finish)]
    back = decode(chunks_of(broken))
    assert back.finish is None
    assert "broken_off" in {note.code for note in back.diagnostics}


@given(requests(reasoning=True, parameters=parameters))
def test_a_request_comes_back_as_it_was(request: ToolCallRequest) -> None:
    body = request_body(request, model=request.model or "", stream=True, reasoning=True)
    assert read_request(through_json(body)) == request


@given(requests(parameters=parameters))
def test_a_narrowed_request_demands_the_same(request: ToolCallRequest) -> None:
    narrow = narrow_tools(request)
    assert read_request(request_body(narrow, model=request.model or "", stream=False)) == narrow
    offered = {tool.name for tool in request.tool_choice.select_tools(request.tools)}
    assert {tool.name for tool in narrow.tool_choice.select_tools(narrow.tools)} == offered
    assert narrow.tool_choice.mode is request.tool_choice.mode
