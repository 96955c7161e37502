from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import Progress
from ferrule.core.json_text import dumps
from ferrule.core.outcome import Answered
from ferrule.errors import BusError
from ferrule.sources.bus.frame import (
    BUSY,
    DEADLINE_PASSED,
    MINOR_HEADER,
    NOT_SERVED,
    Frame,
    Heartbeat,
    NoResponders,
    Rejection,
    UnknownOutcome,
    encode_frame,
    is_plain_json,
    json_bytes,
    read_frame,
    read_minor,
    read_request,
    request_body,
)

numbers = st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
codes = st.from_regex(r"\A[a-z]{1,10}(_[a-z]{1,10})?\Z")
words = st.text(max_size=50)
progress = st.builds(Progress, numbers, st.none() | numbers, st.text())
frames: st.SearchStrategy[Frame] = st.one_of(
    st.builds(Answered, json_values),
    st.builds(Answered, json_values, st.just(True), codes),
    st.builds(Rejection, codes, words, st.integers(400, 599)),
    st.builds(Heartbeat, st.none() | progress),
    st.builds(UnknownOutcome, words, codes),
    st.just(NoResponders()),
)
header_names = st.sampled_from(
    ["Ferrule-Frame", "Ferrule-Token", "Ferrule-Minor", "Status", "Nats-Service-Error", "Nats-Service-Error-Code", "X"]
)
header_values = st.text(max_size=12) | st.sampled_from(["beat", "refused", "lost", "503", "429"])
some_headers = st.none() | st.dictionaries(header_names, header_values, max_size=5)
bodies = st.binary(max_size=80) | json_values.map(json_bytes) | st.just(b"[" * 100_000)


@given(frames)
def test_a_frame_reads_back_as_it_was_written(frame: Frame) -> None:
    assert read_frame(*encode_frame(frame)) == frame


@given(some_headers, bodies)
def test_any_bytes_under_any_headers_are_a_frame_or_refused(headers: dict[str, str] | None, body: bytes) -> None:
    try:
        frame = read_frame(headers, body)
    except BusError:
        return
    assert isinstance(frame, Answered | Rejection | Heartbeat | UnknownOutcome | NoResponders)


@given(some_headers, bodies)
def test_any_bytes_are_a_request_or_refused(headers: dict[str, str] | None, body: bytes) -> None:
    for read in (lambda: read_request(body), lambda: read_minor(headers)):
        with suppress(BusError):
            read()


@given(st.dictionaries(st.text(), json_values))
def test_arguments_arrive_as_they_were_sent(arguments: dict[str, Any]) -> None:
    assert read_request(request_body(arguments)) == arguments


@pytest.mark.parametrize("number", ["1e400", "-1e400", "9" * 400 + ".0"])
def test_a_number_that_is_too_great_to_be_one_is_no_argument(number: str) -> None:
    with pytest.raises(BusError):
        read_request(b'{"input": {"a": %b}}' % number.encode())


@given(st.dictionaries(st.text(), json_values))
def test_what_is_read_from_a_plain_body_can_be_written_as_it_is(arguments: dict[str, Any]) -> None:
    body = request_body(arguments)
    if is_plain_json(body):
        assert dumps(read_request(body)).encode()


def test_a_body_with_half_a_character_or_with_many_brackets_is_not_surely_plain() -> None:
    assert is_plain_json(request_body({"text": "\U0001f600", "list": [[1], {}]}))
    assert not is_plain_json(request_body({"text": "\ud83d"}))
    assert not is_plain_json(b'{"input": {"a": %b}}' % (b"[" * 500 + b"]" * 500))


def test_blanks_around_a_body_mean_nothing_and_anything_else_is_refused() -> None:
    assert read_request(b' \r\n\t{"input": {}}\n ') == {}
    for body in (b'{"input": {}} x', b'\xc2\xa0{"input": {}}', b'{"input": {}}{}', b"", b" "):
        with pytest.raises(BusError):
            read_request(body)


@given(frames)
def test_headers_never_hold_a_line_break(frame: Frame) -> None:
    headers, _ = encode_frame(frame)
    assert all("\n" not in text and "\r" not in text for text in (headers or {}).values())


def test_a_good_answer_needs_no_header_and_is_plain_json() -> None:
    assert encode_frame(Answered({"a": 1})) == (None, b'{"content": {"a": 1}}')


@pytest.mark.parametrize("frame, status", [(BUSY, "429"), (NOT_SERVED, "404"), (DEADLINE_PASSED, "408")])
def test_a_refusal_bears_the_status_of_the_micro_protocol(frame: Rejection, status: str) -> None:
    headers, _ = encode_frame(frame)
    assert headers is not None
    assert headers["Nats-Service-Error-Code"] == status
    assert headers["Nats-Service-Error"] == frame.code


def test_a_code_of_a_tool_cannot_write_headers_of_its_own() -> None:
    headers, _ = encode_frame(Answered("x", is_error=True, code="a\r\nFerrule-Frame: refused"))
    assert headers is not None
    assert list(headers) == ["Nats-Service-Error", "Nats-Service-Error-Code"]
    assert read_frame(headers, b'{"content": "x", "is_error": true, "code": "a"}') == Answered("x", True, "a")


@pytest.mark.parametrize("text, minor", [(None, 0), ("0", 0), ("17", 17)])
def test_the_minimum_minor_version_is_zero_by_default(text: str | None, minor: int) -> None:
    assert read_minor(None if text is None else {MINOR_HEADER: text}) == minor


@pytest.mark.parametrize("body", [b"NaN", b'{"content": Infinity}', b'{"content": 1', b"\xff", b"[]", b"{}"])
def test_what_is_not_json_to_the_letter_is_no_answer(body: bytes) -> None:
    with pytest.raises(BusError):
        read_frame(None, body)
