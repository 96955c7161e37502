"""The gateway's WebSocket with a real model, server and client: tools both ways, leave, cancel, resume."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect

from ferrule import tool
from ferrule.core.call import How
from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import (
    AskFrame,
    CallerResultFrame,
    CancelFrame,
    ClientFrame,
    ConfirmFrame,
    ResumeFrame,
)
from ferrule.dialects.frames.codec import NumberedFrame, decode_frame, encode_client_frame
from ferrule.engines.engine import Engine
from ferrule.formats import get_format, parse
from ferrule.schema.checker import checker_for
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits, ServerConfig
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.sources.functions import Functions
from ferrule.sources.source import Source
from live.model import smol

pytestmark = pytest.mark.live
PATIENCE = 300.0
NOTE: dict[str, Any] = {
    "type": "object",
    "properties": {"text": {"type": "string", "minLength": 1, "maxLength": 40}},
    "required": ["text"],
    "additionalProperties": False,
}


class Counted(Engine):
    """The model, with its events counted; it stays loaded when the gateway is closed."""

    def __init__(self) -> None:
        self._engine = smol("hermes")
        self.traits = self._engine.traits
        self.events = 0
        self.under_way = 0

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.under_way += 1
        try:
            async with aclosing(self._engine.stream(request)) as events:
                async for event in events:
                    self.events += 1
                    yield event
        finally:
            self.under_way -= 1

    async def close(self) -> None:
        return


@dataclass(slots=True)
class Heard:
    """One connection. `frames` is what came, without what only keeps it alive."""

    connection: ClientConnection
    frames: list[NumberedFrame] = field(default_factory=list[NumberedFrame])

    async def say(self, frame: ClientFrame) -> None:
        await self.connection.send(json.dumps(encode_client_frame(frame)))

    async def next(self) -> NumberedFrame:
        async with asyncio.timeout(PATIENCE):
            while True:
                found = decode_frame(json.loads(await self.connection.recv()))
                if not isinstance(found.frame, out.KeepAliveFrame):
                    self.frames.append(found)
                    return found

    async def until(self, *kinds: type) -> Any:
        while True:
            found = await self.next()
            assert not isinstance(found.frame, out.ErrorFrame), found
            if isinstance(found.frame, kinds):
                return found

    def of(self, *kinds: type) -> list[Any]:
        return [one.frame for one in self.frames if isinstance(one.frame, kinds)]


@asynccontextmanager
async def gateway(*sources: Source) -> AsyncGenerator[tuple[str, Counted]]:
    engine = Counted()
    config = Config(
        engines=(EngineConfig(name="smol", use="smol"),),
        server=ServerConfig(port=0, drain_seconds=1),
        limits=GatewayLimits(keep_alive_seconds=0.2),
    )
    async with open_gateway(config, sources, load=lambda use: engine) as made:
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(serve(application(made), config.server, started.set_result))
        try:
            yield f"ws://127.0.0.1:{await started}/v1/stream", engine
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def connected(url: str) -> AsyncGenerator[Heard]:
    async with connect(url, proxy=None) as connection:
        yield Heard(connection)


def asking(text: str, **more: Any) -> AskFrame:
    body = {"messages": [{"role": "user", "content": text}], "max_tokens": 60, "temperature": 0, "seed": 1, **more}
    return AskFrame(body)


def noting(most: int = 40) -> dict[str, Any]:
    """A demand for a call of the caller's own tool."""
    text = {**NOTE["properties"]["text"], "maxLength": most, "minLength": 1 if most == 40 else most}
    function = {"name": "take_note", "parameters": {**NOTE, "properties": {"text": text}}}
    tools = [{"type": "function", "function": function}]
    return {"tools": tools, "tool_choice": "required", "parallel_tool_calls": False}


def check_numbers(frames: list[NumberedFrame]) -> None:
    assert [one.seq for one in frames] == list(range(1, len(frames) + 1))
    assert len({one.turn for one in frames}) == 1


def test_an_answer_comes_token_by_token() -> None:
    async def run() -> None:
        async with gateway() as (url, _), connected(url) as heard:
            await heard.say(asking("Say hello."))
            done = await heard.until(out.DoneFrame)
            check_numbers(heard.frames)
            tokens = heard.of(out.TokenFrame)
            assert len(tokens) > 1
            assert done.frame.finish_reason in ("stop", "length")
            assert done.frame.usage.completion_tokens >= len(tokens)

    asyncio.run(run())


def test_what_the_model_is_held_to_and_writes_is_shown_to_who_asks() -> None:
    async def run() -> None:
        async with gateway() as (url, _), connected(url) as heard:
            await heard.say(asking("Take a note about Paris.", **noting(), ferrule={"wire": True}))
            called = await heard.until(out.CallFrame)
            (rule,) = heard.of(out.RuleFrame)
            assert "Take a note about Paris." in rule.prompt
            assert (rule.format, "take_note" in rule.grammar) == ("hermes", True)
            assert [type(one.frame) for one in heard.frames[:3]] == [out.StartedFrame, out.RuleFrame, out.WireFrame]
            wire = heard.of(out.WireFrame)
            written = parse(get_format("hermes"), "".join(one.text for one in wire))
            assert [call.arguments for call in written.calls] == [json.loads(called.frame.arguments)]
            # llama.cpp goes on cheaply: what the rule forces is put there.
            assert {one.forced for one in wire} == {True, False}
            await heard.say(CancelFrame(called.turn))
            await heard.until(out.DoneFrame)

    asyncio.run(run())


