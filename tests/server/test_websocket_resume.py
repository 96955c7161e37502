"""Coming back to a turn: what was missed comes again in order, each once, and only to whom it belongs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import Ask, Resume, ToolAnswer
from ferrule.server.config.config import Config, EngineConfig, Limits
from server.client import gateway_of, speaking
from server.keys import bearer, key, keyed
from server.paced import Paced
from server.websocket_client import Socket, connected

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
WORDS = [f"{number} " for number in range(30)]


def limited(**limits: Any) -> Config:
    return Config(engines=(EngineConfig(name="e0", use="e0"),), limits=Limits(**limits))


async def refused(socket: Socket, resume: Resume) -> str:
    await socket.say(resume)
    refusal = await socket.next()
    assert isinstance(refusal.frame, out.Failed)
    assert refusal.turn == ""
    return refusal.frame.code


def texts(frames: list[Any]) -> str:
    return "".join(one.frame.text for one in frames if isinstance(one.frame, out.Token))


@given(st.lists(st.integers(1, len(WORDS) + 2), max_size=4), st.booleans())
def test_however_often_the_connection_is_cut_every_frame_comes_once(cuts: list[int], is_quick: bool) -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=None if is_quick else len(WORDS) // 2)
        async with gateway_of(engine) as client:
            got: list[Any] = []
            async with connected(client) as socket:
                await socket.say(Ask(HELLO))
                got.append(await socket.next())
            turn = got[0].turn
            for cut in sorted(cuts):
                async with connected(client) as socket:
                    await socket.say(Resume(turn, len(got)))
                    while len(got) < cut and (is_quick or len(got) < len(WORDS) // 2):
                        got.append(await socket.next())
            engine.go.set()
            async with connected(client) as socket:
                await socket.say(Resume(turn, len(got)))
                while not got or not isinstance(got[-1].frame, out.Done):
                    got.append(await socket.next())
            assert [one.seq for one in got] == list(range(1, len(WORDS) + 3))
            assert {one.turn for one in got} == {turn}
            assert texts(got) == "".join(WORDS)

    asyncio.run(run())


def test_a_turn_goes_on_while_nobody_is_connected_and_can_be_read_after_its_end() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client:
            async with connected(client) as socket:
                await socket.say(Ask(HELLO))
                turn = (await socket.until(out.Token)).turn
            engine.go.set()
            while not engine.is_closed:
                await asyncio.sleep(0)
            for after in (0, 2, len(WORDS) + 1):
                async with connected(client) as socket:
                    await socket.say(Resume(turn, after))
                    await socket.to_end()
                    assert [one.seq for one in socket.frames] == list(range(after + 1, len(WORDS) + 3))

    asyncio.run(run())


def test_results_can_be_given_on_another_connection() -> None:
    async def run() -> None:
        calling = Reply.of(ToolCall.of("look", {}, "c1"))
        body = {**HELLO, "tools": [{"type": "function", "function": {"name": "look"}}]}
        async with gateway_of(speaking(calling, "seen")) as client:
            async with connected(client) as socket:
                await socket.say(Ask(body))
                called = await socket.until(out.Call)
            async with connected(client) as socket:
                await socket.say(Resume(called.turn, called.seq))
                await socket.say(ToolAnswer(called.turn, "c1", "nothing"))
                last = await socket.to_end()
                assert [one.seq for one in socket.frames] == list(range(called.seq + 1, last.seq + 1))
                assert socket.of(out.Token) == [out.Token("seen")]

    asyncio.run(run())


def test_frames_that_are_kept_no_longer_are_said_to_be_gone_and_the_rest_can_be_had() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=limited(resume_bytes=500)) as client:
            async with connected(client) as socket:
                await socket.say(Ask(HELLO))
                turn = (await socket.until(out.Token)).turn
            engine.go.set()
            while not engine.is_closed:
                await asyncio.sleep(0)
            async with connected(client) as socket:
                await socket.say(Resume(turn, 2))
                refusal = (await socket.next()).frame
                assert isinstance(refusal, out.Failed)
                assert refusal.code == "frames_gone"
                kept = int(refusal.hint.split()[2])
                await socket.say(Resume(turn, kept))
                last = await socket.to_end()
                assert [one.seq for one in socket.frames[1:]] == list(range(kept + 1, last.seq + 1))
                assert 2 < kept < last.seq

    asyncio.run(run())


@pytest.mark.parametrize("after, code", [(-1, "bad_request"), (1000, "bad_request")])
def test_a_frame_that_never_was_cannot_be_resumed_after(after: int, code: str) -> None:
    async def run() -> None:
        async with gateway_of(speaking("hello")) as client, connected(client) as socket:
            await socket.say(Ask(HELLO))
            turn = (await socket.to_end()).turn
            assert await refused(socket, Resume(turn, after)) == code

    asyncio.run(run())


@pytest.mark.parametrize(
    "who, code",
    [("ann", ""), ("ann again", "turn_not_found"), ("bo", "turn_not_found"), ("ann elsewhere", "turn_not_found")],
)
def test_only_the_same_principal_finds_a_turn(who: str, code: str) -> None:
    async def run() -> None:
        elsewhere = key("ann", "ann elsewhere", tenant="elsewhere")
        config = keyed(key("ann"), key("ann2", "ann again"), key("bo", admin=True), elsewhere)
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=config) as client:
            async with connected(client, bearer("ann")) as socket:
                await socket.say(Ask(HELLO))
                turn = (await socket.until(out.Token)).turn
            async with connected(client, bearer(who)) as other:
                if code:
                    for frame in (Resume(turn), ToolAnswer(turn, "c1"), {"type": "cancel", "turn": turn}):
                        await other.say(frame)
                        refusal = (await other.next()).frame
                        assert isinstance(refusal, out.Failed)
                        assert refusal.code == code
                    assert not engine.is_closed
                else:
                    await other.say(Resume(turn))
                    assert (await other.next()).seq == 1

    asyncio.run(run())


def test_who_resumes_takes_the_turn_from_the_connection_that_had_it() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connected(client) as first, connected(client) as second:
            await first.say(Ask(HELLO))
            turn = (await first.until(out.Token)).turn
            await second.say(Resume(turn, 2))
            taken = await first.next()
            assert isinstance(taken.frame, out.Failed)
            assert (taken.turn, taken.frame.code) == ("", "turn_taken")
            engine.go.set()
            await second.to_end()
            assert [one.seq for one in second.frames] == list(range(3, len(WORDS) + 3))
            # The first one is gone, and its turn is not: another has it.
            assert len(first.frames) == 3

    asyncio.run(run())


def test_a_turn_that_nobody_comes_back_for_is_stopped() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=limited(resume_seconds=0.05)) as client:
            async with connected(client) as socket:
                await socket.say(Ask(HELLO))
                turn = (await socket.until(out.Token)).turn
            while not engine.is_closed:
                await asyncio.sleep(0.01)
            async with connected(client) as socket:
                assert await refused(socket, Resume(turn)) == "turn_not_found"

    asyncio.run(run())


def test_a_turn_that_somebody_reads_is_not_stopped_however_long_it_takes() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine, config=limited(resume_seconds=0.05)) as client:
            async with connected(client) as socket:
                await socket.say(Ask(HELLO))
                turn = (await socket.until(out.Token)).turn
            async with connected(client) as socket:
                await socket.say(Resume(turn))
                await asyncio.sleep(0.2)
                engine.go.set()
                assert isinstance((await socket.to_end()).frame, out.Done)

    asyncio.run(run())


def test_what_is_under_way_is_stopped_when_the_gateway_is_closed() -> None:
    async def run() -> Paced:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connected(client) as socket:
            await socket.say(Ask(HELLO))
            await socket.until(out.Token)
        return engine

    assert asyncio.run(run()).is_closed


def test_who_resumes_what_he_reads_already_has_it_again_from_there() -> None:
    async def run() -> None:
        engine = Paced(WORDS, holds_after=1)
        async with gateway_of(engine) as client, connected(client) as socket:
            await socket.say(Ask(HELLO))
            turn = (await socket.until(out.Token)).turn
            await socket.say(Resume(turn))
            assert [(await socket.next()).seq for _ in range(2)] == [1, 2]
            engine.go.set()
            await socket.to_end()
            assert [one.seq for one in socket.frames] == [1, 2, *range(1, len(WORDS) + 3)]

    asyncio.run(run())
