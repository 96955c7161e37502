"""Canary strings in every place where clients, engines and tools can put text must not appear in any output."""

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
from server.client import Client, ClientResponse, scripted_engine
from server.keys import config_with_keys, key
from server.test_router import FailingEngine
from server.watched import BODIES, CHAT, MESSAGES, LogLines, RaisingEngine, gateway_with_log

CANARY = "canary-7f3a91"
HEADERS = {
    "authorization": f"Bearer {CANARY}",
    "x-api-key": CANARY,
    "cookie": f"session={CANARY}",
    "user-agent": CANARY,
    "traceparent": CANARY,
    "x-request-id": CANARY,
}
BODY: dict[str, Any] = {
    "model": CANARY,
    "user": CANARY,
    "metadata": {CANARY: CANARY},
    "messages": [{"role": "user", "content": CANARY}],
    "max_tokens": 20,
}
TOOLS = [{"type": "function", "function": {"name": CANARY, "description": CANARY, "parameters": {"type": "object"}}}]


@tool
def repeat_text(text: str) -> str:
    """Repeats its text in an error."""
    raise ToolError(f"{text} {CANARY}")


@tool
def break_with_text(text: str) -> str:
    """Raises an exception with its text."""
    raise RuntimeError(f"{text} {CANARY}")


def log_of_request(
    *engines: Engine,
    request: tuple[str, str, Any] = ("POST", CHAT, BODY),
    with_tools: bool = False,
    with_keys: bool = False,
) -> tuple[LogLines, ClientResponse]:
    """Everything that is logged and shown about one request, and its response."""

    async def scenario() -> tuple[LogLines, ClientResponse]:
        sources = [Functions([repeat_text, break_with_text])] if with_tools else []
        config = config_with_keys(key("ann", CANARY, tools=("*",)), metrics_open=True) if with_keys else None
        async with gateway_with_log(*engines, sources=sources, config=config) as (client, lines):
            answer = await client.request(*request, headers=HEADERS)
            await _append_pages(client, lines)
        return lines, answer

    return asyncio.run(scenario())


async def _append_pages(client: Client, lines: LogLines) -> None:
    for path in ("/metrics", "/readyz"):
        lines.texts.append(json.dumps({"event": path, "is": (await client.get(path)).body.decode()}))


def test_the_canary_would_be_found() -> None:
    lines = LogLines([f'{{"event": "{CANARY}"}}\n'])
    assert CANARY in lines.text


@pytest.mark.parametrize("guarded", [False, True])
@pytest.mark.parametrize("stream", [False, True])
def test_nothing_of_headers_bodies_and_answers_is_logged(stream: bool, guarded: bool) -> None:
    lines, answer = log_of_request(
        scripted_engine(CANARY), request=("POST", CHAT, {**BODY, "stream": stream}), with_keys=guarded
    )
    assert answer.status == 200
    assert lines.with_event("request")
    assert CANARY not in lines.text


def test_nothing_of_a_callers_tools_is_logged() -> None:
    reply = Reply.of(ToolCall.of(CANARY, {CANARY: CANARY}, id=CANARY))
    lines, _ = log_of_request(scripted_engine(reply), request=("POST", CHAT, {**BODY, "tools": TOOLS}))
    assert lines.with_event("request")[0]["calls"] == ["caller=validated"]
    assert CANARY not in lines.text


@pytest.mark.parametrize("name", ["repeat_text", "break_with_text"])
def test_nothing_of_arguments_results_and_errors_of_tools_is_logged(name: str) -> None:
    reply = Reply.of(ToolCall.of(name, {"text": CANARY}, id=CANARY))
    lines, _ = log_of_request(scripted_engine(reply, CANARY), with_tools=True)
    assert lines.with_event("request")[0]["calls"] == [f"{name}=validated"]
    assert CANARY not in lines.text


@pytest.mark.parametrize("path", [f"/{CANARY}", f"/v1/models/{CANARY}", f"/v1/models?key={CANARY}"])
def test_nothing_of_a_url_is_logged(path: str) -> None:
    lines, _ = log_of_request(scripted_engine(), request=("GET", path, None))
    assert lines.with_event("request")
    assert CANARY not in lines.text


def test_a_body_that_cannot_be_read_is_not_logged() -> None:
    lines, answer = log_of_request(scripted_engine(), request=("POST", CHAT, f'{{"{CANARY}'.encode()))
    assert answer.status == 400
    assert CANARY not in lines.text


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("kind", [EngineError, EngineUnavailableError])
def test_no_message_of_a_failing_engine_is_logged(kind: type[EngineError], after: int) -> None:
    engine = FailingEngine(kind(f"https://user:{CANARY}@engine", code=CANARY, hint=CANARY), after)
    lines, _ = log_of_request(engine, request=("POST", CHAT, {**BODY, "stream": bool(after)}))
    assert lines.with_event("engine_failed")
    assert CANARY not in lines.text


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("stream", [False, True])
def test_an_unexpected_error_shows_only_the_request_id(path: str, after: int, stream: bool) -> None:
    engine = RaisingEngine(RuntimeError(CANARY), after)
    lines, answer = log_of_request(engine, request=("POST", path, {**BODIES[path], "stream": stream}))
    (line,) = lines.with_event("unexpected")
    assert line["id"] == answer.headers["x-request-id"]
    assert line["kinds"] == ["builtins.RuntimeError"]
    assert line["stack"][0].endswith("RaisingEngine.stream_request")
    assert CANARY not in lines.text
    assert "sk-local-variable" not in lines.text
    assert CANARY.encode() not in answer.body
    assert line["id"].encode() in answer.body
    body = answer.events()[-1] if answer.headers["content-type"] == "text/event-stream" else answer.json()
    assert (answer.status, "error" in body) == (200 if stream and after else 500, True)
    if path == MESSAGES:
        assert body["type"] == "error"


def test_an_unexpected_error_in_a_handler_has_the_format_of_its_api(monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_error(*_: object, **__: object) -> None:
        raise ZeroDivisionError(CANARY)

    monkeypatch.setattr("ferrule.server.apis.messages.turn_of", raise_error)
    lines, answer = log_of_request(scripted_engine(), request=("POST", MESSAGES, BODIES[MESSAGES]))
    assert (answer.status, answer.json()["type"]) == (500, "error")
    assert lines.with_event("unexpected")[0]["kinds"] == ["builtins.ZeroDivisionError"]
    assert CANARY not in lines.text
    assert CANARY.encode() not in answer.body