def test_the_model_goes_on_in_mid_stream_with_the_results_of_the_callers_tool() -> None:
    async def run() -> None:
        async with gateway() as (url, engine), connected(url) as heard:
            await heard.say(asking("Take a note about Paris.", **noting()))
            called = await heard.until(out.CallFrame)
            assert (called.frame.name, called.frame.runs, called.frame.receipt.how) == (
                *("take_note", "caller"),
                How.GRAMMAR,
            )
            assert not checker_for(NOTE).faults_of_text(called.frame.arguments)
            joined = "".join(one.arguments for one in heard.of(out.CallDeltaFrame))
            assert joined == called.frame.arguments
            # A small model may call again; every call is answered until it does not.
            for _ in range(8):
                await heard.say(CallerResultFrame(called.turn, called.frame.id, {"noted": True}))
                called = await heard.until(out.CallFrame, out.DoneFrame)
                if isinstance(called.frame, out.DoneFrame):
                    break
            assert isinstance(called.frame, out.DoneFrame)
            check_numbers(heard.frames)
            assert engine.under_way == 0

    asyncio.run(run())


def test_a_tool_of_the_gateway_runs_when_leave_is_given_over_the_socket() -> None:
    sent: list[str] = []

    @tool(side_effects=True)
    def send_note(text: str) -> str:
        """Send a note.

        Args:
            text: What it says.
        """
        sent.append(text)
        return "sent"

    async def run() -> None:
        async with gateway(Functions([send_note])) as (url, _), connected(url) as heard:
            await heard.say(asking("Send a note: hello.", tool_choice_policy="required_first_hop"))
            asked = (await heard.until(out.ConfirmationFrame)).frame
            assert (asked.tool.name, asked.tool.side_effects, sent) == ("send_note", True, [])
            await heard.say(ConfirmFrame(asked.approval, True, arguments={"text": "as agreed"}))
            gave = (await heard.until(out.ToolResultFrame)).frame
            assert (gave.content, gave.is_error, sent) == ("sent", False, ["as agreed"])
            while not isinstance(
                (found := (await heard.until(out.DoneFrame, out.ConfirmationFrame)).frame), out.DoneFrame
            ):
                await heard.say(ConfirmFrame(found.approval, False, "once is enough"))
            assert sent == ["as agreed"]
            check_numbers(heard.frames)

    asyncio.run(run())


def test_cancel_in_the_middle_of_a_call_stops_the_model_within_a_few_tokens() -> None:
    async def run() -> None:
        async with gateway() as (url, engine), connected(url) as heard:
            await heard.say(asking("Take a long note.", **{**noting(600), "max_tokens": 900}))
            turn = ""
            while len(heard.of(out.CallDeltaFrame)) < 6:
                turn = (await heard.next()).turn
            await heard.say(CancelFrame(turn))
            before = len(heard.frames)
            done = await heard.until(out.DoneFrame)
            assert done.frame.finish_reason == "cancelled"
            assert len(heard.frames) - before < 20
            assert not heard.of(out.CallFrame)
            assert engine.under_way == 0
            written = engine.events
            await asyncio.sleep(0.5)
            assert engine.events == written
            # The model is free for the next one.
            await heard.say(asking("Say hello.", max_tokens=8))
            assert (await heard.until(out.DoneFrame)).turn != turn

    asyncio.run(run())


def test_a_connection_that_is_cut_again_and_again_loses_no_frame_and_gets_none_twice() -> None:
    async def run() -> None:
        async with gateway() as (url, _):
            frames: list[NumberedFrame] = []
            async with connected(url) as heard:
                await heard.say(asking("Count from one to a hundred in words.", max_tokens=150))
                while len(heard.frames) < 8:
                    await heard.next()
                heard.connection.transport.abort()
                frames += heard.frames
            cuts = 0
            while not isinstance(frames[-1].frame, out.DoneFrame):
                async with connected(url) as heard:
                    await heard.say(ResumeFrame(frames[-1].turn, frames[-1].seq))
                    while len(heard.frames) < 25 and not heard.of(out.DoneFrame):
                        await heard.next()
                    heard.connection.transport.abort()
                    frames += heard.frames
                cuts += 1
            check_numbers(frames)
            assert cuts > 1
            # Once more from the beginning: what is kept is what was sent.
            async with connected(url) as heard:
                await heard.say(ResumeFrame(frames[0].turn))
                await heard.until(out.DoneFrame)
                assert heard.frames == frames

    asyncio.run(run())
