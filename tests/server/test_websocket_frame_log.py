"""The frame log of a turn: a reader gets each frame once and in order, and the log stays within its limit."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.frames.server_frames import TokenFrame
from ferrule.errors import DefinitionError, NotFoundError
from ferrule.server.websocket.frame_log import FrameLog
from waiting import PATIENCE

steps = st.lists(st.sampled_from(["add", "take", "leave", "come back", "come back early"]), max_size=80)


def nothing() -> None:
    """Nobody has to be woken."""


def number_of(text: str) -> int:
    return json.loads(text)["seq"]


@given(steps, st.integers(1, 2000))
def test_a_reader_that_comes_and_goes_gets_each_frame_once_and_in_order(steps: list[str], most: int) -> None:
    log = FrameLog("t", most)
    received: list[int] = []
    reading = log.attach(0, nothing)
    for step in steps:
        match step:
            case "add":
                log.add(TokenFrame("x" * (log.last % 7)))
            case "take" if (text := reading.next()) is not None:
                received.append(number_of(text))
            case "leave":
                log.detach(reading)
            case "come back" | "come back early":
                after = len(received) if step == "come back" else 0
                if after < log.first - 1:
                    with pytest.raises(NotFoundError, match="no longer available"):
                        log.attach(after, nothing)
                    return
                reading = log.attach(after, nothing)
                received = received[:after]
            case _:
                pass
        assert received == list(range(1, len(received) + 1))
        assert reading is not log.reader or reading.unread_bytes >= 0


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 3000))
def test_without_a_reader_it_holds_no_more_than_it_may(sizes: list[int], most: int) -> None:
    log = FrameLog("t", most)
    for size in sizes:
        log.add(TokenFrame("é" * size))
        assert log.bytes <= most or log.first == log.last
    reading = log.attach(log.first - 1, nothing)
    frames: list[str] = []
    while (text := reading.next()) is not None:
        frames.append(text)
    assert sum(len(text.encode()) for text in frames) == log.bytes
    assert [number_of(text) for text in frames] == list(range(log.first, log.last + 1))
    assert reading.unread_bytes == 0


def test_unread_frames_are_never_dropped_for_a_reader() -> None:
    log = FrameLog("t", 100)
    reading = log.attach(0, nothing)
    for _ in range(10):
        log.add(TokenFrame("much more than a hundred bytes, together"))
    assert [number_of(reading.next() or "") for _ in range(10)] == list(range(1, 11))
    log.add(TokenFrame(""))
    assert log.first > 1


def test_the_writer_waits_for_a_slow_reader_and_not_for_a_detached_one() -> None:
    async def run() -> None:
        log = FrameLog("t", 200)
        reading = log.attach(0, nothing)
        for ends in (lambda: [reading.next() for _ in range(9)], lambda: log.detach(reading)):
            for _ in range(4):
                log.add(TokenFrame("forty characters, or about as many as that"))
            waiting = asyncio.ensure_future(log.wait_for_space())
            await asyncio.sleep(0)
            assert not waiting.done()
            ends()
            await asyncio.wait_for(waiting, PATIENCE)
        await log.wait_for_space()

    asyncio.run(run())


def test_a_reader_that_comes_later_takes_the_turn_from_the_first() -> None:
    log = FrameLog("t", 1000)
    woken: list[str] = []
    first = log.attach(0, lambda: woken.append("first"))
    log.add(TokenFrame("a"))
    second = log.attach(0, lambda: woken.append("second"))
    assert (first.is_replaced, first.next(), first.is_over) == (True, None, True)
    log.detach(first)
    log.add(TokenFrame("b"))
    assert [number_of(second.next() or "") for _ in range(2)] == [1, 2]
    assert woken == ["first", "first", "second"]


@pytest.mark.parametrize("after", [-1, 2])
def test_a_place_that_the_turn_never_had_is_refused(after: int) -> None:
    log = FrameLog("t", 1000)
    log.add(TokenFrame("a"))
    with pytest.raises(DefinitionError):
        log.attach(after, nothing)
    assert log.reader is None
