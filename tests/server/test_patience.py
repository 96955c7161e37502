"""An answer is ended by silence, not by work: an engine that reads a long prompt is waited for, a frozen one is not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from ferrule.core.event import Event, TextDelta
from ferrule.core.request import ToolCallRequest
from ferrule.engines.completions import CompletionDecoder
from ferrule.engines.engine import Engine, Traits
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.generator import CompletionEnd, CompletionRequest, ModelFacts, Piece
from ferrule.engines.http import DEFAULT_DEADLINES
from ferrule.engines.registry import load_engine
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from server.client import ClientResponse, gateway_of

SILENCE = 2.0
STEP = 0.2
STEPS = 15
"""Together longer than the limit of silence, each far shorter."""
LIMITS: dict[str, Any] = {"first_seconds": SILENCE, "silent_first_seconds": SILENCE, "between_seconds": SILENCE}
WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"type": "function", "function": {"name": "get_weather", "parameters": WEATHER}}


class SlowEngine(Engine):
    """Reads a prompt in steps, and then answers, or freezes."""

    def __init__(self, *, reports: bool = True, freezes: bool = False, reads_silently: bool = False) -> None:
        self.traits = Traits(name="slow", reads_silently=reads_silently)
        self._reports, self._freezes = reports, freezes
        self.is_stopped = False

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        try:
            for _ in range(STEPS):
                await asyncio.sleep(STEP)
                if self._reports and request.on_progress is not None:
                    request.on_progress()
            if self._freezes:
                await asyncio.Event().wait()
            yield TextDelta("Done.")
        finally:
            self.is_stopped = True

    async def close(self) -> None:
        """There is nothing to close."""


async def _ask(engine: Engine, limits: dict[str, Any] = LIMITS, **more: Any) -> ClientResponse:
    config = Config(engines=(EngineConfig(name="e0", use="e0"),), limits=GatewayLimits(**limits))
    async with gateway_of(engine, config=config) as client:
        body = {"messages": [{"role": "user", "content": "Hello."}], **more}
        return await client.post("/v1/chat/completions", body)


def ask(engine: Engine, limits: dict[str, Any] = LIMITS, **more: Any) -> ClientResponse:
    return asyncio.run(_ask(engine, limits, **more))


def test_an_engine_that_reports_progress_is_waited_for_longer_than_the_limit_of_silence() -> None:
    assert STEPS * STEP > SILENCE
    response = ask(SlowEngine())
    assert response.json()["choices"][0]["message"]["content"] == "Done."


@pytest.mark.parametrize("engine", [SlowEngine(reports=False), SlowEngine(freezes=True)], ids=["silent", "frozen"])
def test_an_engine_that_stays_silent_is_ended_and_stopped(engine: SlowEngine) -> None:
    response = ask(engine)
    assert (response.status, response.json()["error"]["code"]) == (504, "timeout")
    assert engine.is_stopped


def test_an_engine_that_reads_silently_has_a_limit_of_its_own() -> None:
    limits = {**LIMITS, "first_seconds": STEP, "silent_first_seconds": 100 * SILENCE}
    assert ask(SlowEngine(reports=False, reads_silently=True), limits).status == 200
    assert ask(SlowEngine(reports=False), limits).status == 504


def test_a_configured_total_limit_ends_an_engine_that_makes_progress() -> None:
    assert ask(SlowEngine(), {**LIMITS, "total_seconds": STEP}).status == 504


class SlowWriter(FakeGenerator):
    """Writes a call token by token, for longer than the limit of silence."""

    async def generate(self, request: CompletionRequest) -> AsyncGenerator[Piece | CompletionEnd, None]:
        text = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome, in Italy"}}\n</tool_call>'
        for at in range(0, len(text), 6):
            await asyncio.sleep(STEP)
            yield Piece(text[at : at + 6])
        yield CompletionEnd(False, 1, 1)


def test_a_call_that_is_held_back_while_it_is_written_is_no_silence() -> None:
    engine = TextEngine(SlowWriter([], ModelFacts()), TextOptions(format="hermes", is_constrained=False))
    response = ask(engine, tools=[TOOL])
    assert response.json()["choices"][0]["finish_reason"] == "tool_calls"


def test_by_default_nothing_limits_all_of_an_answer() -> None:
    assert GatewayLimits().total_seconds == 0
    assert DEFAULT_DEADLINES.total == float("inf")


@pytest.mark.parametrize(
    "name", ["vllm:http://127.0.0.1:1", "sglang:http://127.0.0.1:1", "vllm:http://127.0.0.1:1?tries=1"]
)
def test_servers_that_read_silently_are_waited_for_longer(name: str) -> None:
    engine = load_engine(name)
    assert engine.traits.reads_silently
    assert engine.generator._http.deadlines.first == GatewayLimits().silent_first_seconds  # type: ignore[attr-defined]


def test_only_more_of_the_prompt_is_progress() -> None:
    reports: list[int] = []
    decoder = CompletionDecoder(lambda: reports.append(1))
    for processed in (0, 0, 128, 128, 256):
        decoder.decode({"choices": [{"text": ""}], "prompt_progress": {"total": 300, "processed": processed}})
    decoder.decode({"choices": [{"text": ""}], "prompt_progress": {"total": 300, "processed": None}})
    assert len(reports) == 3
