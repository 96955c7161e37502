"""LineReader: the lines do not depend on the chunks, and no line over the limit is kept."""

from __future__ import annotations

import json
import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from ferrule.sources.mcp.line_reader import LineReader, OverlongLine

MOST = 40


def lines_of(pieces: list[bytes]) -> list[bytes | OverlongLine]:
    lines = LineReader(MOST)
    return [line for piece in pieces for line in lines.feed(piece)]


@given(st.lists(st.binary(max_size=70).filter(lambda line: b"\n" not in line), max_size=8), st.data())
def test_lines_are_the_same_however_they_are_cut(expected: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(line + b"\n" for line in expected)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    pieces = [whole[start:end] for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    line_read = lines_of(pieces)
    assert line_read == lines_of([whole])
    for line, actual in zip(expected, line_read, strict=True):
        if len(line) <= MOST:
            assert actual == line
        else:
            assert isinstance(actual, OverlongLine)
            assert (actual.size, actual.head, actual.tail) == (len(line), line[:512], line[-512:])


@given(st.integers(0, 10**9) | st.text("abc-", min_size=1, max_size=20), st.booleans(), st.integers(1, 5_000))
def test_the_ends_of_a_long_line_show_the_request_that_it_answers(id: int | str, first: bool, size: int) -> None:
    result = {"result": {"content": [{"type": "text", "text": "x" * size, "id": 7}]}}
    named = {"jsonrpc": "2.0", "id": id}
    line = json.dumps({**named, **result} if first else {**result, **named}).encode()
    (line_read,) = lines_of([line + b"\n"])
    assert isinstance(line_read, OverlongLine)
    assert line_read.answers == id


def test_a_long_line_without_an_id_answers_nothing() -> None:
    (line_read,) = lines_of(
        [json.dumps({"method": "log", "params": {"id": 3, "text": "x" * 5_000, "end": 0}}).encode() + b"\n"]
    )
    assert isinstance(line_read, OverlongLine)
    assert line_read.answers is None


def test_a_very_long_line_takes_little_memory() -> None:
    lines = LineReader(1024 * 1024)
    piece = b"x" * 65_536
    tracemalloc.start()
    try:
        for _ in range(1_600):
            assert lines.feed(piece) == []
        (line_read,) = lines.feed(b"\n")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(line_read, OverlongLine)
    assert line_read.size == 1_600 * 65_536
    assert most < 4 * 1024 * 1024


def test_the_head_of_a_long_line_continues_to_grow_after_the_limit() -> None:
    line = b"x" * MOST + b"abc" * 200
    (line_read,) = lines_of([line[: MOST + 2], line[MOST + 2 : MOST + 5], line[MOST + 5 :] + b"\n"])
    assert isinstance(line_read, OverlongLine)
    assert (line_read.head, line_read.tail) == (line[:512], line[-512:])
