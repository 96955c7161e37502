"""What is logged: a line for a request, fields of a fixed list, and errors by their kind and place."""

from __future__ import annotations

import asyncio
import json
import logging
import warnings
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.call import ToolCall
from ferrule.core.event import FinishReason, Usage
from ferrule.core.reply import Reply
from ferrule.errors import EngineUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from ferrule.server.observability.library_logs import take_over
from ferrule.server.observability.logs import LONGEST, MOST, Log
from ferrule.server.observability.stack_trace import kinds, places
from ferrule.sources.functions import Functions
from server.client import speaking
from server.keys import bearer, key, keyed
from server.test_router import Failing
from server.watched import BODIES, CHAT, Lines, Stepping, watched_gateway


@tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


@pytest.mark.parametrize("stream", [False, True])
def test_a_request_leaves_one_line(stream: bool) -> None:
    async def scenario() -> Lines:
        reply = Reply(Reply.of("Hello.").parts, finish=FinishReason.STOP, usage=Usage(7, 5))
        config = keyed(key("ann"))
        async with watched_gateway(speaking(reply), config=config) as (client, lines):
            answer = await client.post(CHAT, {**BODIES[CHAT], "stream": stream}, bearer("ann"))
            assert answer.headers["x-request-id"] == lines.named("request")[0]["id"]
        return lines

    (line,) = map(json.loads, asyncio.run(scenario()).texts)
    times = {line.pop(name) for name in ("at", "first_ms", "total_ms", "id")}
    assert len(times) == 4
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


def test_calls_are_told_with_how_they_were_guaranteed_and_a_callers_without_their_names() -> None:
    async def scenario() -> Lines:
        own = Reply.of(ToolCall.of("weather", {"city": "Paris"}, id="call_1"))
        brought = Reply.of(ToolCall.of("launch", {}, id="call_1"))
        async with watched_gateway(speaking(own, "Sunny.", brought), sources=[Functions([weather])]) as (client, lines):
            await client.post(CHAT, BODIES[CHAT])
            await client.post(CHAT, {**BODIES[CHAT], "tools": [{"type": "function", "function": {"name": "launch"}}]})
        return lines

    first, second = asyncio.run(scenario()).named("request")
    assert first["calls"] == ["weather=validated"]
    assert second["calls"] == ["caller=validated"]


def test_who_is_refused_at_the_door_leaves_a_line_too() -> None:
    async def scenario() -> Lines:
        async with watched_gateway(speaking(), config=keyed(key("ann"))) as (client, lines):
            await client.post(CHAT, BODIES[CHAT])
            await client.get("/nowhere", bearer("ann"))
        return lines

    refused, lost = asyncio.run(scenario()).named("request")
    assert (refused["status"], refused["outcome"], refused["principal"]) == (401, "unauthenticated", "")
    assert (lost["api"], lost["status"], lost["outcome"]) == ("other", 404, "not_found")


def test_a_client_that_left_is_told_apart_from_one_that_was_answered() -> None:
    async def scenario() -> Lines:
        engine, leaves = Stepping(), asyncio.Event()
        async with watched_gateway(engine) as (client, lines):
            asking = asyncio.ensure_future(client.ask("POST", CHAT, BODIES[CHAT], leaves=leaves))
            await engine.began.wait()
            leaves.set()
            await asking
        assert engine.was_closed
        return lines

    (line,) = asyncio.run(scenario()).named("request")
    assert (line["status"], line["outcome"], line["finish"]) == (0, "left", "")


def test_probes_are_logged_only_when_their_answer_is_not_the_usual_one() -> None:
    async def scenario() -> Lines:
        async with watched_gateway(speaking()) as (client, lines):
            for path in ("/healthz", "/readyz", "/metrics"):
                await client.get(path)
            assert not lines.texts
            client.gateway.watch.drain.begin()
            await client.get("/readyz")
        return lines

    assert [line["status"] for line in asyncio.run(scenario()).named("request")] == [503]


