"""Secrets put wherever a client, an engine or a tool can put one, and looked for in everything that comes out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.errors import EngineError, EngineUnavailableError, ToolError
from ferrule.schema.tool_decorator import tool
from ferrule.sources.functions import Functions
from server.client import Answered, Client, speaking
from server.keys import key, keyed
from server.test_router import Failing
from server.watched import BODIES, CHAT, MESSAGES, Lines, Stumbling, watched_gateway

CANARY = "canary-7f3a91"
HEADERS = {
    "authorization": f"Bearer {CANARY}",
    "x-api-key": CANARY,
    "cookie": f"session={CANARY}",
    "user-agent": CANARY,
    "traceparent": CANARY,
    "x-request-id": CANARY,
}
SAYING: dict[str, Any] = {
    "model": CANARY,
    "user": CANARY,
    "metadata": {CANARY: CANARY},
    "messages": [{"role": "user", "content": CANARY}],
    "max_tokens": 20,
}
TOOLS = [{"type": "function", "function": {"name": CANARY, "description": CANARY, "parameters": {"type": "object"}}}]


@tool
def tells(text: str) -> str:
    """Says its text again, inside an error."""
    raise ToolError(f"{text} {CANARY}")


@tool
def breaks(text: str) -> str:
    """Breaks with its text."""
    raise RuntimeError(f"{text} {CANARY}")


def logged(
    *engines: Engine, asked: tuple[str, str, Any] = ("POST", CHAT, SAYING), own: bool = False, guarded: bool = False
) -> tuple[Lines, Answered]:
    """Everything that is logged and shown of one request; its answer."""

    async def scenario() -> tuple[Lines, Answered]:
        sources = [Functions([tells, breaks])] if own else []
        config = keyed(key("ann", CANARY, tools=("*",)), metrics_open=True) if guarded else None
        async with watched_gateway(*engines, sources=sources, config=config) as (client, lines):
            answer = await client.ask(*asked, headers=HEADERS)
            await _shown(client, lines)
        return lines, answer

    return asyncio.run(scenario())


async def _shown(client: Client, lines: Lines) -> None:
    for path in ("/metrics", "/readyz"):
        lines.texts.append(json.dumps({"event": path, "is": (await client.get(path)).body.decode()}))


def test_the_canary_would_be_found() -> None:
    lines = Lines([f'{{"event": "{CANARY}"}}\n'])
    assert CANARY in lines.all


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_of_headers_bodies_and_answers_is_logged(stream: bool, guarded: bool) -> None:
    lines, answer = logged(speaking(CANARY), asked=("POST", CHAT, {**SAYING, "stream": stream}), guarded=guarded)
    assert answer.status == 200
    assert lines.named("request")
    assert CANARY not in lines.all


def test_nothing_of_a_callers_tools_is_logged() -> None:
    called = Reply.of(ToolCall.of(CANARY, {CANARY: CANARY}, id=CANARY))
    lines, _ = logged(speaking(called), asked=("POST", CHAT, {**SAYING, "tools": TOOLS}))
    assert lines.named("request")[0]["calls"] == ["caller=validated"]
    assert CANARY not in lines.all


@pytest.mark.parametrize("name", ["tells", "breaks"])
def test_nothing_of_arguments_results_and_errors_of_tools_is_logged(name: str) -> None:
    called = Reply.of(ToolCall.of(name, {"text": CANARY}, id=CANARY))
    lines, _ = logged(speaking(called, CANARY), own=True)
    assert lines.named("request")[0]["calls"] == [f"{name}=validated"]
    assert CANARY not in lines.all


@pytest.mark.parametrize("path", [f"/{CANARY}", f"/v1/models/{CANARY}", f"/v1/models?key={CANARY}"])
def test_nothing_of_an_address_is_logged(path: str) -> None:
    lines, _ = logged(speaking(), asked=("GET", path, None))
    assert lines.named("request")
    assert CANARY not in lines.all


def test_a_body_that_cannot_be_read_is_not_logged() -> None:
    lines, answer = logged(speaking(), asked=("POST", CHAT, f'{{"{CANARY}'.encode()))
    assert answer.status == 400
    assert CANARY not in lines.all


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("kind", [EngineError, EngineUnavailableError])
def test_nothing_that_an_engine_says_of_its_failure_is_logged(kind: type[EngineError], after: int) -> None:
    engine = Failing(kind(f"https://user:{CANARY}@engine", code=CANARY, hint=CANARY), after)
    lines, _ = logged(engine, asked=("POST", CHAT, {**SAYING, "stream": bool(after)}))
    assert lines.named("engine_failed")
    assert CANARY not in lines.all


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_an_error_that_nobody_foresaw_is_told_by_the_requests_id_alone(path: str, after: int, stream: bool) -> None:
    engine = Stumbling(RuntimeError(CANARY), after)
    lines, answer = logged(engine, asked=("POST", path, {**BODIES[path], "stream": stream}))
    (line,) = lines.named("unexpected")
    assert line["id"] == answer.headers["x-request-id"]
    assert line["kinds"] == ["builtins.RuntimeError"]
    assert line["stack"][0].endswith("Stumbling.stream")
    assert CANARY not in lines.all
    assert "sk-local-variable" not in lines.all
    assert CANARY.encode() not in answer.body
    assert line["id"].encode() in answer.body
    told = answer.events()[-1] if answer.headers["content-type"] == "text/event-stream" else answer.json()
    assert (answer.status, "error" in told) == (200 if stream and after else 500, True)
    if path == MESSAGES:
        assert told["type"] == "error"


def test_an_error_of_a_route_that_nobody_foresaw_has_its_clients_shape_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr("ferrule.server.answer.plan.turn_of", broken)
    lines, answer = logged(speaking(), asked=("POST", MESSAGES, BODIES[MESSAGES]))
    assert (answer.status, answer.json()["type"]) == (500, "error")
    assert lines.named("unexpected")[0]["kinds"] == ["builtins.ZeroDivisionError"]
    assert CANARY not in lines.all
    assert CANARY.encode() not in answer.body
