"""What is asked about a stored response: itself, what went into it, that it is gone."""

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
    events = telling.queue() + script.told(telling) + telling.finish(waits=script.waits)
    seen = events[: data.draw(st.integers(1, len(events)))]
    body = response_body(through_json(seen))
    kinds = [event["type"] for event in seen]
    is_over = len(seen) == len(events)
    if is_over:
        assert body == through_json(events[-1]["response"])
    else:
        assert body["status"] == ("in_progress" if "response.in_progress" in kinds else "queued")
    assert len(body["output"]) == kinds.count("response.output_item.added")


@pytest.mark.parametrize("end, status", [("cancel", "cancelled"), ("cut", "incomplete"), ("finish", "completed")])
def test_how_it_ended_is_in_its_status(end: str, status: str) -> None:
    telling = encoder()
    events = telling.feed(TextDelta("Hi")) + getattr(telling, end)()
    assert response_body(events)["status"] == status


def test_a_response_that_failed_has_its_error() -> None:
    body = response_body(encoder().fail(TooManyError("slowly", hint="Wait.")))
    assert (body["status"], body["error"]) == ("failed", {"code": "rate_limit_exceeded", "message": "slowly Wait."})


def test_an_error_beside_the_response_is_an_event_with_a_number() -> None:
    event = error_event(TooManyError("slowly", hint="Wait."), 7)
    assert (event["type"], event["message"], event["sequence_number"]) == ("error", "slowly Wait.", 7)
    told = encoder().begin()
    assert response_body([*told, event]) == response_body(told)


def test_a_deleted_response_says_so() -> None:
    assert deleted_body("resp_1") == {"id": "resp_1", "object": "response", "deleted": True}


def test_words_alone_are_a_message_of_the_user() -> None:
    (item,) = input_items({"input": "Hello"}, "resp_1")
    assert (item["id"], item["role"]) == ("item_resp_1_0", "user")
    assert item["content"] == [{"type": "input_text", "text": "Hello"}]


def test_items_keep_the_ids_that_they_have() -> None:
    given = [{"id": "mine", "role": "user", "content": "x"}, {"role": "user", "content": "y"}]
    assert [item["id"] for item in input_items({"input": given}, "r")] == ["mine", "item_r_1"]


def test_a_page_begins_with_the_newest_unless_asked_otherwise() -> None:
    assert ids(input_items_body(ITEMS, {})) == ["i4", "i3", "i2", "i1", "i0"]
    body = input_items_body(ITEMS, {"order": "asc", "limit": "2"})
    assert (ids(body), body["first_id"], body["last_id"], body["has_more"]) == (["i0", "i1"], "i0", "i1", True)
    assert input_items_body([], {})["last_id"] == ""


@given(st.integers(1, 6), st.sampled_from(["asc", "desc"]))
def test_page_after_page_gives_every_item_once(limit: int, order: str) -> None:
    query = {"limit": str(limit), "order": order}
    page = input_items_body(ITEMS, query)
    seen = ids(page)
    while page["has_more"]:
        page = input_items_body(ITEMS, {**query, "after": page["last_id"]})
        seen += ids(page)
    assert seen == sorted((item["id"] for item in ITEMS), reverse=order == "desc")


@pytest.mark.parametrize(
    "query", [{"limit": "0"}, {"limit": "101"}, {"limit": "-1"}, {"limit": "x"}, {"order": "up"}, {"after": "i9"}]
)
def test_a_page_that_cannot_be_is_refused(query: dict[str, str]) -> None:
    with pytest.raises(DefinitionError) as caught:
        input_items_body(ITEMS, query)
    assert caught.value.hint
