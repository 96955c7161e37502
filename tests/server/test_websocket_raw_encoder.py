"""The rule and the raw model output of a turn over a WebSocket, for clients that request them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule import tool
from ferrule.core.event import Event, Finish, FinishReason, RuleShown, TextDelta, WireText
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import ModelFacts
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.engines.text.prompt import CHATML
from ferrule.errors import EngineUnavailableError
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits, ModelConfig
from ferrule.server.observability.telemetry import Telemetry
from ferrule.sources.functions import Functions
from server.client import gateway_of, scripted_engine
from server.websocket_client import connect

CALL = '<tool_call>\n{"name": "look", "arguments": {"place": "Bern"}}\n</tool_call>'
HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "How is Bern?"}]}
SHOWN: dict[str, Any] = {**HELLO, "ferrule": {"wire": True}}
RULE = RuleShown("hermes", "lark", "start: /a/", "prompt")


def raw_text(*texts: str) -> TextEngine:
    return TextEngine(FakeGenerator(texts, ModelFacts(template=CHATML)), TextOptions(format="hermes"))


@tool
def look(place: str) -> str:
    """Looks at a place."""
    return f"{place} is quiet"


class Showing(Engine):
    """Shows a rule and a little text, waits, and then fails or says a word."""

    traits = Traits(name="showing", honours=ALL_CHOICES)

    def __init__(self, *, waits: float = 0.0, fails: bool = False, texts: int = 1) -> None:
        self._waits, self._fails, self._texts = waits, fails, texts

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        assert request.shows_wire
        yield RULE
        await asyncio.sleep(self._waits)
        for _ in range(self._texts):
            yield WireText("<")
        if self._fails:
            raise EngineUnavailableError("gone")
        yield TextDelta("well")
        yield Finish(FinishReason.STOP)

    async def close(self) -> None:
        return


def test_every_round_of_a_loop_shows_its_rule_and_then_its_text() -> None:
    async def run() -> None:
        engine = raw_text(CALL, "It is quiet.")
        async with gateway_of(engine, sources=[Functions([look])]) as client, connect(client) as socket:
            await socket.send(AskFrame(SHOWN))
            assert isinstance((await socket.to_end()).frame, out.DoneFrame)
        kinds = [type(frame) for frame in socket.of(out.RuleFrame, out.WireFrame, out.ToolResultFrame)]
        wire = [out.WireFrame] * (-(-len(CALL) // 3))
        assert kinds == [out.RuleFrame, *wire, out.ToolResultFrame, out.RuleFrame, *[out.WireFrame] * 4]
        first, second = socket.of(out.RuleFrame)
        assert (first.format, first.target) == ("hermes", "lark")
        assert "look" in first.grammar
        assert "How is Bern?" in first.prompt
        assert "Bern is quiet" in second.prompt
        assert "".join(frame.text for frame in socket.of(out.WireFrame)) == f"{CALL}It is quiet."
        assert socket.of(out.TokenFrame)[-1].text
        assert [one.seq for one in socket.frames if one.turn] == list(range(1, len(socket.frames) + 1))

    asyncio.run(run())


@pytest.mark.parametrize("extension", [{}, {"ferrule": {}}, {"ferrule": {"wire": False}}, {"ferrule": {"wire": None}}])
def test_without_wire_no_raw_frames_are_sent(extension: dict[str, Any]) -> None:
    async def run() -> None:
        async with gateway_of(raw_text("Well.")) as client, connect(client) as socket:
            await socket.send(AskFrame({**HELLO, **extension}))
            await socket.to_end()
            assert socket.of(out.RuleFrame, out.WireFrame) == []
            assert "".join(frame.text for frame in socket.of(out.TokenFrame)) == "Well."

    asyncio.run(run())


def test_an_engine_without_a_rule_or_a_text_of_its_own_shows_none() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine("well")) as client, connect(client) as socket:
            await socket.send(AskFrame(SHOWN))
            await socket.to_end()
            assert [type(frame) for frame in socket.of(object)] == [out.StartedFrame, out.TokenFrame, out.DoneFrame]

    asyncio.run(run())


def test_a_wish_that_is_no_boolean_is_refused() -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine()) as client, connect(client) as socket:
            await socket.send(AskFrame({**HELLO, "ferrule": {"wire": "yes"}}, ref="r"))
            refusal = (await socket.to_end()).frame
            assert isinstance(refusal, out.ErrorFrame)
            assert refusal.ref == "r"
            assert "ferrule.wire" in refusal.message

    asyncio.run(run())


def test_other_apis_answer_as_ever() -> None:
    async def run() -> None:
        async with gateway_of(raw_text("Well.", "Well.")) as client:
            plain, raw = [
                (await client.post("/v1/chat/completions", {**body, "stream": True})).events()
                for body in (HELLO, SHOWN)
            ]
            assert [one["choices"] for one in raw] == [one["choices"] for one in plain]

    asyncio.run(run())


def test_failover_still_works_after_raw_frames_only() -> None:
    async def run() -> None:
        config = Config(
            engines=(EngineConfig(name="e0", use="e0"), EngineConfig(name="e1", use="e1")),
            models=(ModelConfig(name="m", engines=("e0", "e1")),),
        )
        engines = Showing(fails=True), Showing()
        async with gateway_of(*engines, config=config) as client, connect(client) as socket:
            await socket.send(AskFrame({**SHOWN, "model": "m"}))
            assert isinstance((await socket.to_end()).frame, out.DoneFrame)
            kinds = [type(frame) for frame in socket.of(out.RuleFrame, out.WireFrame, out.TokenFrame)]
            assert kinds == [out.RuleFrame, out.WireFrame, out.RuleFrame, out.WireFrame, out.TokenFrame]

    asyncio.run(run())


def test_a_rule_does_not_shorten_the_wait_for_the_first_word() -> None:
    async def run() -> None:
        config = Config(
            engines=(EngineConfig(name="e0", use="e0"),), limits=GatewayLimits(first_seconds=30.0, between_seconds=0.05)
        )
        async with gateway_of(Showing(waits=0.3), config=config) as client, connect(client) as socket:
            await socket.send(AskFrame(SHOWN))
            assert isinstance((await socket.to_end()).frame, out.DoneFrame)

    asyncio.run(run())


def test_raw_frames_are_not_events_of_the_answer() -> None:
    moments = iter(range(100))
    noted = Telemetry().begin_answer("m", "e", (), "")
    noted.begin()
    noted.clock = lambda: float(next(moments))
    for event in (RULE, WireText("a"), WireText("b"), TextDelta("c"), TextDelta("d")):
        noted.record_event(event)
    noted.end(None)
    assert noted.events == 2
    # Each that might be the first was looked at; the word was the fourth.
    assert noted.first_event_at == 3.0
