"""A call is checked against the schema that was sent, and an answer against its types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from lab.gateway_recorder import Exchange
from lab.gateway_verdicts import api_of, call_faults, stream_faults

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "maximum": 9}}, "required": ["n"]}
BODIES = {
    "chat": {"tools": [{"type": "function", "function": {"name": "count", "parameters": SCHEMA}}]},
    "responses": {"tools": [{"type": "function", "name": "count", "parameters": SCHEMA}]},
    "messages": {"tools": [{"name": "count", "input_schema": SCHEMA}]},
}


def exchange(path: str, request: Any = None, content: bytes = b"{}", media_type: str = "application/json") -> Exchange:
    return Exchange("POST", path, {}, request, 200, media_type, content)


def answer_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """A worker that finds fault with everything that says "bad"."""
    body = request["given"]
    values = body.get("events", [body.get("body")])
    return {"error": None, "read": len(values), "faults": [str(one) for one in values if "bad" in json.dumps(one)]}


@pytest.mark.parametrize("api", BODIES)
def test_a_call_is_measured_by_the_schema_that_the_client_sent(api: str) -> None:
    exchanges = [exchange("/v1/x", BODIES[api])]
    assert call_faults([["c1", "count", '{"n": 9}'], ["c2", "count", '{"n": 1}']], exchanges) == []
    assert call_faults([["c1", "count", '{"n": 10}']], exchanges) == ["count: 10 is greater than the maximum of 9"]
    assert call_faults([["c1", "other", "{}"]], exchanges) == ["other was not offered"]
    assert call_faults([["c1", "count", '{"n":']], exchanges) == ["count: '{\"n\":' is not JSON"]


def test_ids_are_present_and_unique() -> None:
    exchanges = [exchange("/v1/x", BODIES["chat"])]
    assert call_faults([["c1", "count", '{"n": 1}'], ["c1", "count", '{"n": 1}']], exchanges)
    assert call_faults([["", "count", '{"n": 1}']], exchanges)


@pytest.mark.parametrize(
    "path, api",
    [
        ("/v1/chat/completions", "chat"),
        ("/v1/responses", "responses"),
        ("/v1/messages?beta=true", "messages"),
        ("/v1/messages/count_tokens", ""),
        ("/v1/models", ""),
    ],
)
def test_the_api_is_known_by_its_path(path: str, api: str) -> None:
    assert api_of(exchange(path)) == api


def test_whole_answers_and_streams_are_read_again_and_pings_are_of_no_type() -> None:
    asks = dict.fromkeys(BODIES, answer_request)
    assert stream_faults([exchange("/v1/responses", content=b'{"is": "bad"}')], asks).faults
    assert stream_faults([exchange("/v1/models", content=b'{"is": "bad"}')], asks).faults == ()
    events = b'event: ping\ndata: {"type": "ping"}\n\nevent: message_stop\ndata: {"type": "message_stop"}\n\n'
    verdict = stream_faults([exchange("/v1/messages", {}, events, "text/event-stream; charset=utf-8")], asks)
    assert (verdict.streams, verdict.events) == (1, 1)
    assert "messages: message_start comes first" in verdict.faults
