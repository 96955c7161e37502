"""Turns over a WebSocket: answers, the caller's tools, and how a turn ends."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.core.request import ChoiceMode
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame, CallerResultFrame, CancelFrame
from ferrule.engines.fake import FakeEngine
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from server.client import gateway_of, scripted_engine
from server.paced import Paced
from server.websocket_client import Socket, connect

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}},
}
CALLING = {**HELLO, "tools": [WEATHER], "tool_choice": "required"}


def config_with(**limits: Any) -> Config:
    return Config(engines=(EngineConfig(name="e0", use="e0"),), limits=GatewayLimits(**limits))


def calls(*ids: str) -> Reply:
    return Reply.of(*(ToolCall.of("weather", {"city": id}, id) for id in ids))


def check_numbers(socket: Socket) -> None:
    """Every turn counts from 1 without gaps, and so does the connection."""
    for turn in {one.turn for one in socket.frames}:
        seqs = [one.seq for one in socket.frames if one.turn == turn]
        assert seqs == list(range(1, len(seqs) + 1))


def test_an_answer_comes_in_pieces_and_ends_with_its_reason_and_usage() -> None:
    async def run() -> None:
        async with gateway_of(Paced(["It ", "is ", "so."])) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO, ref="mine"))
            last = await socket.to_end()
            assert last.frame == out.DoneFrame("stop", Usage(3, 3))
            assert socket.of(out.TokenFrame) == [out.TokenFrame("It "), out.TokenFrame("is "), out.TokenFrame("so.")]
            assert socket.of(out.StartedFrame) == [out.StartedFrame("none", "e0", "", "mine")]
            assert {one.turn for one in socket.frames} == {last.turn}
            check_numbers(socket)

    asyncio.run(run())


def test_a_body_of_the_messages_api_is_answered_too() -> None:
    async def run() -> None:
        engine = scripted_engine("well")
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame({**HELLO, "system": "Be short.", "max_tokens": 7}, api="anthropic"))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert [message.content for message in engine.requests[0].messages] == ["Be short.", "hello"]
            assert engine.requests[0].max_tokens == 7

    asyncio.run(run())


def test_the_model_continues_in_the_same_stream_when_every_call_has_its_result() -> None:
    async def run() -> None:
        engine = scripted_engine(calls("c1", "c2"), calls("c3"), "21 degrees")
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            turn = (await socket.until(out.CallFrame)).turn
            await socket.until(out.CallFrame)
            await socket.send(CallerResultFrame(turn, "c2", {"degrees": 22}))
            await socket.send(CallerResultFrame(turn, "c1", "no such city", is_error=True))
            third = await socket.until(out.CallFrame)
            assert (third.turn, third.frame) == (turn, out.CallFrame("c3", "weather", '{"city": "c3"}', "caller"))
            await socket.send(CallerResultFrame(turn, "c3", 21))
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            check_numbers(socket)
        last = engine.requests[-1].messages
        assert [(one.tool_call_id, one.content, one.is_error) for one in last[2].results] == [
            ("c1", "no such city", True),
            ("c2", {"degrees": 22}, False),
        ]
        assert [one.content for one in last[4].results] == [21]
        # What was demanded was a call, and there was one: demanded again there would never be an answer.
        assert [request.tool_choice.mode for request in engine.requests] == [
            ChoiceMode.REQUIRED,
            ChoiceMode.AUTO,
            ChoiceMode.AUTO,
        ]

    asyncio.run(run())


@pytest.mark.parametrize("count", [1, 3])
def test_a_receipt_comes_with_every_call(count: int) -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(calls(*map(str, range(count))))) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            for _ in range(count):
                call = (await socket.until(out.CallFrame)).frame
                assert isinstance(call, out.CallFrame)
                assert call.receipt is not None

    asyncio.run(run())


def test_a_result_for_no_call_and_a_second_result_are_refused_and_the_turn_continues() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(calls("c1", "c2"), "done")) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            await socket.until(out.CallFrame)
            turn = (await socket.until(out.CallFrame)).turn
            for id, code in (("c9", "call_not_found"), ("c1", ""), ("c1", "call_answered")):
                await socket.send(CallerResultFrame(turn, id, "x", ref=id))
                if code:
                    refusal = await socket.until(out.ErrorFrame)
                    assert isinstance(refusal.frame, out.ErrorFrame)
                    assert (refusal.turn, refusal.frame.code, refusal.frame.ref) == ("", code, id)
            await socket.send(CallerResultFrame(turn, "c2", "x"))
            assert isinstance((await socket.to_end()).frame, out.DoneFrame)

    asyncio.run(run())


def test_a_call_that_was_cut_off_is_never_handed_on() -> None:
    async def run() -> None:
        cut = replace(ToolCall.of("weather", '{"city": "x', "c1"), complete=False)
        reply = replace(Reply.of(cut), finish=FinishReason.LENGTH)
        async with gateway_of(scripted_engine(reply)) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            assert (await socket.to_end()).frame == out.DoneFrame("length")
            assert not socket.of(out.CallFrame)
            assert [(one.code, one.id) for one in socket.of(out.DiagnosticFrame)] == [("incomplete_call", "c1")]

    asyncio.run(run())


def test_a_whole_call_of_an_answer_that_was_cut_off_is_not_waited_for() -> None:
    async def run() -> None:
        reply = replace(calls("c1"), finish=FinishReason.LENGTH)
        async with gateway_of(scripted_engine(reply)) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            assert (await socket.to_end()).frame == out.DoneFrame("length")

    asyncio.run(run())


def test_cancel_stops_the_engine_at_once() -> None:
    async def run() -> None:
        engine = Paced(["a"] * 50, holds_after=2)
        async with gateway_of(engine) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            turn = (await socket.until(out.TokenFrame)).turn
            await socket.send(CancelFrame(turn))
            last = await socket.to_end()
            assert (last.turn, last.frame) == (turn, out.DoneFrame("cancelled"))
            assert (engine.is_closed, engine.written) == (True, 2)
            # Once more changes nothing.
            await socket.send(CancelFrame(turn))
            await socket.send({"type": "cancel"})
            assert (await socket.next()).turn == ""

    asyncio.run(run())


def test_cancel_ends_a_turn_that_waits_for_results() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(calls("c1"), "never")) as client, connect(client) as socket:
            await socket.send(AskFrame(CALLING))
            turn = (await socket.until(out.CallFrame)).turn
            await socket.send(CancelFrame(turn))
            assert (await socket.to_end()).frame == out.DoneFrame("cancelled")

    asyncio.run(run())


def test_the_last_frames_of_a_disconnecting_client_are_handled() -> None:
    async def run() -> None:
        engine = Paced(["a"] * 50, holds_after=1)
        async with gateway_of(engine) as client:
            async with connect(client) as socket:
                await socket.send(AskFrame(HELLO))
                turn = (await socket.until(out.TokenFrame)).turn
                await socket.send(CancelFrame(turn))
            await asyncio.sleep(0.01)
            assert engine.is_closed

    asyncio.run(run())


def test_an_error_of_the_engine_ends_the_turn_and_not_the_connection() -> None:
    async def run() -> None:
        async with gateway_of(FakeEngine([])) as client, connect(client) as socket:
            for _ in range(2):
                await socket.send(AskFrame(HELLO))
                last = await socket.to_end()
                assert last.turn
                assert isinstance(last.frame, out.ErrorFrame)
                assert (last.frame.code, bool(last.frame.hint)) == ("engine_failed", True)

    asyncio.run(run())


@pytest.mark.parametrize("limits", [{"first_seconds": 0.05}, {"total_seconds": 0.05}])
def test_a_turn_that_takes_too_long_ends_with_an_error_that_says_so(limits: dict[str, float]) -> None:
    async def run() -> None:
        engine = Paced(["a"], holds_after=0)
        async with gateway_of(engine, config=config_with(**limits)) as client, connect(client) as socket:
            await socket.send(AskFrame(HELLO))
            last = (await socket.to_end()).frame
            assert isinstance(last, out.ErrorFrame)
            assert (last.code, last.retryable, engine.is_closed) == ("timeout", True, True)

    asyncio.run(run())


def test_an_invalid_body_is_refused_before_there_is_a_turn() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("a"), scripted_engine("b")) as client, connect(client) as socket:
            for body, code in (({"messages": []}, "bad_request"), ({**HELLO, "model": "x"}, "model_not_found")):
                await socket.send(AskFrame(body, ref=code))
                refusal = await socket.next()
                assert isinstance(refusal.frame, out.ErrorFrame)
                assert (refusal.turn, refusal.frame.code, refusal.frame.ref) == ("", code, code)

    asyncio.run(run())


def test_turns_run_side_by_side_on_one_connection() -> None:
    async def run() -> None:
        slow = Paced(["a", "b"], holds_after=1)
        async with gateway_of(slow, scripted_engine("quick")) as client, connect(client) as socket:
            await socket.send(AskFrame({**HELLO, "model": "e0"}))
            first = (await socket.until(out.TokenFrame)).turn
            await socket.send(AskFrame({**HELLO, "model": "e1"}))
            second = (await socket.to_end()).turn
            slow.go.set()
            assert (await socket.to_end()).turn == first != second
            check_numbers(socket)

    asyncio.run(run())


def test_a_client_may_speak_as_the_specification_does() -> None:
    async def run() -> None:
        engine = scripted_engine(calls("c1", "c2"), "21 degrees")
        async with gateway_of(engine) as client, connect(client) as socket:
            socket.is_raw = True
            await socket.send({"type": "ask", "body": CALLING, "spelling": "specification"})
            frames = [await socket.next_json() for _ in range(2)]
            while [frame["type"] for frame in frames].count("tool_call") < 2:
                frames.append(await socket.next_json())
            deltas = [frame for frame in frames if frame["type"] == "tool_call_delta"]
            assert all("arguments" not in frame for frame in deltas)
            joined = "".join(frame["arguments_delta"] for frame in deltas if frame["id"] == "c1")
            assert json.loads(joined) == {"city": "c1"}
            assert [frame["arguments"] for frame in frames if frame["type"] == "tool_call"] == [
                {"city": "c1"},
                {"city": "c2"},
            ]
            for id in ("c2", "c1"):
                await socket.send({"type": "tool_result", "tool_call_id": id, "body": {"degrees": 21}})
            while frames[-1]["type"] != "done":
                frames.append(await socket.next_json())
        results = {result.tool_call_id: result.content for one in engine.requests[1].messages for result in one.results}
        assert results == {"c1": {"degrees": 21}, "c2": {"degrees": 21}}

    asyncio.run(run())


def test_a_result_without_a_turn_needs_a_call_that_waits() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(calls("c1"), "done")) as client, connect(client) as socket:
            await socket.send({"type": "tool_result", "tool_call_id": "c1", "body": 1})
            await socket.until(out.ErrorFrame)
            await socket.send(AskFrame(CALLING))
            await socket.until(out.CallFrame)
            await socket.send({"type": "tool_result", "tool_call_id": "c9", "body": 1})
            await socket.until(out.ErrorFrame)
            await socket.send({"type": "tool_result", "tool_call_id": "c1", "body": 1})
            assert (await socket.to_end()).frame == out.DoneFrame("stop")
            assert [frame.code for frame in socket.of(out.ErrorFrame)] == ["call_not_found"] * 2

    asyncio.run(run())


def test_a_result_without_a_turn_is_refused_if_two_turns_wait_for_its_call() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(calls("c1"), calls("c1"))) as client, connect(client) as socket:
            for _ in range(2):
                await socket.send(AskFrame(CALLING))
                await socket.until(out.CallFrame)
            await socket.send({"type": "tool_result", "tool_call_id": "c1", "body": 1})
            await socket.until(out.ErrorFrame)
            assert "two turns" in socket.of(out.ErrorFrame)[0].message

    asyncio.run(run())
