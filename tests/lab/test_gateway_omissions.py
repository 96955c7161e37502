"""Our streams omit nothing that a client requires, and every omission is detected."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.stream_damage import CALLS, DAMAGES, REPLY, REQUESTS, Damage, stream_events
from ferrule import Reply
from ferrule.core.event import FinishReason, Usage
from ferrule.core.message import Reasoning
from lab.gateway_omissions import TABLES, omissions

REPLIES = {
    "text": Reply.of("Hello."),
    "nothing": Reply.of(),
    "one call": Reply.of(CALLS[0]),
    "text, then calls": REPLY,
    "reasoning, then text": Reply.of(Reasoning("Let me see."), "Hello."),
    "cut off": replace(Reply.of("Hel"), finish=FinishReason.LENGTH),
}


@pytest.mark.parametrize("api", REQUESTS)
@pytest.mark.parametrize("kind", REPLIES)
def test_a_stream_of_the_gateway_omits_nothing(api: str, kind: str) -> None:
    reply = replace(REPLIES[kind], usage=Usage(9, 9))
    assert omissions(api, stream_events(api, reply), REQUESTS[api][1]) == []


@pytest.mark.parametrize("spoiling", DAMAGES, ids=lambda one: f"{one.api}: {one.row}")
def test_an_omission_is_detected(spoiling: Damage) -> None:
    events = spoiling.apply(stream_events(spoiling.api))
    assert f"{spoiling.api}: {spoiling.row}" in omissions(spoiling.api, events, REQUESTS[spoiling.api][1])


@pytest.mark.parametrize("api", TABLES)
def test_a_stream_of_which_nothing_came_is_noticed(api: str) -> None:
    assert omissions(api, [], REQUESTS[api][1])


def test_every_row_is_tried() -> None:
    assert {(one.api, one.row) for one in DAMAGES} == {(api, row) for api, table in TABLES.items() for row in table}
