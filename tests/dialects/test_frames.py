"""WebSocket frames: round trips, refused invalid frames, and their documentation."""

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
from ferrule import Media
from ferrule.core.event import Usage
from ferrule.dialects.frames.client_frames import CLIENT_FRAMES, AskFrame, ClientFrame, ConfirmFrame
from ferrule.dialects.frames.codec import (
    NumberedFrame,
    decode_client_frame,
    decode_frame,
    encode_client_frame,
    encode_frame,
    encode_frame_text,
    ref_of,
)
from ferrule.dialects.frames.server_frames import SERVER_FRAMES, CallFrame, ServerFrame, TokenFrame, ToolInfo
from ferrule.errors import DefinitionError

PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "frames.md").read_text(encoding="utf-8")
SECTION = re.compile(r"^### `(\w+)`\n(.*?)```json\n(.*?)\n```", re.MULTILINE | re.DOTALL)

objects = st.dictionaries(st.text(max_size=4), values, max_size=3)
medias = st.builds(Media, st.sampled_from(["image", "audio", "file"]), data=st.binary(min_size=1, max_size=9))
of_type: dict[str, st.SearchStrategy[Any]] = {
    "str": st.text(max_size=8),
    "int": st.integers(0, 10**9),
    "float": st.floats(allow_nan=False, allow_infinity=False),
    "float | None": st.none() | st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "Any": values,
    "tuple[str, ...]": st.lists(st.text(max_size=4), max_size=3).map(tuple),
    "tuple[str, ...] | None": st.none() | st.lists(st.text(max_size=4), max_size=3).map(tuple),
    "dict[str, Any]": objects,
    "dict[str, Any] | None": st.none() | objects,
    "Receipt | None": st.none() | receipts,
    "tuple[Media, ...] | None": st.none() | st.lists(medias, max_size=2).map(tuple),
    "Usage | None": st.none() | st.builds(Usage, *[st.integers(0, 10**6)] * 3),
}


def make_frame(kind: type) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{one.name: of_type[str(one.type)] for one in fields(kind)})


of_type["ToolInfo"] = make_frame(ToolInfo)
outgoing = st.one_of([make_frame(kind) for kind in SERVER_FRAMES.values()])
incoming = st.one_of([make_frame(kind) for kind in CLIENT_FRAMES.values()])


@given(st.text(max_size=8), st.integers(1, 10**9), outgoing)
def test_a_frame_of_the_gateway_is_read_back_as_it_was_written(turn: str, seq: int, frame: ServerFrame) -> None:
    numbered = NumberedFrame(turn, seq, frame)
    read = decode_frame(through_json(encode_frame(numbered)))
    assert read == numbered
    if isinstance(frame, CallFrame):
        assert isinstance(read.frame, CallFrame)
        assert read.frame.receipt == frame.receipt


@given(incoming)
def test_a_frame_of_a_client_is_read_back_as_it_was_written(frame: ClientFrame) -> None:
    data = encode_client_frame(frame)
    if isinstance(frame, AskFrame):
        data |= {"api": "openai", "spelling": "ferrule"}
        assert decode_client_frame(json.dumps(data)) == AskFrame(frame.body, "openai", frame.ref)
    else:
        assert decode_client_frame(json.dumps(data)) == frame


@given(outgoing, st.text(max_size=4), values)
def test_a_client_passes_over_what_a_newer_gateway_adds(frame: ServerFrame, name: str, value: Any) -> None:
    data = encode_frame(NumberedFrame("t", 1, frame))
    assert decode_frame({f"new_{name}": value, **data}) == NumberedFrame("t", 1, frame)


@given(st.text() | st.binary().map(lambda data: data.decode("latin-1")) | values.map(json.dumps))
def test_nonsense_is_refused_with_a_hint_and_nothing_else(text: str) -> None:
    ref_of(text)
    with pytest.raises(DefinitionError) as refusal:
        decode_client_frame(text)
    assert refusal.value.hint


@pytest.mark.parametrize(
    "data",
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
def test_a_frame_that_is_not_exactly_one_is_refused(data: dict[str, Any]) -> None:
    with pytest.raises(DefinitionError):
        decode_client_frame(json.dumps(data))


def test_deep_nesting_is_refused_and_not_climbed_into() -> None:
    with pytest.raises(DefinitionError):
        decode_client_frame("[" * 100_000)
    assert ref_of("[" * 100_000) == ""


def test_the_ref_of_an_invalid_frame_is_found() -> None:
    assert ref_of('{"type": "fly", "ref": "mine"}') == "mine"
    assert ref_of('{"ref": 1}') == ref_of("[]") == ref_of("{") == ""


def test_half_of_a_surrogate_pair_goes_over_as_its_escape() -> None:
    text = encode_frame_text(NumberedFrame("t", 1, TokenFrame("é\ud800")))
    text.encode()
    assert json.loads(text)["text"] == "é\ud800"


def test_a_denial_needs_only_its_two_fields() -> None:
    assert decode_client_frame('{"type": "confirm", "approval": "a", "approve": false}') == ConfirmFrame("a", False)


def sections(title: str) -> dict[str, tuple[str, dict[str, Any]]]:
    """The sections under a heading of the page: of each frame, its words and its example."""
    part = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    (body,) = [one for one in part if one.startswith(title)]
    return {name: (words, json.loads(example)) for name, words, example in SECTION.findall(body)}


def test_the_page_documents_every_server_frame_with_a_valid_example() -> None:
    data = sections("What the gateway sends")
    assert set(data) == set(SERVER_FRAMES)
    for name, (_, example) in data.items():
        assert example["type"] == name
        assert through_json(encode_frame(decode_frame(example))) == example
        assert set(example) == {"type", "turn", "seq", *(one.name for one in fields(SERVER_FRAMES[name]))}


def test_the_page_documents_every_client_frame_with_a_valid_example() -> None:
    data = sections("What a client sends")
    assert set(data) == set(CLIENT_FRAMES)
    for name, (_, example) in data.items():
        assert example["type"] == name
        assert encode_client_frame(decode_client_frame(json.dumps(example))) == example
        assert set(example) == {"type", *(one.name for one in fields(CLIENT_FRAMES[name]))}
