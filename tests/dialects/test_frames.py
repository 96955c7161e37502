"""Frames of a WebSocket: read back as written, refused where they are not understood, and told in the docs."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dialects.replies import receipts, through_json, values
from ferrule.core.event import Usage
from ferrule.dialects.frames.client_frames import INCOMING, Ask, Confirm, Incoming
from ferrule.dialects.frames.codec import (
    Numbered,
    decode,
    decode_incoming,
    encode,
    encode_incoming,
    encode_text,
    ref_of,
)
from ferrule.dialects.frames.server_frames import OUTGOING, Call, Outgoing, Token, ToolFacts
from ferrule.errors import DefinitionError

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "frames.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### `(\w+)`\n(.*?)```json\n(.*?)\n```", re.MULTILINE | re.DOTALL)

objects = st.dictionaries(st.text(max_size=4), values, max_size=3)
of_type: dict[str, st.SearchStrategy[Any]] = {
    "str": st.text(max_size=8),
    "int": st.integers(0, 10**9),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "float | None": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "Any": values,
    "tuple[str, ...]": st.lists(st.text(max_size=4), max_size=3).map(tuple),
    "dict[str, Any]": objects,
    "dict[str, Any] | None": st.none() | objects,
    "Receipt | None": st.none() | receipts,
    "Usage | None": st.none() | st.builds(Usage, st.integers(0, 10**6), st.integers(0, 10**6)),
}


def made(kind: type) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{one.name: of_type[str(one.type)] for one in fields(kind)})


of_type["ToolFacts"] = made(ToolFacts)
outgoing = st.one_of([made(kind) for kind in OUTGOING.values()])
incoming = st.one_of([made(kind) for kind in INCOMING.values()])


@given(st.text(max_size=8), st.integers(1, 10**9), outgoing)
def test_a_frame_of_the_gateway_is_read_back_as_it_was_written(turn: str, seq: int, frame: Outgoing) -> None:
    numbered = Numbered(turn, seq, frame)
    read = decode(through_json(encode(numbered)))
    assert read == numbered
    if isinstance(frame, Call):
        assert isinstance(read.frame, Call)
        assert read.frame.receipt == frame.receipt


@given(incoming)
def test_a_frame_of_a_client_is_read_back_as_it_was_written(frame: Incoming) -> None:
    told = encode_incoming(frame)
    if isinstance(frame, Ask):
        told["api"] = "openai"
        assert decode_incoming(json.dumps(told)) == Ask(frame.body, "openai", frame.ref)
    else:
        assert decode_incoming(json.dumps(told)) == frame


@given(outgoing, st.text(max_size=4), values)
def test_a_client_passes_over_what_a_newer_gateway_adds(frame: Outgoing, name: str, value: Any) -> None:
    told = encode(Numbered("t", 1, frame))
    assert decode({f"new_{name}": value, **told}) == Numbered("t", 1, frame)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")) | values.map(json.dumps))
def test_nonsense_is_refused_with_a_hint_and_nothing_else(text: str) -> None:
    ref_of(text)
    with pytest.raises(DefinitionError) as refusal:
        decode_incoming(text)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "told",
    [
        {"type": "fly"},
        {"type": "cancel"},
        {"type": "cancel", "turn": 1},
        {"type": "confirm", "approval": "a"},
        {"type": "confirm", "approval": "a", "approve": "yes"},
        {"type": "confirm", "approval": "a", "approve": True, "argument": {}},
        {"type": "resume", "turn": "t", "after": 1.5},
        {"type": "ask", "body": []},
        {"type": "ask", "body": {}, "api": "smtp"},
        {"type": "token", "text": "not a client's to say"},
    ],
)
def test_a_frame_that_is_not_exactly_one_is_refused(told: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        decode_incoming(json.dumps(told))


def test_deep_nesting_is_refused_and_not_climbed_into() -> None:
    with pytest.raises(DefinitionError):
        decode_incoming("[" * 100_000)
    assert ref_of("[" * 100_000) == ""


def test_a_refusal_can_be_told_whose_it_is() -> None:
    assert ref_of('{"type": "fly", "ref": "mine"}') == "mine"
    assert ref_of('{"ref": 1}') == ref_of("[]") == ref_of("{") == ""


def test_half_of_a_surrogate_pair_goes_over_as_its_escape() -> None:
    text = encode_text(Numbered("t", 1, Token("é\ud800")))
    text.encode()
    assert json.loads(text)["text"] == "é\ud800"


def test_a_denial_needs_no_more_than_its_two_words() -> None:
    assert decode_incoming('{"type": "confirm", "approval": "a", "approve": false}') == Confirm("a", False)


def sections(title: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The sections under a heading of the page: of each frame, its words and its example."""
    part = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (body,) = [one for one in part if one.startswith(title)]
    return {name: (words, json.loads(example)) for name, words, example in SECTION.findall(body)}


def test_the_page_tells_every_frame_of_the_gateway_with_a_true_example() -> None:
    told = sections("What the gateway sends")
    assert set(told) == set(OUTGOING)
    for name, (_, example) in told.items():
        assert example["type"] == name
        assert through_json(encode(decode(example))) == example
        assert set(example) == {"type", "turn", "seq", *(one.name for one in fields(OUTGOING[name]))}


def test_the_page_tells_every_frame_of_a_client_with_a_true_example() -> None:
    told = sections("What a client sends")
    assert set(told) == set(INCOMING)
    for name, (_, example) in told.items():
        assert example["type"] == name
        assert encode_incoming(decode_incoming(json.dumps(example))) == example
        assert set(example) == {"type", *(one.name for one in fields(INCOMING[name]))}
