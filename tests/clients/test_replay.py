"""Recorded requests of agent clients are taken, or refused with the reason that the page of clients lists."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.replay import CLIENTS, FOLDER, outcomes, row_of
from docs.made import DOCS
from lab.client_fixtures import Anonymizer, expand, share
from lab.pages.markdown import cell

PAGE = DOCS / "reference" / "clients.md"
OUTDATED = "what becomes of this request is not what the page says; look at it, then run: scripts/docs --pages"
objects = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=300),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_request_of_a_client_fares_as_the_page_says(client: str) -> None:
    page = [line.strip("| \n").split(" | ") for line in PAGE.read_text(encoding="utf-8").splitlines()]
    listed = {(row[0], case, *row[2:]) for row in page if row[0] == client for case in row[1].split(", ")}
    found = {(client, one.case, *map(cell, row_of(one)[1:])) for one in outcomes(client)}
    assert {tuple(filter(None, row)) for row in found} == {tuple(filter(None, row)) for row in listed}, OUTDATED


@pytest.mark.parametrize("client", CLIENTS)
def test_a_request_that_is_not_taken_is_refused_as_the_clients_mistake(client: str) -> None:
    assert all(one.is_taken or 400 <= one.status < 500 for one in outcomes(client))


@pytest.mark.parametrize("client", CLIENTS)
def test_a_fixture_has_no_text_but_our_own(client: str) -> None:
    def texts(value: Any) -> list[str]:
        match value:
            case dict():
                return [text for one in value.values() for text in texts(one)]
            case list():
                return [text for one in value for text in texts(one)]
            case str():
                return [value]
            case _:
                return []

    fixture = json.loads((FOLDER / f"{client}.json").read_text(encoding="utf-8"))
    own = {"Some text.", "What this is for.", "You help with code."}
    foreign = [text for text in texts(fixture) if " " in text and text not in own and text[0] not in "{[^("]
    assert [text for text in foreign if not text.startswith("start: ")] == []


@given(st.lists(st.dictionaries(st.text("abc", max_size=3), objects, max_size=4), max_size=4))
def test_sharing_what_repeats_changes_nothing(requests: list[dict[str, Any]]) -> None:
    repeated = [*requests, *requests]
    assert expand(json.loads(json.dumps(share(repeated)))) == repeated


def test_the_texts_of_a_request_are_replaced_and_its_shape_is_kept() -> None:
    call = {"id": "call_9f", "type": "function", "function": {"name": "read", "arguments": '{"path":"src/x.py"}'}}
    body = {
        "model": "big",
        "messages": [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "call_9f", "content": "s"},
        ],
        "tools": [
            {"name": "read", "input_schema": {"properties": {"path": {"type": "string", "description": "A path"}}}}
        ],
    }
    made = Anonymizer().value(body)
    assert made["messages"][0]["tool_calls"][0] == {
        **call,
        "id": "call_0",
        "function": {"name": "read", "arguments": '{"path":"Some text."}'},
    }
    assert made["messages"][1] == {"role": "tool", "tool_call_id": "call_0", "content": "Some text."}
    path = {"type": "string", "description": "What this is for."}
    assert made["tools"][0]["input_schema"] == {"properties": {"path": path}}
