"""What is encoded decodes to the same reply, streamed and whole, and a request comes back as it was."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, handed_on, is_object, no_id, receipts_of, streams, through_json
from dialects.requests import requests
from ferrule import (
    ChatMessage,
    Event,
    Finish,
    FinishReason,
    Reasoning,
    ReasoningDelta,
    Reply,
    Text,
    TextDelta,
    ToolCallRequest,
    fold,
)
from ferrule.core.json_text import dumps, loads
from ferrule.core.message import messages_as_json, messages_from_json
from ferrule.dialects.allowed_tools import narrow_tools
from ferrule.dialects.anthropic.event_encoder import EventEncoder
from ferrule.dialects.anthropic.reply_decoder import ReplyDecoder, events_of
from ferrule.dialects.anthropic.request_decoder import read_request
from ferrule.dialects.anthropic.request_encoder import request_body
from ferrule.dialects.anthropic.response_body import body_of
from ferrule.dialects.sse import SseDecoder, encode

HEAD: dict[str, Any] = {"id": "msg_1", "model": "m"}
parameters = {
    "temperature": st.none() | st.floats(0, 2),
    "top_p": st.none() | st.floats(0, 1),
    "top_k": st.none() | st.integers(1, 99),
    "stop": st.lists(st.text(min_size=1), max_size=3).map(tuple),
}


def encode_events(events: list[Event]) -> list[dict[str, Any]]:
    encoder = EventEncoder(**HEAD)
    return [event for item in events for event in encoder.feed(item)] + encoder.close()


def decode(named: list[dict[str, Any]]) -> Reply:
    decoder = ReplyDecoder(TOOLS, make_id=no_id)
    return fold([event for item in named for event in decoder.feed(item)] + decoder.close())


@given(streams())
def test_a_stream_comes_back_as_the_same_reply(events: list[Event]) -> None:
    reply, back = fold(events), decode(through_json(encode_events(events)))
    assert handed_on(back) == handed_on(reply)
    assert receipts_of(back) == receipts_of(reply)


@given(streams(in_order=True))
def test_a_whole_body_comes_back_as_the_same_reply(events: list[Event]) -> None:
    reply = fold(events)
    back = fold(events_of(through_json(body_of(reply, **HEAD)), TOOLS, make_id=no_id))
    assert back == reply
    assert receipts_of(back) == receipts_of(reply)


@given(streams())
def test_a_whole_body_keeps_the_order_of_what_it_hands_on(events: list[Event]) -> None:
    reply = fold(events)
    back = fold(events_of(body_of(reply, **HEAD), TOOLS, make_id=no_id))
    assert fold(events_of(body_of(back, **HEAD), TOOLS, make_id=no_id)) == back
    assert back.calls == reply.calls
    assert back.text == reply.text


@given(streams())
def test_every_event_has_its_name_on_the_wire(events: list[Event]) -> None:
    data = b"".join(encode(dumps(event), event["type"]) for event in encode_events(events))
    messages = SseDecoder().feed(data)
    named: list[Any] = [loads(message.data) for message in messages]
    assert [event["type"] for event in named] == [message.event for message in messages]
    assert handed_on(decode(named)) == handed_on(fold(events))


@given(streams())
def test_events_keep_to_what_the_anthropic_client_needs(events: list[Event]) -> None:
    named = encode_events(events)
    kinds = [event["type"] for event in named]
    assert kinds[0] == "message_start"
    assert kinds[-2:] == ["message_delta", "message_stop"]
    blocks = [event for event in named if event["type"].startswith("content_block_")]
    open_index, count = None, 0
    for block in blocks:
        if block["type"] == "content_block_start":
            assert open_index is None
            assert block["index"] == count
            open_index, count = block["index"], count + 1
        else:
            assert block["index"] == open_index
            open_index = None if block["type"] == "content_block_stop" else open_index
    assert open_index is None
    assert named[-2]["usage"]["output_tokens"] >= 0


@given(streams())
def test_a_client_never_joins_a_whole_object_out_of_a_call_that_must_not_be_run(events: list[Event]) -> None:
    joined: dict[int, str] = {}
    ids: dict[int, str] = {}
    for event in encode_events(events):
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            ids[event["index"]] = event["content_block"]["id"]
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            joined[event["index"]] = joined.get(event["index"], "") + event["delta"]["partial_json"]
    whole = {ids[index] for index, json in joined.items() if is_object(json)}
    assert whole == {call.id for call in fold(events).calls}


@given(streams())
def test_a_stream_that_breaks_off_does_not_come_back_finished(events: list[Event]) -> None:
    broken: list[Event] = [event for event in events if not isinstance(event, Finish)]
    named = encode_events(broken)
    assert "message_stop" not in [event["type"] for event in named]
    assert decode(named).finish is None


@given(requests(reasoning=True, parameters=parameters))
def test_a_request_comes_back_with_the_same_demand(request: ToolCallRequest) -> None:
    body = request_body(request, model=request.model or "", stream=True, reasoning=True)
    expected = narrow_tools(request)
    if expected.tool_choice.mode == "none":
        # A choice of none has no field for it, and no call is made anyway.
        expected = replace(expected, parallel_tool_calls=True)
    assert read_request(through_json(body)) == expected


SIGNED: list[Event] = [
    ReasoningDelta("Let me "),
    ReasoningDelta("see."),
    ReasoningDelta("", "c2ln+/=="),
    ReasoningDelta("", "only a signature"),
    ReasoningDelta("", encrypted="ZGF0YQ=="),
    TextDelta("Hi"),
    Finish(FinishReason.STOP),
]


def test_signatures_and_encrypted_reasoning_come_back_byte_for_byte() -> None:
    reply = fold(SIGNED)
    thoughts = (Reasoning("Let me see.", "c2ln+/=="), Reasoning("", "only a signature"))
    assert reply.parts == (*thoughts, Reasoning("", encrypted="ZGF0YQ=="), Text("Hi"))
    assert decode(through_json(encode_events(SIGNED))).parts == reply.parts
    body = through_json(body_of(reply, **HEAD))
    assert fold(events_of(body, TOOLS, make_id=no_id)).parts == reply.parts
    saved = messages_from_json(through_json(messages_as_json([reply.as_message()])))
    request = ToolCallRequest(messages=(ChatMessage.user("x"), *saved, ChatMessage.user("y")))
    assert request_body(request, model="m", stream=False)["messages"][1]["content"] == body["content"]


def test_the_stop_string_that_ended_an_answer_is_told() -> None:
    events: list[Event] = [TextDelta("Hi"), Finish(FinishReason.STOP, stop="END")]
    assert encode_events(events)[-2]["delta"] == {"stop_reason": "stop_sequence", "stop_sequence": "END"}
    body = body_of(fold(events), **HEAD)
    assert (body["stop_reason"], body["stop_sequence"]) == ("stop_sequence", "END")
    assert fold(events_of(body, TOOLS, make_id=no_id)).stop == "END"
    assert decode(encode_events(events)).stop == "END"
