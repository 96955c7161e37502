"""MCP results and errors as outcomes: structured content first, texts joined, images as media."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.json_text import dumps
from ferrule.core.media import Media
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.sources.mcp.results import CONNECTION_LOST, NOT_SENT, TOO_LARGE, outcome_of_error, outcome_of_result
from schema.json_values import json_values

TEXT = {"type": "text", "text": "one"}
IMAGE = {"type": "image", "mimeType": "image/png", "data": "AAAA" * 1000}


def content(*blocks: dict[str, Any], **more: Any) -> Any:
    outcome = outcome_of_result({"content": list(blocks), **more})
    assert isinstance(outcome, Answered)
    return outcome.content


def test_texts_are_joined_and_structure_comes_first() -> None:
    assert content(TEXT, {"type": "text", "text": "two"}) == "one\ntwo"
    assert content(TEXT, structuredContent={"a": 1}) == {"a": 1}
    assert content(TEXT, structuredContent=0) == 0
    assert content() == ""


def test_images_audio_and_binary_resources_become_media() -> None:
    audio = {"type": "audio", "mimeType": "audio/wav", "data": "AAAA"}
    blob = {"type": "resource", "resource": {"uri": "x://y.pdf", "mimeType": "application/pdf", "blob": "AAAA"}}
    outcome = outcome_of_result({"content": [TEXT, IMAGE, audio, blob]})
    media = (
        Media("image", "image/png", data=IMAGE["data"]),
        Media("audio", "audio/wav", data="AAAA"),
        Media("file", "application/pdf", data="AAAA", name="x://y.pdf"),
    )
    assert outcome == Answered("one", media=media)
    assert content(IMAGE, structuredContent={"a": 1}) == {"a": 1}


def test_content_that_cannot_be_carried_is_described() -> None:
    damaged = {"type": "image", "mimeType": "image/png", "data": "?"}
    described = {"type": "image", "mimeType": "image/png", "bytes": 0, "note": "not shown"}
    assert content(TEXT, damaged) == [TEXT, described]
    entry = {"uri": "x://y", "mimeType": "text/plain", "text": "words", "_meta": {}}
    assert content({"type": "resource", "resource": entry}) == [
        {"type": "resource", "uri": "x://y", "mimeType": "text/plain", "text": "words"}
    ]
    link = {"type": "resource_link", "uri": "x://y", "name": "y", "icons": []}
    assert content(link) == [{"type": "resource_link", "uri": "x://y", "name": "y"}]


def test_an_error_stays_one() -> None:
    assert outcome_of_result({"content": [TEXT], "isError": True}) == Answered("one", is_error=True, code="tool_failed")


@given(
    st.lists(json_values | st.fixed_dictionaries({"type": st.sampled_from(["text", "image", "resource"])}), max_size=4)
)
def test_whatever_the_blocks_are_the_answer_is_json(blocks: list[Any]) -> None:
    outcome = outcome_of_result({"content": blocks})
    assert isinstance(outcome, Answered)
    dumps(outcome.content)


def test_structure_that_does_not_fit_is_an_error_and_a_schema_that_is_not_admitted_checks_nothing() -> None:
    result = {"content": [], "structuredContent": {"a": "x"}}
    strict = {"type": "object", "properties": {"a": {"type": "integer"}}}
    misfit = outcome_of_result(result, strict)
    assert isinstance(misfit, Answered)
    assert (misfit.is_error, misfit.code) == (True, "bad_answer")
    assert outcome_of_result(result, {"$ref": "https://example.com/schema"}) == Answered({"a": "x"})


@pytest.mark.parametrize(
    "code, message, is_from_transport, outcome",
    [
        (-32602, "no", False, Answered("no", is_error=True, code="bad_request")),
        (-32601, "no", False, Answered("no", is_error=True, code="bad_request")),
        (-32603, "no", False, Answered("no", is_error=True, code="tool_failed")),
        (-32000, "quota used up", False, Answered("quota used up", is_error=True, code="tool_failed")),
        (-32000, "Connection closed", False, Unknown("Connection closed")),
        (-32000, "SSE stream ended without a response", False, Unknown("SSE stream ended without a response")),
        (
            *(-32000, "SSE stream failed: event exceeded the 5 byte limit.", False),
            Answered("SSE stream failed: event exceeded the 5 byte limit.", is_error=True, code="too_large"),
        ),
        (-32001, "late", False, Unknown("late", code="timeout")),
        (NOT_SENT, "no", True, NotDelivered("no")),
        (NOT_SENT, "no", False, Answered("no", is_error=True, code="tool_failed")),
        (CONNECTION_LOST, "no", True, Unknown("no")),
        (TOO_LARGE, "no", True, Answered("no", is_error=True, code="too_large")),
    ],
)
def test_an_error_says_whether_the_call_may_have_happened(
    code: int, message: str, is_from_transport: bool, outcome: Outcome
) -> None:
    assert outcome_of_error(code, message, is_from_transport=is_from_transport) == outcome
