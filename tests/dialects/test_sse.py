"""Server-sent events: any split of the bytes gives the same messages, and floods are stopped."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ferrule import DefinitionError, FerruleError
from ferrule.core.json_text import dumps, loads
from ferrule.dialects.sse import SseDecoder, SseMessage, encode, encode_json, encode_json_text

words = st.text(alphabet=st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\n"), max_size=6)
lines = st.one_of(
    words.map(lambda text: f"data: {text}"),
    words.map(lambda text: f"data:{text}"),
    words.map(lambda text: f": {text}"),
    st.sampled_from(["", "", "data", "event: ping", "event", "id: 7", "id", "id: a\0b", "retry: 10", "nonsense"]),
    words,
)
streams = st.lists(st.tuples(lines, st.sampled_from(["\n", "\r", "\r\n"])), max_size=12).map(
    lambda pairs: "".join(line + end for line, end in pairs)
)


def decode(*pieces: bytes) -> list[SseMessage]:
    decoder = SseDecoder()
    return [message for piece in pieces for message in decoder.feed(piece)] + decoder.close()


@given(streams, st.booleans(), st.lists(st.integers(0, 60)))
@example("data: é😀\r\n\r\n", True, list(range(60)))
@example("data: a\r\rdata: b\r\n\rdata: c\n\r\n", False, list(range(60)))
def test_any_cut_of_the_bytes_gives_the_same_messages(text: str, has_mark: bool, cuts: list[int]) -> None:
    data = (b"\xef\xbb\xbf" if has_mark else b"") + text.encode()
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert decode(*pieces) == decode(data)
    assert decode(*(bytes([byte]) for byte in data)) == decode(data)


@given(words, st.sampled_from(["", "ping", "message_start"]))
def test_what_is_encoded_decodes_to_itself(text: str, event: str) -> None:
    assert decode(encode(text, event)) == [SseMessage(event, text)]


@given(st.lists(words, min_size=1), st.sampled_from(["\n", "\r", "\r\n"]))
def test_data_of_many_lines_keeps_its_lines(many: list[str], end: str) -> None:
    # The last CR of one piece and the first LF of the next would be one line break.
    assert decode(encode(end.join(many))) == [SseMessage("", "\n".join(many))]


@given(st.binary())
def test_junk_never_raises(data: bytes) -> None:
    decode(data)


def test_half_a_surrogate_pair_inside_json_survives() -> None:
    (message,) = decode(encode(dumps({"text": "\ud83d"})))
    assert loads(message.data) == {"text": "\ud83d"}


def test_fields_of_one_message_are_read_in_any_order() -> None:
    raw = b": hello\nid: 4\ndata: one\nevent: ping\ndata: two\n\ndata: three\n\n"
    assert decode(raw) == [SseMessage("ping", "one\ntwo", "4"), SseMessage("", "three", "4")]


def test_a_message_without_data_is_no_message() -> None:
    assert decode(b"event: ping\n\ndata\n\n") == [SseMessage("", "")]


def test_a_last_message_without_its_empty_line_is_given_at_the_end() -> None:
    assert decode(b"data: [DONE]") == [SseMessage("", "[DONE]")]
    assert decode(b"data: [DONE]\n") == [SseMessage("", "[DONE]")]


@given(st.integers(1, 7))
def test_a_line_or_a_message_over_its_bound_is_stopped(size: int) -> None:
    line = b"data: " + b"x" * 30 + b"\n"
    pieces = [line[at : at + size] for at in range(0, len(line), size)]
    for decoder, many in ((SseDecoder(max_line=20), 1), (SseDecoder(max_message=60), 2)):
        with pytest.raises(FerruleError, match="longer than") as caught:
            _ = [decoder.feed(piece) for piece in pieces * many]
        assert caught.value.code == "stream_too_long"


def test_an_event_name_cannot_smuggle_a_line_in() -> None:
    with pytest.raises(DefinitionError):
        encode("x", "a\ndata: y")


@pytest.mark.parametrize("event", ["", "ping"])
@given(text=st.text(st.sampled_from('a"\\\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029\ud800')))
def test_json_is_one_line_also_for_clients_that_break_lines_as_unicode_does(event: str, text: str) -> None:
    value = {"text": text}
    for encoded in (encode_json(value, event), encode_json_text(dumps(value), event)):
        lines = encoded.decode().splitlines()
        assert len(lines) == (3 if event else 2)
        assert loads(lines[-2].removeprefix("data: ")) == value
