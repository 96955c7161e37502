"""Our streams leave out nothing that a client reads by, and whatever is left out of one is noticed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.spoilings import ASKED, CALLS, REPLY, SPOILINGS, Spoiling, streamed
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


@pytest.mark.parametrize("api", ASKED)
@pytest.mark.parametrize("kind", REPLIES)
def test_a_stream_of_the_gateway_leaves_out_nothing(api: str, kind: str) -> None:
    reply = replace(REPLIES[kind], usage=Usage(9, 9))
    assert omissions(api, streamed(api, reply), ASKED[api][1]) == []


@pytest.mark.parametrize("spoiling", SPOILINGS, ids=lambda one: f"{one.api}: {one.row}")
def test_what_is_left_out_is_noticed(spoiling: Spoiling) -> None:
    sent = spoiling.spoil(streamed(spoiling.api))
    assert f"{spoiling.api}: {spoiling.row}" in omissions(spoiling.api, sent, ASKED[spoiling.api][1])


@pytest.mark.parametrize("api", TABLES)
def test_a_stream_of_which_nothing_came_is_noticed(api: str) -> None:
    assert omissions(api, [], ASKED[api][1])


def test_every_row_is_tried() -> None:
    assert {(one.api, one.row) for one in SPOILINGS} == {(api, row) for api, table in TABLES.items() for row in table}
