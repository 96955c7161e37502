"""Two real engines behind one model's name, and one of them killed in the middle of its answers, again and again."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import pytest

from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ModelConfig, ServerConfig
from ferrule.server.gateway import Gateway
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from lab.servers import free_port, kill_group, llama_server

pytestmark = [pytest.mark.live, pytest.mark.long]
KILLS, AT_ONCE = int(os.environ.get("FERRULE_KILLS", "3")), 3
TOOL = {
    "type": "function",
    "function": {
        "name": "take_note",
        "parameters": {
            "type": "object",
            "properties": {"text": {"type": "string", "minLength": 30, "maxLength": 40}},
            "required": ["text"],
            "additionalProperties": False,
        },
    },
}
BODY = {
    "model": "smol",
    "messages": [{"role": "user", "content": "Take a note about Paris."}],
    "tools": [TOOL],
    "tool_choice": "required",
    "parallel_tool_calls": False,
    "max_tokens": 80,
    "stream": True,
}


@dataclass(slots=True)
class Heard:
    """What a client was sent, and what it had been sent when the engine was killed."""

    events: list[Any] = field(default_factory=list[Any])
    status: int = 0
    when_killed: int = 0
    is_done: bool = False

    @property
    def error(self) -> Any:
        return next((one["error"] for one in self.events if "error" in one), None)

    @property
    def arguments(self) -> str:
        deltas = [one["choices"][0]["delta"] for one in self.events if one.get("choices")]
        return "".join(call["function"].get("arguments", "") for one in deltas for call in one.get("tool_calls", ()))

    @property
    def finish(self) -> str | None:
        reasons = [one["choices"][0]["finish_reason"] for one in self.events if one.get("choices")]
        return next((reason for reason in reasons if reason), None)


@asynccontextmanager
async def gateway(*urls: str) -> AsyncGenerator[tuple[str, Gateway]]:
    engines = [EngineConfig(name=f"e{at}", use=f"llama-server:{url}?tries=1") for at, url in enumerate(urls)]
    model = ModelConfig(name="smol", engines=tuple(one.name for one in engines))
    config = Config(engines=tuple(engines), models=(model,), server=ServerConfig(port=free_port(), drain_seconds=1))
    async with open_gateway(config) as made:
        started = asyncio.Event()
        serving = asyncio.ensure_future(serve(application(made), config.server, lambda _: started.set()))
        await started.wait()
        try:
            yield f"http://127.0.0.1:{config.server.port}", made
        finally:
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)


async def listen(session: aiohttp.ClientSession, url: str, heard: Heard, spoke: asyncio.Event) -> None:
    async with session.post(f"{url}/v1/chat/completions", json=BODY) as answer:
        heard.status = answer.status
        if answer.status != 200:
            heard.events.append(await answer.json())
            return
        async for line in answer.content:
            if line.startswith(b"data: [DONE]"):
                heard.is_done = True
            elif line.startswith(b"data: "):
                heard.events.append(json.loads(line[6:]))
                if heard.arguments:
                    spoke.set()


def is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


async def killed_once(session: aiohttp.ClientSession, url: str, port: int, made: Gateway) -> list[Heard]:
    """Several answers under way on the first engine, which dies while at least one of them is in mid-call."""
    with llama_server(port=port, slots=AT_ONCE - 1, end=kill_group):
        # It would rest after its last death, longer each time.
        made.router.replicas[0].health.record_success()
        heard, spoke = [Heard() for _ in range(AT_ONCE)], asyncio.Event()
        asking = [asyncio.ensure_future(listen(session, url, one, spoke)) for one in heard]
        await asyncio.wait_for(spoke.wait(), 60)
        for one in heard:
            one.when_killed = len(one.events)
    await asyncio.wait_for(asyncio.gather(*asking), 120)
    return heard


def test_an_engine_that_dies_in_mid_stream_leaves_no_half_call_and_what_had_not_begun_moves() -> None:
    async def scenario() -> list[Heard]:
        port = free_port()
        with llama_server() as standing:
            async with gateway(f"http://127.0.0.1:{port}", standing) as (url, made), aiohttp.ClientSession() as session:
                return [one for _ in range(KILLS) for one in await killed_once(session, url, port, made)]

    heard = asyncio.run(scenario())
    whole = [one for one in heard if one.finish]
    broken = [one for one in heard if one.error]
    moved = [one for one in whole if not one.when_killed]
    print(f"\n{len(heard)} answers, {KILLS} kills: {len(whole)} whole ({len(moved)} moved), {len(broken)} broken off")
    assert len(whole) + len(broken) == len(heard)
    for one in whole:
        assert one.finish == "tool_calls"
        assert one.is_done
        assert 30 <= len(json.loads(one.arguments)["text"]) <= 40
    for one in broken:
        assert one.when_killed, "what had delivered nothing must move to the other engine"
        assert not one.is_done
        assert one.error["type"] == "server_error"
        assert not is_json(one.arguments)
    assert len(broken) >= KILLS, "the engine was not killed in mid-stream"
    assert moved