def test_a_failover_is_told_without_what_the_engine_said() -> None:
    engines = (Failing(EngineUnavailableError("secret words")), speaking("Hello."))
    named = tuple(EngineConfig(name=f"e{at}", use=f"e{at}") for at in range(2))
    config = Config(engines=named, models=(ModelConfig(name="m", engines=("e0", "e1")),))

    async def scenario() -> Lines:
        async with watched_gateway(*engines, config=config) as (client, lines):
            await client.post(CHAT, BODIES[CHAT])
        return lines

    lines = asyncio.run(scenario())
    (line,) = lines.named("failover")
    assert (line["model"], line["engine"], line["outcome"]) == ("m", "e0", "engine_unavailable")
    assert "secret" not in lines.all


class Changed(Functions):
    """Tools of which some are not what was agreed to."""

    held: tuple[str, ...] = ()

    @property
    def held_back(self) -> tuple[str, ...]:
        return self.held


def test_a_tool_that_is_held_back_is_told_once_and_again_when_it_comes_back_and_changes() -> None:
    async def scenario() -> Lines:
        source = Changed([weather])
        async with watched_gateway(speaking(), sources=[source]) as (client, lines):
            for held in ((), ("order",), ("order",), (), ("order", "pay")):
                source.held = held
                await client.gateway.toolbox.refresh()
        return lines

    assert [line["tool"] for line in asyncio.run(scenario()).named("quarantine")] == ["order", "order", "pay"]


@given(st.text(), st.integers(), st.lists(st.text(), max_size=80))
def test_whatever_a_field_holds_a_line_is_one_line_of_json_and_not_a_long_one(
    word: str, number: int, words: list[str]
) -> None:
    lines = Lines()
    Log(lines.texts.append).tell("request", id=word, status=number, calls=words)
    (text,) = lines.texts
    told = json.loads(text)
    assert text.count("\n") == 1
    assert text.isascii()
    assert len(told["id"]) <= LONGEST
    assert len(told["calls"]) <= MOST


@given(st.text())
def test_nothing_that_moves_the_cursor_reaches_a_terminal(word: str) -> None:
    lines = Lines()
    Log(lines.texts.append, is_for_people=True).tell("request", id=word, calls=[word])
    assert all(char.isprintable() for char in lines.all.removesuffix("\n"))


def test_people_read_words_and_no_json() -> None:
    lines = Lines()
    log = Log(lines.texts.append, is_for_people=True, clock=lambda: 0.0)
    log.tell("request", id="req_1", status=200, calls=["weather=grammar"], total_ms=12.3456)
    assert lines.all == "00:00:00 request id=req_1 status=200 calls=weather=grammar total_ms=12.346\n"


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
        Log(lambda line: None).tell("request", **fields)  # type: ignore[arg-type]


def test_an_error_is_told_by_its_kinds_and_places_and_not_by_its_words() -> None:
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
    told = (kinds(caught.value), places(caught.value))
    assert told[0] == ["builtins.ValueError", "builtins.KeyError"]
    assert told[1][0].endswith("inner")
    assert "sk-" not in repr(told)


@pytest.fixture
def library_lines() -> Iterator[Lines]:
    root, lines = logging.getLogger(), Lines()
    before = (root.handlers[:], root.level)
    try:
        take_over(Log(lines.texts.append))
        yield lines
    finally:
        root.handlers[:], root.level = before
        logging.captureWarnings(False)


def test_what_libraries_log_is_told_by_its_place_and_not_by_its_words(library_lines: Lines) -> None:
    logging.getLogger("uvicorn.error").error("the header was %s", "sk-secret")
    try:
        raise RuntimeError("sk-secret")
    except RuntimeError:
        logging.getLogger("asyncio").exception(f"never retrieved {'sk-secret'}")
    logging.getLogger("uvicorn.error").info("nothing to see")
    first, second = library_lines.named("library")
    assert (first["logger"], first["level"]) == ("uvicorn.error", "error")
    assert first["place"].startswith("test_logs:")
    assert second["kinds"] == ["builtins.RuntimeError"]
    assert "sk-secret" not in library_lines.all


def test_warnings_are_lines_too(library_lines: Lines) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.warn("sk-secret", stacklevel=1)
    assert [line["logger"] for line in library_lines.named("library")] == ["py.warnings"]
    assert "sk-secret" not in library_lines.all
