"""The log: one line per request, a fixed list of fields, and errors by type and frame."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.errors import EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from ferrule.server.observability.logs import (
    MAX_ITEMS,
    MAX_TEXT_LENGTH,
    Log,
    capture_library_logs,
    error_types,
    stack_frames,
)
from ferrule.sources.functions import Functions
from server.client import scripted_engine
from server.keys import bearer, config_with_keys, key
from server.test_router import FailingEngine
from server.watched import BODIES, CHAT, LogLines, StepEngine, gateway_with_log


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_is_one_log_line(stream: bool) -> None:
    async def scenario() -> LogLines:
        reply = Reply(Reply.of("Hello.").parts, finish=FinishReason.STOP, usage=Usage(7, 5))
        config = config_with_keys(key("ann"))
        async with gateway_with_log(scripted_engine(reply), config=config) as (client, lines):
            answer = await client.post(CHAT, {**BODIES[CHAT], "stream": stream}, bearer("ann"))
            assert answer.headers["x-request-id"] == lines.with_event("request")[0]["id"]
        return lines

    (line,) = map(json.loads, asyncio.run(scenario()).texts)
    changing = {line.pop(name) for name in ("at", "first_ms", "total_ms", "id", "conversation")}
    assert len(changing) == 5
    assert line == {
        "event": "request",
        "api": CHAT,
        "principal": "ann",
        "status": 200,
        "outcome": "ok",
        "model": "e0",
        "finish": "stop",
        "prompt_tokens": 7,
        "completion_tokens": 5,
        "events": 3,
    }


def test_calls_are_logged_with_their_guarantee_and_callers_tools_without_names() -> None:
    async def scenario() -> LogLines:
        own = Reply.of(ToolCall.of("weather", {"city": "Paris"}, id="call_1"))
        of_caller = Reply.of(ToolCall.of("launch", {}, id="call_1"))
        async with gateway_with_log(scripted_engine(own, "Sunny.", of_caller), sources=[Functions([weather])]) as (
            client,
            lines,
        ):
            await client.post(CHAT, BODIES[CHAT])
            await client.post(CHAT, {**BODIES[CHAT], "tools": [{"type": "function", "function": {"name": "launch"}}]})
        return lines

    first, second = asyncio.run(scenario()).with_event("request")
    assert first["calls"] == ["weather=validated"]
    assert second["calls"] == ["caller=validated"]


def test_refused_requests_are_logged_too() -> None:
    async def scenario() -> LogLines:
        async with gateway_with_log(scripted_engine(), config=config_with_keys(key("ann"))) as (client, lines):
            await client.post(CHAT, BODIES[CHAT])
            await client.get("/nowhere", bearer("ann"))
        return lines

    rejection, not_found = asyncio.run(scenario()).with_event("request")
    assert (rejection["status"], rejection["outcome"], rejection["principal"]) == (401, "unauthenticated", "")
    assert (not_found["api"], not_found["status"], not_found["outcome"]) == ("other", 404, "not_found")


def test_a_client_that_disconnects_is_logged_as_left() -> None:
    async def scenario() -> LogLines:
        engine, disconnect = StepEngine(), asyncio.Event()
        async with gateway_with_log(engine) as (client, lines):
            request = asyncio.ensure_future(client.request("POST", CHAT, BODIES[CHAT], disconnect=disconnect))
            await engine.started.wait()
            disconnect.set()
            await request
        assert engine.was_closed
        return lines

    (line,) = asyncio.run(scenario()).with_event("request")
    assert (line["status"], line["outcome"], line["finish"]) == (0, "left", "")


def test_probes_are_logged_only_if_they_fail() -> None:
    async def scenario() -> LogLines:
        async with gateway_with_log(scripted_engine()) as (client, lines):
            for path in ("/healthz", "/readyz", "/metrics"):
                await client.get(path)
            assert not lines.texts
            client.gateway.telemetry.drain.begin()
            await client.get("/readyz")
        return lines

    assert [line["status"] for line in asyncio.run(scenario()).with_event("request")] == [503]


def test_a_failover_is_logged_with_what_the_engine_said_and_without_secrets() -> None:
    said = "http://me:hush@engine/v1 is busy: key sk-12345678abcdef, token=abc123"
    engines = (FailingEngine(EngineUnavailableError(said, upstream_status=503)), scripted_engine("Hello."))
    named = tuple(EngineConfig(name=f"e{at}", use=f"e{at}") for at in range(2))
    config = Config(engines=named, models=(ModelConfig(name="m", engines=("e0", "e1")),))

    async def scenario() -> LogLines:
        async with gateway_with_log(*engines, config=config) as (client, lines):
            await client.post(CHAT, BODIES[CHAT])
        return lines

    lines = asyncio.run(scenario())
    (line,) = lines.with_event("failover")
    assert (line["model"], line["engine"], line["outcome"]) == ("m", "e0", "engine_unavailable")
    assert line["upstream_status"] == 503
    assert line["detail"] == "http://me:***@engine/v1 is busy: key ***, token=***"
    (request,) = lines.with_event("request")
    assert (line["id"], line["conversation"]) == (request["id"], request["conversation"])


class ChangingSource(Functions):
    """Tools of which some are quarantined."""

    names: tuple[str, ...] = ()

    @property
    def quarantined(self) -> tuple[str, ...]:
        return self.names


def test_a_quarantined_tool_is_logged_once_and_again_after_it_returned() -> None:
    async def scenario() -> LogLines:
        source = ChangingSource([weather])
        async with gateway_with_log(scripted_engine(), sources=[source]) as (client, lines):
            for names in ((), ("order",), ("order",), (), ("order", "pay")):
                source.names = names
                await client.gateway.tool_catalog.refresh()
        return lines

    assert [line["tool"] for line in asyncio.run(scenario()).with_event("quarantine")] == ["order", "order", "pay"]


@given(st.text(), st.integers(), st.lists(st.text(), max_size=80))
def test_any_field_value_gives_one_short_line_of_json(word: str, number: int, words: list[str]) -> None:
    lines = LogLines()
    Log(lines.texts.append).emit("request", id=word, status=number, calls=words)
    (text,) = lines.texts
    record = json.loads(text)
    assert text.count("\n") == 1
    assert text.isascii()
    assert len(record["id"]) <= MAX_TEXT_LENGTH
    assert len(record["calls"]) <= MAX_ITEMS


@given(st.text())
def test_no_control_character_reaches_a_terminal(word: str) -> None:
    lines = LogLines()
    Log(lines.texts.append, is_human_readable=True).emit("request", id=word, calls=[word])
    assert all(char.isprintable() for char in lines.text.removesuffix("\n"))


def test_a_terminal_gets_plain_text_instead_of_json() -> None:
    lines = LogLines()
    log = Log(lines.texts.append, is_human_readable=True, clock=lambda: 0.0)
    log.emit("request", id="req_1", status=200, calls=["weather=grammar"], total_ms=12.3456)
    assert lines.text == "00:00:00 request id=req_1 status=200 calls=weather=grammar total_ms=12.346\n"


@pytest.mark.parametrize(
    "fields, error",
    [
        ({"headers": {"authorization": "x"}}, KeyError),
        ({"message": "free text"}, KeyError),
        ({"id": {"an": "object"}}, TypeError),
        ({"status": "200"}, TypeError),
        ({"calls": "text"}, TypeError),
    ],
)
def test_a_field_outside_the_list_cannot_be_written(fields: dict[str, object], error: type[Exception]) -> None:
    with pytest.raises(error):
        Log(lambda line: None).emit("request", **fields)  # type: ignore[arg-type]


def test_an_error_is_described_by_types_and_frames_and_not_by_its_message() -> None:
    def inner() -> None:
        secret = "sk-local"
        raise KeyError(secret)

    def outer() -> None:
        try:
            inner()
        except KeyError as first:
            raise ValueError("sk-outer") from first

    with pytest.raises(ValueError) as caught:  # noqa: PT011  # its words are what must not be read
        outer()
    record = (error_types(caught.value), stack_frames(caught.value))
    assert record[0] == ["builtins.ValueError", "builtins.KeyError"]
    assert record[1][0].endswith("inner")
    assert "sk-" not in repr(record)


@pytest.fixture
def library_lines() -> Iterator[LogLines]:
    root, lines = logging.getLogger(), LogLines()
    before = (root.handlers[:], root.level)
    try:
        capture_library_logs(Log(lines.texts.append))
        yield lines
    finally:
        root.handlers[:], root.level = before
        logging.captureWarnings(False)


def test_library_logs_are_written_with_their_place_and_without_their_message(library_lines: LogLines) -> None:
    logging.getLogger("uvicorn.error").error("the header was %s", "sk-secret")
    try:
        raise RuntimeError("sk-secret")
    except RuntimeError:
        logging.getLogger("asyncio").exception(f"never retrieved {'sk-secret'}")
    logging.getLogger("uvicorn.error").info("nothing to see")
    first, second = library_lines.with_event("library")
    assert (first["logger"], first["level"]) == ("uvicorn.error", "error")
    assert first["place"].startswith("test_logs:")
    assert second["kinds"] == ["builtins.RuntimeError"]
    assert "sk-secret" not in library_lines.text


def test_python_warnings_are_logged_too(library_lines: LogLines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("sk-secret", stacklevel=1)
    assert [line["logger"] for line in library_lines.with_event("library")] == ["py.warnings"]
    assert "sk-secret" not in library_lines.text


TRACE = "0af7651916cd43dd8448eb211c80319c"


@pytest.mark.parametrize(
    "header, logged", [(f"00-{TRACE}-b7ad6b7169203331-01", TRACE), (f"00-{TRACE}-words of a client", None)]
)
def test_a_line_has_the_trace_of_the_client_beside_request_and_conversation(header: str, logged: str | None) -> None:
    async def scenario() -> dict[str, Any]:
        async with gateway_with_log(scripted_engine("Hello.")) as (client, lines):
            await client.post(CHAT, BODIES[CHAT], {"traceparent": header})
            (line,) = lines.with_event("request")
            return line

    line = asyncio.run(scenario())
    assert line.get("trace") == logged
    assert line["id"].startswith("req_")
    assert line["conversation"].startswith("conv_")
