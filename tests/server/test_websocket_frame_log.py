"""The log of a turn's frames: whoever reads gets each once and in order, and it holds no more than it may."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.dialects.frames.server_frames import Token
from ferrule.errors import DefinitionError, NotFoundError
from ferrule.server.websocket.frame_log import FrameLog

steps = st.lists(st.sampled_from(["add", "take", "leave", "come back", "come back early"]), max_size=80)


def nothing() -> None:
    """Nobody has to be woken."""


def number_of(text: str) -> int:
    return json.loads(text)["seq"]


@given(steps, st.integers(1, 2000))
def test_a_reader_that_comes_and_goes_gets_each_frame_once_and_in_order(steps: list[str], most: int) -> None:
    log = FrameLog("t", most)
    got: list[int] = []
    reading = log.attach(0, nothing)
    for step in steps:
        match step:
            case "add":
                log.add(Token("x" * (log.last % 7)))
            case "take" if (text := reading.next()) is not None:
                got.append(number_of(text))
            case "leave":
                log.detach(reading)
            case "come back" | "come back early":
                after = len(got) if step == "come back" else 0
                if after < log.first - 1:
                    with pytest.raises(NotFoundError, match="kept no longer"):
                        log.attach(after, nothing)
                    return
                reading = log.attach(after, nothing)
                got = got[:after]
            case _:
                pass
        assert got == list(range(1, len(got) + 1))
        assert reading is not log.reading or reading.unread >= 0


@given(st.lists(st.integers(0, 300), min_size=1, max_size=60), st.integers(1, 3000))
def test_without_a_reader_it_holds_no_more_than_it_may(sizes: list[int], most: int) -> None:
    log = FrameLog("t", most)
    for size in sizes:
        log.add(Token("é" * size))
        assert log.bytes <= most or log.first == log.last
    reading = log.attach(log.first - 1, nothing)
    kept: list[str] = []
    while (text := reading.next()) is not None:
        kept.append(text)
    assert sum(len(text.encode()) for text in kept) == log.bytes
    assert [number_of(text) for text in kept] == list(range(log.first, log.last + 1))
    assert reading.unread == 0


def test_what_a_reader_has_not_taken_is_kept_for_it() -> None:
    log = FrameLog("t", 100)
    reading = log.attach(0, nothing)
    for _ in range(10):
        log.add(Token("much more than a hundred bytes, together"))
    assert [number_of(reading.next() or "") for _ in range(10)] == list(range(1, 11))
    log.add(Token(""))
    assert log.first > 1


def test_whoever_writes_waits_for_a_reader_that_is_behind_and_not_for_one_that_is_gone() -> None:
    async def run() -> None:
        log = FrameLog("t", 200)
        reading = log.attach(0, nothing)
        for ends in (lambda: [reading.next() for _ in range(9)], lambda: log.detach(reading)):
            for _ in range(4):
                log.add(Token("forty characters, or about as many as that"))
            waiting = asyncio.ensure_future(log.room())
            await asyncio.sleep(0)
            assert not waiting.done()
            ends()
            await asyncio.wait_for(waiting, 10)
        await log.room()

    asyncio.run(run())


def test_a_reader_that_comes_later_takes_the_turn_from_the_first() -> None:
    log = FrameLog("t", 1000)
    woken: list[str] = []
    first = log.attach(0, lambda: woken.append("first"))
    log.add(Token("a"))
    second = log.attach(0, lambda: woken.append("second"))
    assert (first.is_lost, first.next(), first.is_over) == (True, None, True)
    log.detach(first)
    log.add(Token("b"))
    assert [number_of(second.next() or "") for _ in range(2)] == [1, 2]
    assert woken == ["first", "first", "second"]


@pytest.mark.parametrize("after", [-1, 2])
def test_a_place_that_the_turn_never_had_is_refused(after: int) -> None:
    log = FrameLog("t", 1000)
    log.add(Token("a"))
    with pytest.raises(DefinitionError):
        log.attach(after, nothing)
    assert log.reading is None
