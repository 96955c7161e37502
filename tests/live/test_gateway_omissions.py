"""The real clients break on what our tables say that they break on, and read our streams as they were meant."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from bench.stream_damage import CALLS, DAMAGES, REPLY, REQUESTS, Damage, encode_events, stream_events
from lab.gateway_clients import Clients, clients
from lab.gateway_omissions import omissions
from lab.gateway_recorder import events_of

pytestmark = pytest.mark.live

VENVS = {"chat": "openai", "responses": "openai", "messages": "anthropic"}


@pytest.fixture(scope="module")
def started() -> Iterator[Clients]:
    with clients() as made:
        yield made


def read(started: Clients, api: str, text: str) -> dict[str, Any]:
    told = started.ask(VENVS[api], f"damaged_streams.{api}", {"raw": text})
    return {name: value for name, value in told.items() if name not in ("seconds", "finish")}


@pytest.mark.parametrize("api", REQUESTS)
def test_the_client_reads_an_unspoiled_stream_as_it_was_meant(started: Clients, api: str) -> None:
    told = read(started, api, encode_events(stream_events(api)))
    assert told["error"] is None
    assert told["text"].strip() == REPLY.text.strip()
    assert [(id, name) for id, name, _ in told["calls"]] == [(call.id, call.name) for call in CALLS]


@pytest.mark.parametrize("spoiling", DAMAGES, ids=lambda one: f"{one.api}: {one.row}")
def test_the_client_breaks_on_a_spoiled_stream_where_the_table_says_so(started: Clients, spoiling: Damage) -> None:
    sent = stream_events(spoiling.api)
    good = read(started, spoiling.api, encode_events(sent))
    told = read(started, spoiling.api, encode_events(spoiling.apply(sent)))
    assert (told != good) is spoiling.breaks, told


KEPT_ALIVE = {
    "chat": ": keep-alive\n\n",
    "responses": ": keep-alive\n\n",
    "messages": 'event: ping\ndata: {"type": "ping"}\n\n',
}


@pytest.mark.parametrize("api", REQUESTS)
def test_what_keeps_a_stream_alive_is_passed_over_also_before_its_first_event(started: Clients, api: str) -> None:
    text = encode_events(stream_events(api))
    kept = KEPT_ALIVE[api] + text.replace("\n\n", f"\n\n{KEPT_ALIVE[api]}", text.count("\n\n") - 1)
    assert read(started, api, kept) == read(started, api, text)
    assert omissions(api, events_of(kept.encode()), REQUESTS[api][1]) == []
