"""Resuming a turn: missed frames come in order, each once, and only to the turn's principal."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame, CallerResultFrame, ResumeFrame
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from server.client import gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.paced import Paced
from server.websocket_client import Socket, connect

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
WORDS = [f"{number} " for number in range(30)]


def config_with(**limits: Any) -> Config:
    return Config(engines=(EngineConfig(name="e0", use="e0"),), limits=GatewayLimits(**limits))


async def refusal_of(socket: Socket, resume: ResumeFrame) -> str:
    await socket.send(resume)
    refusal = await socket.next()
    assert isinstance(refusal.frame, out.ErrorFrame)
    assert refusal.turn == ""
    return refusal.frame.code


def texts(frames: list[Any]) -> str:
    return "".join(one.frame.text for one in frames if isinstance(one.frame, out.TokenFrame))


@given(st.lists(st.integers(1, len(WORDS) + 2), max_size=4), st.booleans())
def test_however_often_the_connection_is_cut_every_frame_comes_once(cuts: list[int], is_quick: bool) -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=None if is_quick else len(WORDS) // 2)
        async with gateway_of(engine) as client:
            received: list[Any] = []
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                received.append(await socket.next())
            turn = received[0].turn
            for cut in sorted(cuts):
                async with connect(client) as socket:
                    await socket.send(ResumeFrame(turn, len(received)))
                    while len(received) < cut and (is_quick or len(received) < len(WORDS) // 2):
                        received.append(await socket.next())
            engine.go.set()
            async with connect(client) as socket:
                await socket.send(ResumeFrame(turn, len(received)))
                while not received or not isinstance(received[-1].frame, out.DoneFrame):
                    received.append(await socket.next())
            assert [one.seq for one in received] == list(range(1, len(WORDS) + 3))
            assert {one.turn for one in received} == {turn}
            assert texts(received) == "".join(WORDS)

    asyncio.run(run())


def test_a_turn_continues_without_a_connection_and_can_be_read_after_its_end() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            engine.go.set()
            while not engine.is_closed:
                await asyncio.sleep(0)
            for after in (0, 2, len(WORDS) + 1):
                async with connect(client) as socket:
                    await socket.send(ResumeFrame(turn, after))
                    await socket.to_end()
                    assert [one.seq for one in socket.frames] == list(range(after + 1, len(WORDS) + 3))

    asyncio.run(run())


def test_results_can_be_given_on_another_connection() -> None:
    async def run() -> None:
        calling = Reply.of(ToolCall.of("look", {}, "c1"))
        body = {**HELLO, "tools": [{"type": "function", "function": {"name": "look"}}]}
        async with gateway_of(scripted_engine(calling, "seen")) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(body))
                called = await socket.until(out.CallFrame)
            async with connect(client) as socket:
                await socket.send(ResumeFrame(called.turn, called.seq))
                await socket.send(CallerResultFrame(called.turn, "c1", "nothing"))
                last = await socket.to_end()
                assert [one.seq for one in socket.frames] == list(range(called.seq + 1, last.seq + 1))
                assert socket.of(out.TokenFrame) == [out.TokenFrame("seen")]

    asyncio.run(run())


def test_dropped_frames_are_reported_and_the_rest_can_be_resumed() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=config_with(resume_bytes=500)) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            engine.go.set()
            while not engine.is_closed:
                await asyncio.sleep(0)
            async with connect(client) as socket:
                await socket.send(ResumeFrame(turn, 2))
                refusal = (await socket.next()).frame
                assert isinstance(refusal, out.ErrorFrame)
                assert refusal.code == "frames_gone"
                first_kept = int(refusal.hint.split()[2])
                await socket.send(ResumeFrame(turn, first_kept))
                last = await socket.to_end()
                assert [one.seq for one in socket.frames[1:]] == list(range(first_kept + 1, last.seq + 1))
                assert 2 < first_kept < last.seq

    asyncio.run(run())


@pytest.mark.parametrize("after, code", [(-1, "bad_request"), (1000, "bad_request")])
def test_a_frame_that_never_was_cannot_be_resumed_after(after: int, code: str) -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("hello")) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            turn = (await socket.to_end()).turn
            assert await refusal_of(socket, ResumeFrame(turn, after)) == code

    asyncio.run(run())


@pytest.mark.parametrize(
    "who, code",
    [("ann", ""), ("ann again", "turn_not_found"), ("bo", "turn_not_found"), ("ann elsewhere", "turn_not_found")],
)
def test_only_the_same_principal_finds_a_turn(who: str, code: str) -> None:
    async def run() -> None:
        elsewhere = key("ann", "ann elsewhere", tenant="elsewhere")
        config = config_with_keys(key("ann"), key("ann2", "ann again"), key("bo", admin=True), elsewhere)
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=config) as client:
            async with connect(client, bearer("ann")) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            async with connect(client, bearer(who)) as other:
                if code:
                    for frame in (ResumeFrame(turn), CallerResultFrame(turn, "c1"), {"type": "cancel", "turn": turn}):
                        await other.send(frame)
                        refusal = (await other.next()).frame
                        assert isinstance(refusal, out.ErrorFrame)
                        assert refusal.code == code
                    assert not engine.is_closed
                else:
                    await other.send(ResumeFrame(turn))
                    assert (await other.next()).seq == 1

    asyncio.run(run())


def test_resuming_takes_the_turn_from_the_earlier_connection() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connect(client) as first, connect(client) as second:
            await first.send(AskFrame(HELLO))
            turn = (await first.until(out.TokenFrame)).turn
            await second.send(ResumeFrame(turn, 2))
            taken = await first.next()
            assert isinstance(taken.frame, out.ErrorFrame)
            assert (taken.turn, taken.frame.code) == ("", "turn_taken")
            engine.go.set()
            await second.to_end()
            assert [one.seq for one in second.frames] == list(range(3, len(WORDS) + 3))
            # The first one is gone, and its turn is not: another has it.
            assert len(first.frames) == 3

    asyncio.run(run())


def test_a_turn_that_is_not_resumed_is_stopped() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=config_with(resume_seconds=0.05)) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            while not engine.is_closed:
                await asyncio.sleep(0.01)
            async with connect(client) as socket:
                assert await refusal_of(socket, ResumeFrame(turn)) == "turn_not_found"

    asyncio.run(run())


def test_a_turn_that_somebody_reads_is_not_stopped_however_long_it_takes() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=config_with(resume_seconds=0.05)) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            async with connect(client) as socket:
                await socket.send(ResumeFrame(turn))
                await asyncio.sleep(0.2)
                engine.go.set()
                assert isinstance((await socket.to_end()).frame, out.DoneFrame)

    asyncio.run(run())


def test_what_is_under_way_is_stopped_when_the_gateway_is_closed() -> None:
    async def run() -> Paced:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            await socket.until(out.TokenFrame)
        return engine

    assert asyncio.run(run()).is_closed


def test_resuming_a_turn_on_the_same_connection_repeats_its_frames() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            turn = (await socket.until(out.TokenFrame)).turn
            await socket.send(ResumeFrame(turn))
            assert [(await socket.next()).seq for _ in range(2)] == [1, 2]
            engine.go.set()
            await socket.to_end()
            assert [one.seq for one in socket.frames] == [1, 2, *range(1, len(WORDS) + 3)]

    asyncio.run(run())
