"""The model on the bus: llm.chat@2.0 over a real NATS server, with workers that are slow, hostile or killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ferrule import ChatMessage, Decision, Engine, Reply, TextDelta, ToolCall, ToolCallRequest, load_engine, tool
from ferrule.core.call import How
from ferrule.core.context import CallContext, Principal
from ferrule.core.event import Event, Finish, FinishReason
from ferrule.core.outcome import Answered
from ferrule.engines.engine import ALL_CHOICES, Traits
from ferrule.engines.fake import FakeEngine
from ferrule.errors import (
    AuthorityError,
    BusError,
    DefinitionError,
    EngineError,
    EngineTimeoutError,
    EngineUnavailableError,
    FerruleError,
    NoValidCallError,
    UnsupportedError,
)
from ferrule.llm_chat.engine import BusEngine
from ferrule.llm_chat.source import ChatSource
from ferrule.run.executor import ToolExecutor
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Message
from ferrule.sources.bus.frame import StreamItem, count_items, encode_frame
from ferrule.sources.bus.subject import Capability
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Functions
from lab.bus_server import NatsServer
from live.bus_parts import KEY, nats_client, run, worker_process
from waiting import PATIENCE, until

pytestmark = pytest.mark.live
ASKED = ToolCallRequest(messages=(ChatMessage.user("?"),))


@tool
def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


@dataclass(slots=True)
class SteppedEngine(Engine):
    """Writes the next word when the test lets it, and knows whether it was stopped."""

    traits: Traits = field(default_factory=lambda: Traits(name="stepped", honours=ALL_CHOICES))
    steps: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))
    is_stopped: bool = False
    is_started: bool = False

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.is_started = True
        try:
            for number in range(1_000_000):
                await self.steps.acquire()
                yield TextDelta(f"{number} ")
        finally:
            self.is_stopped = True

    async def close(self) -> None:
        return


@dataclass(slots=True)
class FailingEngine(Engine):
    error: FerruleError
    traits: Traits = field(default_factory=lambda: Traits(name="failing"))

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise self.error
        yield

    async def close(self) -> None:
        return


@asynccontextmanager
async def asking(server: NatsServer, engine: Engine, **options: Any) -> AsyncGenerator[BusEngine]:
    async with Worker(ChatSource(engine), server.url), Bus(server.url) as bus:
        yield BusEngine(bus, **options)


def test_each_word_arrives_before_the_next_is_written() -> None:
    async def scenario(server: NatsServer) -> None:
        stepped = SteppedEngine()
        async with asking(server, stepped) as engine, aclosing(engine.stream_request(ASKED)) as events:
            for number in range(20):
                stepped.steps.release()
                assert await anext(events) == TextDelta(f"{number} ")
            assert not stepped.is_stopped

    run(scenario)


def test_a_caller_that_stops_reading_stops_the_model() -> None:
    async def scenario(server: NatsServer) -> None:
        stepped = SteppedEngine()
        async with asking(server, stepped) as engine:
            async with aclosing(engine.stream_request(ASKED)) as events:
                stepped.steps.release()
                await anext(events)
            await until(lambda: stepped.is_stopped)

    run(scenario)


def test_a_caller_that_is_killed_stops_the_model() -> None:
    async def scenario(server: NatsServer) -> None:
        stepped = SteppedEngine()
        async with Worker(ChatSource(stepped), server.url):
            script = Path(__file__).parent / "llm_chat_caller.py"
            with subprocess.Popen(
                [sys.executable, str(script), server.url], stdout=subprocess.PIPE, text=True
            ) as process:
                assert process.stdout is not None
                stepped.steps.release()
                line = await asyncio.to_thread(process.stdout.readline)
                assert json.loads(line) == {"type": "token", "text": "0 "}
                process.kill()
                process.wait(PATIENCE)
            await until(lambda: stepped.is_stopped)

    run(scenario)


def test_an_answer_ends_at_its_deadline_and_stops_the_model() -> None:
    async def scenario(server: NatsServer) -> None:
        stepped = SteppedEngine()
        async with asking(server, stepped, total=2.0) as engine:
            stepped.steps.release()
            with pytest.raises(EngineTimeoutError):
                await engine.generate_with_tools(ASKED)
            await until(lambda: stepped.is_stopped)

    run(scenario)


def test_a_model_is_asked_with_the_callers_rights_only() -> None:
    async def scenario(server: NatsServer) -> None:
        fake = FakeEngine([Reply.of("yes")] * 5)
        async with Worker(ChatSource(fake), server.url, tenant="acme", key=KEY):
            async with Bus(server.url, tenant="acme", key=KEY) as bus:
                for principal, is_allowed in (
                    (Principal("ann", "acme", frozenset({"llm.chat"})), True),
                    (Principal("bob", "acme", frozenset({"market.list"})), False),
                    (Principal("eve", "globex"), False),
                ):
                    engine = BusEngine(bus, context=CallContext(principal=principal))
                    if is_allowed:
                        assert (await engine.generate_with_tools(ASKED)).text == "yes"
                    else:
                        with pytest.raises(AuthorityError):
                            await engine.generate_with_tools(ASKED)
            async with Bus(server.url, tenant="acme", key=b"another key of sixteen bytes") as bus:
                engine = BusEngine(bus, context=CallContext(principal=Principal("eve", "acme")))
                with pytest.raises(AuthorityError):
                    await engine.generate_with_tools(ASKED)
        assert len(fake.requests) == 1

    run(scenario)


@pytest.mark.parametrize(
    "error, kind",
    [
        (UnsupportedError("no tool_choice 'one'", hint="Use auto."), UnsupportedError),
        (DefinitionError("temperature: too hot", hint="Use less.", param="temperature"), DefinitionError),
        (EngineUnavailableError("http://10.0.0.7:8000 refused, key sk-123"), EngineUnavailableError),
        (EngineError("Traceback: /srv/models/x.gguf"), EngineError),
    ],
)
def test_an_error_of_the_model_keeps_its_kind_and_hides_its_details(
    error: FerruleError, kind: type[FerruleError]
) -> None:
    async def scenario(server: NatsServer) -> None:
        async with asking(server, FailingEngine(error)) as engine:
            with pytest.raises(kind) as caught:
                await engine.generate_with_tools(ASKED)
            assert type(caught.value) is kind
            assert caught.value.code == error.code
            for secret in ("10.0.0.7", "sk-123", "/srv/models"):
                assert secret not in str(caught.value)

    run(scenario)


def test_a_model_is_no_tool_of_other_models() -> None:
    async def scenario(server: NatsServer) -> None:
        async with (
            Worker(ChatSource(FakeEngine([])), server.url),
            Worker(Functions([get_weather]), server.url),
            Bus(server.url) as bus,
        ):
            assert [one.name for one in await bus.tools()] == ["get_weather"]
            assert {str(one) for one in await bus.definitions()} == {"llm.chat@2.0", "tools.get_weather@1.0"}

    run(scenario)


def test_a_caller_that_reads_no_pieces_gets_the_message() -> None:
    async def scenario(server: NatsServer) -> None:
        async with Worker(ChatSource(FakeEngine([Reply.of("hello")])), server.url), Bus(server.url) as bus:
            body = {"messages": [{"role": "user", "content": "hi"}]}
            outcome = await bus.call_capability(Capability.read("llm.chat@2.0"), body, CallContext())
            assert outcome == Answered({"message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"})

    run(scenario)


# Hostile workers: each answers the next request with these frames.
TOKEN = {"type": "token", "text": "a"}
DONE = {"type": "done", "finish_reason": "stop"}


@asynccontextmanager
async def hostile_worker(server: NatsServer, *frames: Any, lost: int | None = None) -> AsyncGenerator[None]:
    """A program that serves llm.chat in its own way. `lost` is the number of a piece that never arrives."""
    async with nats_client(server.url) as connection:

        async def answer(message: Message) -> None:
            for index, frame in enumerate(frames):
                if index != lost:
                    headers, data = encode_frame(StreamItem(index, frame))
                    await connection.send(message.reply, data, headers=headers)
            headers, data = count_items(encode_frame(Answered({"finish_reason": "stop"})), len(frames))
            await connection.send(message.reply, data, headers=headers)

        await connection.subscribe(Capability.read("llm.chat@2.0").subject("local"), answer)
        await connection.flush()
        yield


def call_frame(name: str, arguments: Any, id: str = "c") -> dict[str, Any]:
    return {"type": "tool_call", "id": id, "name": name, "arguments": arguments}


@pytest.mark.parametrize(
    "frames, code",
    [
        ([call_frame("delete_everything", {}), DONE], "not_offered"),
        ([call_frame("get_weather", {"city": 7}), DONE], "invalid_arguments"),
        ([call_frame("get_weather", {}), DONE], "invalid_arguments"),
        (
            [
                {"type": "tool_call_delta", "id": "c", "name": "get_weather", "arguments_delta": '{"city": "Rome"'},
                call_frame("get_weather", {"city": "Paris"}),
                DONE,
            ],
            "invalid_arguments",
        ),
    ],
)
def test_a_call_that_does_not_fit_is_never_handed_on(frames: list[Any], code: str) -> None:
    async def scenario(server: NatsServer) -> None:
        async with hostile_worker(server, *frames), Bus(server.url) as bus:
            reply = await BusEngine(bus).ask("?", tools=[get_weather])
            assert reply.calls == ()
            assert [one.code for one in reply.diagnostics] == [code]
            with pytest.raises(NoValidCallError):
                await BusEngine(bus).ask("?", tools=[get_weather], tool_choice="required")

    run(scenario)


def test_a_receipt_says_only_what_the_caller_checked_if_the_worker_wrote_none() -> None:
    async def scenario(server: NatsServer) -> None:
        async with hostile_worker(server, call_frame("get_weather", {"city": "Rome"}), DONE), Bus(server.url) as bus:
            (call,) = (await BusEngine(bus).ask("?", tools=[get_weather])).calls
            assert call.receipt is not None
            assert (call.receipt.how, call.receipt.engine, call.receipt.enforced) == (How.VALIDATED, "bus", ())

    run(scenario)


async def read_all(bus: Bus) -> list[Any]:
    return [frame async for frame in bus.stream("llm.chat", "2.0", {"messages": []})]


@pytest.mark.parametrize(
    "frames, lost",
    [
        ([TOKEN, TOKEN, TOKEN, DONE], 1),
        ([TOKEN, TOKEN, DONE], 2),
        ([TOKEN, {"type": "token"}, DONE], None),
        ([TOKEN, "token", DONE], None),
        ([TOKEN], None),
    ],
)
def test_an_answer_with_a_hole_is_an_error_and_never_a_shorter_answer(frames: list[Any], lost: int | None) -> None:
    async def scenario(server: NatsServer) -> None:
        async with hostile_worker(server, *frames, lost=lost), Bus(server.url) as bus:
            with pytest.raises(EngineError):
                await BusEngine(bus).generate_with_tools(ASKED)
            if lost is not None:
                with pytest.raises(BusError, match="lost"):
                    await read_all(bus)

    run(scenario)


def test_another_worker_answers_if_one_is_killed_before_it_said_anything() -> None:
    async def scenario(server: NatsServer) -> None:
        options = ["--nats", server.url, "--engine", "fake:hello?times=9"]
        with worker_process(*options) as first:
            os.kill(first.pid, signal.SIGSTOP)
            async with Bus(server.url, stream_heartbeat_timeout=2.0) as bus:
                asked = asyncio.create_task(BusEngine(bus).generate_with_tools(ASKED))
                # The suspended worker has the request. It never answers, and loses its connection.
                await asyncio.sleep(0)
                with worker_process(*options):
                    os.kill(first.pid, signal.SIGKILL)
                    assert (await asked).text == "hello"

    run(scenario)


def test_a_model_that_is_killed_in_mid_answer_gives_a_retryable_error() -> None:
    async def scenario(server: NatsServer) -> None:
        script = "from live.test_llm_chat import serve_slowly; import sys; serve_slowly(sys.argv[1])"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with subprocess.Popen(
            [sys.executable, "-c", script, server.url], stdout=subprocess.PIPE, text=True, env=environment
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            async with Bus(server.url, stream_heartbeat_timeout=2.0) as bus:
                said: list[Event] = []

                async def read_and_kill() -> None:
                    async for event in BusEngine(bus).stream_request(ASKED):
                        said.append(event)
                        if len(said) == 3:
                            process.kill()

                with pytest.raises(EngineUnavailableError) as caught:
                    await read_and_kill()
                assert caught.value.retryable
                assert said[:3] == [TextDelta("0 "), TextDelta("1 "), TextDelta("2 ")]
                assert not any(isinstance(event, Finish) for event in said)

    run(scenario)


def serve_slowly(url: str) -> None:
    """Serve a model that writes a word every tenth of a second. Runs in its own process."""

    async def serve() -> None:
        stepped = SteppedEngine()
        async with Worker(ChatSource(stepped), url):
            print("ready", flush=True)
            while True:
                stepped.steps.release()
                await asyncio.sleep(0.1)

    asyncio.run(serve())


# The specification's form of a chat, on the bus.


@tool(side_effects=True, bound_to=("market.post", "1.0"))
def post_to_market(text: str) -> str:
    """Posts a notice."""
    return f"posted {text}"


@asynccontextmanager
async def market(server: NatsServer, replies: list[Reply]) -> AsyncGenerator[tuple[Bus, FakeEngine]]:
    fake = FakeEngine(replies)
    async with (
        Worker(ChatSource(fake), server.url),
        Worker(Functions([get_weather, post_to_market]), server.url),
        Bus(server.url) as bus,
    ):
        yield bus, fake


def chat_on(work: Callable[[Bus, FakeEngine], Any], replies: list[Reply]) -> None:
    async def scenario(server: NatsServer) -> None:
        async with market(server, replies) as (bus, fake):
            await work(bus, fake)

    run(scenario)


def test_a_chat_runs_from_one_body_with_the_model_and_the_tools_on_the_bus() -> None:
    async def work(bus: Bus, fake: FakeEngine) -> None:
        frames: list[dict[str, Any]] = []

        async def stream_to(frame: dict[str, Any]) -> None:
            await asyncio.sleep(0)
            frames.append(frame)

        executor = ToolExecutor(bus, max_iterations=6)
        message = await executor.run_chat_with_tools(
            {"messages": [{"role": "user", "content": "How is Rome?"}], "max_tokens": 50}, stream_to=stream_to
        )
        assert message == {"role": "assistant", "content": "It is sunny."}
        kinds = [frame["type"] for frame in frames]
        assert (kinds[0], kinds[-1]) == ("token", "done")
        assert kinds.count("done") == 1
        (call,) = [frame for frame in frames if frame["type"] == "tool_call"]
        assert call["arguments"] == {"city": "Rome"}
        (result,) = [frame for frame in frames if frame["type"] == "tool_result"]
        assert (result["tool_call_id"], result["body"], result["is_error"]) == (call["id"], "sunny in Rome", False)
        assert "".join(frame["text"] for frame in frames if frame["type"] == "token") == "I look.It is sunny."
        assert [len(one.messages) for one in fake.requests] == [1, 3]
        assert {one.name for one in fake.requests[0].tools} == {"get_weather", "post_to_market"}

    call = ToolCall.of("get_weather", {"city": "Rome"}, id="c1")
    chat_on(work, [Reply.of("I look.", call), Reply.of("It is sunny.")])


def test_a_chat_from_a_body_asks_before_it_runs_an_effect() -> None:
    async def work(bus: Bus, fake: FakeEngine) -> None:
        frames: list[dict[str, Any]] = []
        asked: list[ToolCall] = []

        async def decide(call: ToolCall) -> Decision:
            asked.append(call)
            return Decision(len(asked) > 1, "not now")

        body = {"messages": [{"role": "user", "content": "Post it."}]}
        await ToolExecutor(bus).run_chat_with_tools(body, stream_to=frames.append, decide=decide)
        results = [frame for frame in frames if frame["type"] == "tool_result"]
        assert [frame["is_error"] for frame in results] == [True, False]
        assert results[1]["body"] == "posted apples"
        waiting = [frame for frame in frames if frame["type"] == "confirmation_required"]
        assert [frame["arguments"] for frame in waiting] == [{"text": "apples"}] * 2

    call = ToolCall.of("post_to_market", {"text": "apples"}, id="c1")
    chat_on(work, [Reply.of(call), Reply.of(call), Reply.of("Done.")])


def test_a_chat_from_a_body_ends_at_its_limit_with_an_answer() -> None:
    async def work(bus: Bus, fake: FakeEngine) -> None:
        frames: list[dict[str, Any]] = []
        body = {"messages": [{"role": "user", "content": "Again and again."}]}
        message = await ToolExecutor(bus, max_iterations=2).run_chat_with_tools(body, stream_to=frames.append)
        assert message["content"] == "Enough."
        assert [one.tool_choice.mode for one in fake.requests] == ["auto", "auto", "none"]
        assert frames[-1]["type"] == "limit"

    calls = [Reply.of(ToolCall.of("get_weather", {"city": str(n)}, id=f"c{n}")) for n in range(2)]
    chat_on(work, [*calls, Reply.of("Enough.")])


def test_a_body_may_narrow_the_tools_but_not_add_to_them() -> None:
    async def work(bus: Bus, fake: FakeEngine) -> None:
        executor = ToolExecutor(bus)
        body = {"messages": [{"role": "user", "content": "x"}], "tools": [{"name": "get_weather"}]}
        await executor.run_chat_with_tools(body)
        (offered,) = fake.requests[0].tools
        assert offered.properties.keys() == {"city"}
        with pytest.raises(DefinitionError, match="rm_rf"):
            await executor.run_chat_with_tools({**body, "tools": [{"name": "rm_rf"}]})

    chat_on(work, [Reply.of("ok")])


def test_a_chat_from_a_body_without_a_bus_needs_an_engine() -> None:
    async def scenario() -> None:
        executor = ToolExecutor(Functions([get_weather]))
        body = {"messages": [{"role": "user", "content": "x"}]}
        with pytest.raises(DefinitionError, match="no model"):
            await executor.run_chat_with_tools(body)
        message = await executor.run_chat_with_tools(body, FakeEngine([Reply.of("ok")]))
        assert message["content"] == "ok"

    asyncio.run(scenario())


def test_an_engine_string_reaches_the_model_on_the_bus() -> None:
    async def scenario(server: NatsServer) -> None:
        with worker_process("--nats", server.url, "--engine", "fake:hello"):
            async with load_engine(f"bus:llm.chat@2.0?nats={server.url}") as engine:
                reply = await engine.ask("?")
                assert (reply.text, reply.finish_reason) == ("hello", FinishReason.STOP)
            started = time.monotonic()
            async with load_engine(f"bus:llm.chat@3.0?nats={server.url}") as engine:
                with pytest.raises(EngineUnavailableError, match=r"llm\.chat@3\.0"):
                    await engine.ask("?")
            assert time.monotonic() - started < PATIENCE

    run(scenario)
