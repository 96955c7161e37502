"""Calls over a real nats-server: delivered, refused, and the three kinds of outcome."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest
from nats.aio.client import Client

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.errors import ToolError
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus import connection
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Message
from ferrule.sources.bus.frame import encode_frame
from ferrule.sources.bus.subject import Capability
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Functions
from lab.bus_server import NatsServer
from live.bus_parts import KEY, BlockingTool, nats_client, on_bus, record_messages, recorded_posts, run, say, sleep
from waiting import MOMENT, PATIENCE, until

pytestmark = pytest.mark.live


def test_a_tool_is_found_and_called() -> None:
    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus:
            (result,) = await bus.tools()
            assert (result.name, result.bound_capability, result.bound_version) == ("say", "echo.say", "1.2")
            assert result.parameters == say.definition.parameters
            assert await bus.call("say", {"text": "ä \0 🦉"}, CallContext()) == Answered("ä \0 🦉")

    run(scenario)


def test_what_nobody_serves_is_not_delivered_at_once() -> None:
    async def scenario(server: NatsServer) -> None:
        async with Bus(server.url, heartbeat_timeout=PATIENCE) as bus:
            assert await bus.tools() == ()
            started = time.monotonic()
            outcome = await bus.call_capability(Capability.read("echo.say"), {"text": "x"}, CallContext())
            assert isinstance(outcome, NotDelivered)
            assert time.monotonic() - started < MOMENT

    run(scenario)


@pytest.mark.parametrize(
    "version, is_served", [("1.0", True), ("1.2", True), ("1.3", False), ("2.0", False), ("0.9", False)]
)
def test_a_newer_minor_version_serves_an_older_wish_and_nothing_else(version: str, is_served: bool) -> None:
    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus:
            outcome = await bus.call_capability(Capability.read("echo.say", version), {"text": "x"}, CallContext())
            assert isinstance(outcome, Answered if is_served else NotDelivered)

    run(scenario)


def test_two_major_versions_are_served_side_by_side() -> None:
    @tool(name="say", bound_to=("echo.say", "2.0"))
    async def say_louder(text: str) -> str:
        return text.upper()

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus, Worker(Functions([say_louder]), server.url):
            answers = [
                await bus.call_capability(Capability.read("echo.say", version), {"text": "x"}, CallContext())
                for version in ("1.0", "2.0") * 5
            ]
            assert answers == [Answered("x"), Answered("X")] * 5

    run(scenario)


def test_arguments_that_do_not_fit_are_refused_by_the_worker_itself() -> None:
    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus:
            outcome = await bus.call_capability(Capability.read("echo.say"), {"text": 5}, CallContext())
            assert isinstance(outcome, Answered)
            assert outcome.is_error
            assert outcome.code == "bad_request"
            assert str(outcome.content).startswith("invalid_arguments: /text")

    run(scenario)


def test_half_of_a_character_is_refused_by_the_worker_and_a_whole_one_arrives() -> None:
    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus:
            capability = Capability.read("echo.say")
            half = await bus.call_capability(capability, {"text": "\ud83d"}, CallContext())
            assert isinstance(half, Answered)
            assert (half.is_error, half.code) == (True, "bad_request")
            whole = await bus.call_capability(capability, {"text": "\U0001f600"}, CallContext())
            assert whole == Answered("\U0001f600")

    run(scenario)


def test_progress_of_a_long_tool_streams_back() -> None:
    message: list[Progress] = []

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, sleep, heartbeat=0.1) as bus:
            await bus.call_capability(
                Capability.read("echo.sleep"), {"seconds": 1.2}, CallContext(on_progress=message.append)
            )

    run(scenario)
    assert len(message) >= 5
    assert [one.done for one in message] == sorted(one.done for one in message)
    assert {one.total for one in message} == {10}


def test_progress_of_a_function_in_a_thread_streams_back() -> None:
    @tool(bound_to=("echo.count", "1.0"))
    def count(context: CallContext) -> int:
        for step in range(3):
            context.report(step, 3, f"step {step}")
            # It has come before the next one is reported, however slow everything is.
            has_come.wait()
            has_come.clear()
        return 3

    message: list[Progress] = []
    has_come = threading.Event()

    def take(progress: Progress) -> None:
        message.append(progress)
        has_come.set()

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, count) as bus:
            assert await bus.call_capability(
                Capability.read("echo.count"), {}, CallContext(on_progress=take)
            ) == Answered(3)

    run(scenario)
    assert [one.message for one in message] == ["step 0", "step 1", "step 2"]


def test_the_last_progress_comes_before_the_answer_however_fast_the_function_is() -> None:
    @tool(bound_to=("echo.count", "1.0"))
    def count(context: CallContext) -> int:
        for step in range(50):
            context.report(step, 50, f"step {step}")
        return 3

    message: list[Progress] = []

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, count) as bus:
            answer = await bus.call_capability(
                Capability.read("echo.count"), {}, CallContext(on_progress=message.append)
            )
            assert answer == Answered(3)
            assert message[-1].message == "step 49"

    run(scenario)


def test_a_worker_with_heartbeats_is_waited_for_and_a_silent_one_is_given_up() -> None:
    async def scenario(server: NatsServer) -> None:
        async with Worker(Functions([sleep]), server.url, heartbeat=0.1), Bus(server.url, heartbeat_timeout=2.0) as bus:
            capability = Capability.read("echo.sleep")
            assert await bus.call_capability(capability, {"seconds": 4.0}, CallContext()) == Answered(4.0)

        async def say_nothing(message: Message) -> None:
            return

        async with nats_client(server.url) as dead, Bus(server.url, heartbeat_timeout=1.0) as bus:
            await dead.subscribe("t.local.echo.*.*", say_nothing, "q")
            await dead.flush()
            started = time.monotonic()
            outcome = await bus.call_capability(capability, {"seconds": 2.0}, CallContext())
            assert isinstance(outcome, Unknown)
            assert 0.9 < time.monotonic() - started < MOMENT

    run(scenario)


def test_a_deadline_ends_the_wait_and_the_tool() -> None:
    ended: list[str] = []

    @tool(bound_to=("echo.forever", "1.0"))
    async def forever() -> None:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, forever, heartbeat=0.2) as bus:
            started = time.monotonic()
            context = CallContext(deadline=time.time() + 1.5)
            outcome = await bus.call_capability(Capability.read("echo.forever"), {}, context)
            assert isinstance(outcome, Unknown)
            assert outcome.code == "timeout"
            assert time.monotonic() - started < MOMENT
            await until(lambda: ended == ["cancelled"])
            late = await bus.call_capability(Capability.read("echo.forever"), {}, CallContext(deadline=time.time() - 1))
            assert isinstance(late, NotDelivered)
            assert late.code == "timeout"

    run(scenario)


def test_a_second_answer_and_one_for_another_call_are_ignored() -> None:
    async def scenario(server: NatsServer) -> None:
        async with nats_client(server.url) as strange, Bus(server.url) as bus:

            async def answer_twice(message: Message) -> None:
                for text in ("first", "second"):
                    await strange.send(message.reply, encode_frame(Answered(text))[1])
                await strange.send(message.reply[:-1] + "x", encode_frame(Answered("guessed"))[1])

            await strange.subscribe("t.local.echo.*.*", answer_twice, "q")
            await strange.flush()
            outcomes = [
                await bus.call_capability(Capability.read("echo.say"), {"text": str(n)}, CallContext())
                for n in range(20)
            ]
            assert outcomes == [Answered("first")] * 20

    run(scenario)


def test_what_cannot_be_read_is_unknown_and_never_an_answer() -> None:
    async def scenario(server: NatsServer) -> None:
        async with nats_client(server.url) as strange, Bus(server.url) as bus:

            async def babble(message: Message) -> None:
                await strange.send(message.reply, b"\xff not json")

            await strange.subscribe("t.local.echo.*.*", babble, "q")
            await strange.flush()
            outcome = await bus.call_capability(Capability.read("echo.say"), {"text": "x"}, CallContext())
            assert isinstance(outcome, Unknown)

    run(scenario)


def test_the_words_of_a_strangers_error_never_travel() -> None:
    @tool(bound_to=("echo.fail", "1.0"))
    async def fail(kindly: bool) -> None:
        raise ToolError("say it shorter") if kindly else ValueError("password=hunter2")

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, fail) as bus, record_messages(server.url) as messages:
            outcome = await bus.call_capability(Capability.read("echo.fail"), {"kindly": False}, CallContext())
            assert outcome == Answered("the tool failed (ValueError)", is_error=True, code="tool_failed")
            kind = await bus.call_capability(Capability.read("echo.fail"), {"kindly": True}, CallContext())
            assert kind == Answered("say it shorter", is_error=True, code="tool_failed")
            await bus.counts()
            await bus.connection.flush()
        assert len(messages) >= 4
        assert not [one for one in messages if b"hunter2" in one.data or "hunter2" in str(one.headers)]

    run(scenario)


def test_a_caller_whose_scopes_do_not_cover_it_is_refused_before_anything_is_sent() -> None:
    async def scenario(server: NatsServer) -> None:
        ann = Principal("ann", scopes=frozenset({"echo.sleep"}))
        async with on_bus(server, say) as bus, record_messages(server.url, "t.>") as messages:
            outcome = await bus.call_capability(Capability.read("echo.say"), {"text": "x"}, CallContext(principal=ann))
            assert isinstance(outcome, Answered)
            assert outcome.is_error
            assert outcome.code == "token_scope_insufficient"
        assert not messages

    run(scenario)


@pytest.mark.parametrize(
    "caller_key, tenant, scopes",
    [
        (b"another key of sixteen bytes or more", "local", None),
        (None, "local", None),
        (KEY, "acme", None),
        (KEY, "local", frozenset({"echo.sleep"})),
    ],
    ids=["another key", "no signature", "another tenant", "other scopes"],
)
def test_a_worker_refuses_what_the_token_does_not_cover(
    caller_key: bytes | None, tenant: str, scopes: frozenset[str] | None
) -> None:
    async def scenario(server: NatsServer) -> None:
        async with Worker(Functions([say]), server.url, key=KEY), Bus(server.url, key=caller_key) as bus:
            # A gateway that does not check scopes: the worker checks them itself.
            bus._refusal_of = lambda capability, context: None  # type: ignore[method-assign]
            context = CallContext(principal=Principal("ann", tenant, scopes))
            outcome = await bus.call_capability(Capability.read("echo.say"), {"text": "x"}, context)
            assert isinstance(outcome, Answered)
            assert outcome.is_error
            assert outcome.code == "token_scope_insufficient"
            good = await _signed_by(KEY, server)
            assert good == Answered("x")

    run(scenario)


async def _signed_by(key: bytes, server: NatsServer) -> Outcome:
    async with Bus(server.url, key=key) as bus:
        return await bus.call_capability(Capability.read("echo.say"), {"text": "x"}, CallContext())


def test_the_same_effect_sent_twice_happens_once_and_is_answered_twice() -> None:
    async def scenario(server: NatsServer) -> None:
        with recorded_posts() as (posted, post):
            async with on_bus(server, post) as bus:
                capability = Capability.read("market.post")

                async def once(call_id: str) -> Outcome:
                    return await bus.call_capability(capability, {"text": "bike"}, CallContext(call_id=call_id))

                together = await asyncio.gather(once("c1"), once("c1"))
                assert sorted(type(one).__name__ for one in together) == ["Answered", "Unknown"]
                assert await once("c1") == Answered("posted bike")
                assert posted == ["bike"]
                await once("c2")
                assert posted == ["bike", "bike"]

    run(scenario)


def test_a_message_too_large_for_nats_is_reported() -> None:
    @tool(bound_to=("echo.grow", "1.0"))
    async def grow(size: int) -> str:
        return "x" * size

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say, grow) as bus:
            expected = await bus.call_capability(Capability.read("echo.say"), {"text": "x" * 2_000_000}, CallContext())
            assert isinstance(expected, NotDelivered)
            assert expected.code == "bad_request"
            actual = await bus.call_capability(Capability.read("echo.grow"), {"size": 2_000_000}, CallContext())
            assert isinstance(actual, Answered)
            assert (actual.is_error, actual.code) == (True, "result_too_large")

    run(scenario)


def test_a_cancelled_caller_leaves_nothing_behind() -> None:
    async def scenario(server: NatsServer) -> None:
        entry = BlockingTool()
        async with on_bus(server, entry.tool) as bus:
            task = asyncio.create_task(bus.call_capability(Capability.read("echo.hold"), {}, CallContext()))
            await until(lambda: entry.begun == 1)
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            assert isinstance(ended, asyncio.CancelledError)
            assert not bus._requests._pending
            entry.let_go.set()

    run(scenario)


def test_without_the_librarys_inner_parts_its_public_methods_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_BUFFER", ("a part that a newer version may lack",))
    monkeypatch.setattr(connection, "_direct_client_type", lambda: _client_without_direct_handlers)

    async def scenario(server: NatsServer) -> None:
        async with on_bus(server, say) as bus:
            await bus.tools()
            calls = [bus.call("say", {"text": str(number)}, CallContext()) for number in range(50)]
            assert await asyncio.gather(*calls) == [Answered(str(number)) for number in range(50)]
            assert bus.connection._buffer is None

    run(scenario)


def _client_without_direct_handlers() -> Client:
    client: Any = Client()
    client.direct_handlers = {}
    return client
