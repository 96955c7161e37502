"""Bodies about a stored response: the response, its input items, its deletion."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.openai_responses.hosted_rounds import Script, encoder, scripts
from dialects.replies import through_json
from ferrule import TextDelta
from ferrule.dialects.openai_responses.stored_response import (
    deleted_body,
    error_event,
    input_items,
    input_items_body,
    response_body,
)
from ferrule.errors import DefinitionError, TooManyError

ITEMS = [{"id": f"i{at}"} for at in range(5)]


def ids(body: dict[str, Any]) -> list[str]:
    return [item["id"] for item in body["data"]]


@given(scripts(), st.data())
def test_a_response_is_as_its_last_event_left_it(script: Script, data: st.DataObject) -> None:
    telling = encoder()
    events = telling.queue() + script.encode_all(telling) + telling.finish(waits=script.waits)
    ids_seen = events[: data.draw(st.integers(1, len(events)))]
    body = response_body(through_json(ids_seen))
    kinds = [event["type"] for event in ids_seen]
    is_over = len(ids_seen) == len(events)
    if is_over:
        assert body == through_json(events[-1]["response"])
    else:
        assert body["status"] == ("in_progress" if "response.in_progress" in kinds else "queued")
    assert len(body["output"]) == kinds.count("response.output_item.added")


@pytest.mark.parametrize(
    "end, status", [("cancel", "cancelled"), ("stop_early", "incomplete"), ("finish", "completed")]
)
def test_how_it_ended_is_in_its_status(end: str, status: str) -> None:
    telling = encoder()
    events = telling.feed(TextDelta("Hi")) + getattr(telling, end)()
    assert response_body(events)["status"] == status


def test_a_response_that_failed_has_its_error() -> None:
    body = response_body(encoder().fail(TooManyError("slowly", hint="Wait.")))
    assert (body["status"], body["error"]) == ("failed", {"code": "rate_limit_exceeded", "message": "slowly. Wait."})


def test_an_error_beside_the_response_is_an_event_with_a_number() -> None:
    event = error_event(TooManyError("slowly", hint="Wait."), 7)
    assert (event["type"], event["message"], event["sequence_number"]) == ("error", "slowly. Wait.", 7)
    events = encoder().begin()
    assert response_body([*events, event]) == response_body(events)


def test_a_deleted_response_says_so() -> None:
    assert deleted_body("resp_1") == {"id": "resp_1", "object": "response", "deleted": True}


def test_a_string_input_is_a_message_of_the_user() -> None:
    (item,) = input_items({"input": "Hello"}, "resp_1")
    assert (item["id"], item["role"]) == ("item_resp_1_0", "user")
    assert item["content"] == [{"type": "input_text", "text": "Hello"}]


def test_items_keep_the_ids_that_they_have() -> None:
    items = [{"id": "mine", "role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    assert [item["id"] for item in input_items({"input": items}, "r")] == ["mine", "item_r_1"]


def test_a_page_begins_with_the_newest_by_default() -> None:
    assert ids(input_items_body(ITEMS, {})) == ["i4", "i3", "i2", "i1", "i0"]
    body = input_items_body(ITEMS, {"order": "asc", "limit": "2"})
    assert (ids(body), body["first_id"], body["last_id"], body["has_more"]) == (["i0", "i1"], "i0", "i1", True)
    assert input_items_body([], {})["last_id"] == ""


@given(st.integers(1, 6), st.sampled_from(["asc", "desc"]))
def test_page_after_page_gives_every_item_once(limit: int, order: str) -> None:
    query = {"limit": str(limit), "order": order}
    page = input_items_body(ITEMS, query)
    ids_seen = ids(page)
    while page["has_more"]:
        page = input_items_body(ITEMS, {**query, "after": page["last_id"]})
        ids_seen += ids(page)
    assert ids_seen == sorted((item["id"] for item in ITEMS), reverse=order == "desc")


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "101"}, {"limit": "-1"}, {"limit": "x"}, {"order": "up"}, {"after": "i9"}]
)
def test_a_page_that_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        input_items_body(ITEMS, query)
    assert caught.value.hint


def test_images_of_the_input_are_listed_as_they_were_sent() -> None:
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
    items = [
        {"role": "user", "content": [{"type": "input_text", "text": "Look:"}, image]},
        {"type": "function_call_output", "call_id": "c", "output": [image]},
    ]
    asked, output = input_items({"input": items}, "r")
    assert asked["content"] == [{"type": "input_text", "text": "Look:"}, image]
    assert output["output"] == [image]
