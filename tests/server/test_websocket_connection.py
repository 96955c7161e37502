"""WebSocket connections: invalid frames and limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame, ResumeFrame
from ferrule.engines.engine import Engine, Traits
from ferrule.errors import NotFoundError
from ferrule.server.app import sockets_of
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from ferrule.server.observability.logs import Log
from ferrule.server.websocket.turns import Turns
from server.client import gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.paced import Paced
from server.websocket_client import Socket, connect
from waiting import PATIENCE

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}


def config_with(**limits: Any) -> Config:
    return Config(engines=(EngineConfig(name="e0", use="e0"),), limits=GatewayLimits(**limits))


async def failure(socket: Socket) -> out.ErrorFrame:
    error = (await socket.until(out.ErrorFrame)).frame
    assert isinstance(error, out.ErrorFrame)
    return error


async def settle(socket: Socket) -> None:
    """Until the gateway has closed the connection."""
    async with asyncio.timeout(PATIENCE):
        while socket.closed is None:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize(
    "nonsense",
    [
        "",
        "hello",
        "[]",
        '"ask"',
        '{"type": "ask"}',
        '{"type": "fly"}',
        '{"type": "resume", "turn": "turn_0"}',
        '{"type": "ask", "body": {"messages": 7}}',
        '{"type": "ask", "body": {"messages": [{"role": "user", "content": "x"}]}, "NaN": NaN}',
        "[" * 5000,
        '{"a": ' * 5000,
        "\ud800",
        b"\xff\xfe\x00",
        b'{"type": "ask", "body": ',
    ],
)
def test_a_client_that_sends_an_invalid_frame_gets_an_error_and_keeps_its_connection(nonsense: str | bytes) -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            await socket.send(nonsense)
            await socket.send(AskFrame(HELLO, ref="then"))
            first = await socket.next()
            assert first.turn == ""
            assert isinstance(first.frame, out.ErrorFrame)
            assert first.frame.hint
            begun = (await socket.next()).frame
            assert isinstance(begun, out.StartedFrame)
            assert begun.ref == "then"
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert socket.closed is None

    asyncio.run(run())


def test_json_in_a_binary_frame_is_read_as_text() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            await socket.send(json.dumps({"type": "ask", "body": HELLO}).encode())
            assert (await socket.to_end()).frame == out.DoneFrame("stop")

    asyncio.run(run())


def test_a_frame_longer_than_a_body_may_be_is_refused() -> None:
    async def run() -> None:
        config = config_with(body_bytes=2000)
        async with gateway_of(scripted_engine("well"), config=config) as client, connect(client) as socket:
            await socket.send({"type": "ask", "body": {**HELLO, "user": "x" * 2000}, "ref": "long"})
            refusal = await failure(socket)
            assert (refusal.code, refusal.ref) == ("request_too_large", "long")

    asyncio.run(run())


def test_a_client_that_sends_faster_than_it_can_be_answered_is_closed() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            for _ in range(2000):
                await socket.send("nonsense")
            await settle(socket)
            assert (socket.closed, socket.reason) == (1008, "too many frames at once")
            assert len(socket.frames) < 2000

    asyncio.run(run())


def test_a_client_that_asks_and_never_reads_its_answers_is_closed_when_it_asks_on() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            socket.reads.clear()
            for _ in range(300):
                await socket.send("nonsense")
                await asyncio.sleep(0)
            await settle(socket)
            assert socket.closed == 1008

    asyncio.run(run())


def test_a_reader_that_stops_holds_up_its_own_turn_and_memory_stays_bounded() -> None:
    async def run() -> None:
        engine = Paced(["x" * 100] * 500)
        async with gateway_of(engine, config=config_with(resume_bytes=4000)) as client, connect(client) as socket:
            socket.reads.clear()
            await socket.send(AskFrame(HELLO))
            for _ in range(1000):
                await asyncio.sleep(0)
            # Each frame is about 170 bytes: half of the log, what is on its way, and no more.
            assert 5 < engine.written < 30
            socket.reads.set()
            last = await socket.to_end()
            assert [one.seq for one in socket.frames] == list(range(1, last.seq + 1))
            assert len(socket.of(out.TokenFrame)) == 500

    asyncio.run(run())


def test_a_reader_that_stops_for_too_long_loses_its_connection_and_not_its_turn() -> None:
    async def run() -> None:
        engine = Paced(["x" * 100] * 50)
        async with gateway_of(engine, config=config_with(resume_bytes=100_000, send_seconds=0.05)) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.next()).turn
                count = len(socket.frames)
                socket.reads.clear()
                await asyncio.sleep(0.2)
            async with connect(client) as again:
                await again.send(ResumeFrame(turn, count))
                await again.to_end()
                assert [one.seq for one in again.frames] == list(range(count + 1, 53))

    asyncio.run(run())


def test_a_connection_on_which_nothing_happens_is_kept_alive() -> None:
    async def run() -> None:
        config = config_with(keep_alive_seconds=0.02)
        async with gateway_of(scripted_engine("well"), config=config) as client, connect(client) as socket:
            while len(socket.of(out.KeepAliveFrame)) < 3:
                await asyncio.sleep(0.01)
            assert [(one.turn, one.seq) for one in socket.frames[:3]] == [("", 1), ("", 2), ("", 3)]

    asyncio.run(run())


def test_a_connection_has_room_for_so_many_turns_and_not_for_more() -> None:
    async def run() -> None:
        engine = Paced(["a", "b"], holds_after=0)
        async with gateway_of(engine) as client, connect(client) as socket:
            for _ in range(16):
                await socket.send(AskFrame(HELLO))
                await socket.until(out.StartedFrame)
            await socket.send(AskFrame(HELLO, ref="one more"))
            refusal = await failure(socket)
            assert (refusal.code, refusal.retryable, refusal.ref) == ("too_many_requests", True, "one more")

    asyncio.run(run())


def test_a_running_turn_counts_for_its_key_with_and_without_a_connection() -> None:
    async def run() -> None:
        engine = Paced(["a", "b"], holds_after=1)
        async with gateway_of(engine, config=config_with_keys(key("ann", width=1))) as client:
            async with connect(client, bearer("ann")) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
            async with connect(client, bearer("ann")) as socket:
                await socket.send(AskFrame(HELLO))
                assert (await failure(socket)).code == "too_many_requests"
                await socket.send(ResumeFrame(turn))
                assert (await socket.next()).turn == turn

    asyncio.run(run())


def test_every_ask_counts_for_the_rate_of_its_key() -> None:
    async def run() -> None:
        config = config_with_keys(key("ann", rate=2))
        async with (
            gateway_of(scripted_engine("well"), config=config) as client,
            connect(client, bearer("ann")) as socket,
        ):
            # The handshake was the first request.
            await socket.send(AskFrame(HELLO))
            await socket.to_end()
            await socket.send(AskFrame(HELLO))
            assert (await failure(socket)).code == "too_many_requests"

    asyncio.run(run())


def test_an_ended_turn_gives_its_place_back() -> None:
    async def run() -> None:
        engine = scripted_engine(*["well"] * 3)
        config = config_with_keys(key("ann", width=1))
        async with gateway_of(engine, config=config) as client, connect(client, bearer("ann")) as socket:
            for _ in range(3):
                await socket.send(AskFrame(HELLO))
                assert isinstance((await socket.to_end()).frame, out.DoneFrame)
                await asyncio.sleep(0)

    asyncio.run(run())


def test_without_a_key_nobody_gets_a_connection_where_there_are_keys() -> None:
    async def run() -> None:
        async with (
            gateway_of(scripted_engine("well"), config=config_with_keys(key("ann"))) as client,
            connect(client) as socket,
        ):
            await settle(socket)
            assert (socket.is_accepted, socket.closed, socket.reason) == (False, 1008, "unauthenticated")

    asyncio.run(run())


def test_a_gateway_that_is_being_stopped_takes_no_new_turn() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            await socket.send("nonsense")
            await failure(socket)
            client.gateway.telemetry.drain.begin()
            await socket.send(AskFrame(HELLO))
            refusal = await failure(socket)
            assert (refusal.retryable, refusal.code) == (True, "draining")

    asyncio.run(run())


class Broken(Engine):
    """Has a fault that nobody foresaw."""

    traits = Traits(name="broken")

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise ZeroDivisionError("a secret")
        yield

    async def close(self) -> None:
        return


def test_an_internal_error_ends_the_turn_without_details() -> None:
    async def run() -> None:
        async with gateway_of(Broken()) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            last = await socket.to_end()
            assert isinstance(last.frame, out.ErrorFrame)
            assert (last.turn != "", last.frame.code) == (True, "internal_error")
            assert "secret" not in last.frame.message

    asyncio.run(run())


def test_turns_that_have_ended_make_room_before_their_time() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(*["x" * 500] * 4)) as client:
            turns = Turns(client.gateway, Limiter.of(GatewayLimits(), ()), max_bytes=2000)
            principal = Principal()
            ids: list[str] = []
            for _ in range(4):
                live = turns.begin(AskFrame(HELLO), principal)
                ids.append(live.id)
                while not live.log.is_ended:
                    await asyncio.sleep(0)
            remaining = [id for id in ids if _is_there(turns, id, principal)]
            assert remaining == ids[2:]
            await turns.close()

    asyncio.run(run())


def _is_there(turns: Turns, id: str, principal: Principal) -> bool:
    try:
        turns.find(id, principal)
    except NotFoundError:
        return False
    return True


def test_the_application_serves_the_stream() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client:
            (route,) = sockets_of(client.gateway, Limiter.of(GatewayLimits(), ()))
            assert (route.path, route.scope) == ("/v1/stream", "any")

    asyncio.run(run())


def test_a_fault_outside_the_answer_ends_the_turn_as_well_and_is_written_down(monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(self: Any, event: Any) -> list[Any]:
        raise ZeroDivisionError("a secret")

    async def run() -> None:
        monkeypatch.setattr("ferrule.server.websocket.encoder.FrameEncoder.feed", breaks)
        lines: list[str] = []
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            client.gateway.telemetry.log = Log(lines.append)
            await socket.send(AskFrame(HELLO))
            last = await socket.to_end()
            assert isinstance(last.frame, out.ErrorFrame)
            assert (last.frame.code, "secret" in last.frame.message) == ("internal_error", False)
        assert any('"unexpected"' in line and "ZeroDivisionError" in line for line in lines)

    asyncio.run(run())
