"""What is encoded decodes to the same reply, streamed and whole, and a request comes back as it was."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import TOOLS, handed_on, is_object, no_id, receipts_of, streams, through_json
from dialects.requests import requests
from ferrule import ChatMessage, Event, Finish, Reply, ToolCallRequest, fold
from ferrule.core.json_text import dumps, loads
from ferrule.dialects.openai_responses.event_encoder import EventEncoder
from ferrule.dialects.openai_responses.reply_decoder import ReplyDecoder, events_of
from ferrule.dialects.openai_responses.request_decoder import read_request
from ferrule.dialects.openai_responses.request_encoder import request_body
from ferrule.dialects.openai_responses.response_body import body_of
from ferrule.dialects.sse import SseDecoder, encode

REQUEST = ToolCallRequest(messages=(ChatMessage.user("x"),), tools=TOOLS)
HEAD: dict[str, Any] = {"id": "resp_1", "model": "m", "created": 7, "request": REQUEST}
parameters = {"temperature": st.none() | st.floats(0, 2), "top_p": st.none() | st.floats(0, 1)}


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
def test_the_last_event_alone_holds_what_was_streamed(events: list[Event]) -> None:
    last, reply = decode(encode_events(events)[-1:]), fold(events)
    assert last.calls == reply.calls
    assert last.text == reply.text
    assert last.reasoning == reply.reasoning
    assert last.finish == reply.finish


@given(streams())
def test_every_event_has_its_name_on_the_wire(events: list[Event]) -> None:
    data = b"".join(encode(dumps(event), event["type"]) for event in encode_events(events))
    named: list[Any] = [loads(message.data) for message in SseDecoder().feed(data)]
    assert handed_on(decode(named)) == handed_on(fold(events))


@given(streams())
def test_events_keep_to_what_the_openai_client_needs(events: list[Event]) -> None:
    named = encode_events(events)
    assert [event["sequence_number"] for event in named] == list(range(len(named)))
    assert [event["type"] for event in named[:2]] == ["response.created", "response.in_progress"]
    assert named[-1]["type"] in ("response.completed", "response.incomplete")
    assert {event["response"]["id"] for event in named if "response" in event} == {"resp_1"}
    items: dict[int, dict[str, Any]] = {}
    parts: set[str] = set()
    for event in named[2:-1]:
        if event["type"] == "response.output_item.added":
            assert event["output_index"] == len(items)
            items[event["output_index"]] = event["item"]
        elif event["type"] == "response.output_item.done":
            assert event["item"]["id"] == items[event["output_index"]]["id"]
            assert event["item"] == named[-1]["response"]["output"][event["output_index"]]
        else:
            assert event["item_id"] == items[event["output_index"]]["id"]
            if event["type"] == "response.content_part.added":
                parts.add(event["item_id"])
            assert "content_index" not in event or event["item_id"] in parts
    assert len(named[-1]["response"]["output"]) == len(items)


@given(streams())
def test_a_client_never_gets_a_whole_object_out_of_a_call_that_must_not_be_run(events: list[Event]) -> None:
    output = encode_events(events)[-1]["response"]["output"]
    whole = {item["call_id"] for item in output if item["type"] == "function_call" and is_object(item["arguments"])}
    assert whole == {call.id for call in fold(events).calls}
    finished = [item for item in output if item["type"] == "function_call" and item["status"] == "completed"]
    assert {item["call_id"] for item in finished} == whole


@given(streams())
def test_a_stream_that_breaks_off_does_not_come_back_finished(events: list[Event]) -> None:
    broken: list[Event] = [event for event in events if not isinstance(event, Finish)]
    back = decode(encode_events(broken))
    assert back.finish is None
    assert "broken_off" in {note.code for note in back.diagnostics}


@given(requests(reasoning=True, parameters=parameters))
def test_a_request_comes_back_as_it_was(request: ToolCallRequest) -> None:
    body = request_body(request, model=request.model or "", stream=True, reasoning=True)
    assert read_request(through_json(body)) == request
