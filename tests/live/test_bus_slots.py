"""Which worker gets a call: one with a free slot, and another one only if the call has certainly not begun."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Message
from ferrule.sources.bus.frame import BUSY, NOT_SERVED, Frame, Heartbeat, StreamItem, encode_frame
from ferrule.sources.bus.subject import Capability
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Function, Functions
from lab.bus_server import NatsServer
from live import bus_victim
from live.bus_parts import KEY, BlockingTool, nats_client, run, worker_process
from live.test_bus_permissions import ANN, BREW, CONFIGURATION, brew, gateway, kitchen
from waiting import until

pytestmark = pytest.mark.live
WHO, HOLD = Capability.read("echo.who"), Capability.read("echo.hold")
HAPPEN = Capability.read("victim.happen")


def named(name: str, seconds: float) -> Function:
    @tool(name="who", bound_to=("echo.who", "1.0"))
    async def who() -> str:
        await asyncio.sleep(seconds)
        return name

    return who


async def answers(bus: Bus, callers: int, calls: int) -> Counter[str]:
    """Who answered the calls, and how many ended otherwise."""
    counts: Counter[str] = Counter()
    remaining = iter(range(calls))

    async def keep_calling() -> None:
        for _ in remaining:
            match await bus.call_capability(WHO, {}, CallContext()):
                case Answered(content, False):
                    counts[content] += 1
                case NotDelivered(code=code):
                    counts[code] += 1
                case other:
                    raise AssertionError(other)

    await asyncio.gather(*(keep_calling() for _ in range(callers)))
    return counts


@pytest.mark.parametrize("callers", [8, 64])
def test_a_slow_worker_gets_few_calls_and_nobody_hears_busy(callers: int) -> None:
    async def scenario(server: NatsServer) -> None:
        slow, quick = Functions([named("slow", 0.2)]), Functions([named("quick", 0.01)])
        async with Worker(slow, server.url), Worker(quick, server.url), Bus(server.url) as bus:
            await bus.tools()
            counts = await answers(bus, callers, 800)
            assert set(counts) == {"slow", "quick"}
            assert counts["slow"] < counts["quick"] / 2

    run(scenario)


def test_workers_that_the_caller_never_asked_about_are_found_by_calling() -> None:
    async def scenario(server: NatsServer) -> None:
        async with Worker(Functions([named("first", 0.0)]), server.url), Bus(server.url) as bus:
            assert await bus.call_capability(WHO, {}, CallContext()) == Answered("first")
            await until(lambda: len(bus._directory.workers_of(WHO)) == 1)
            async with Worker(Functions([named("second", 0.0)]), server.url):
                async with asyncio.timeout(60):
                    while (await answers(bus, 1, 10))["second"] == 0:
                        await asyncio.sleep(0.01)
            assert (await answers(bus, 4, 20)) == {"first": 20}

    run(scenario)


def test_a_call_that_finds_a_worker_busy_goes_to_another_one() -> None:
    async def scenario(server: NatsServer) -> None:
        tools = [BlockingTool() for _ in range(4)]
        async with (
            Worker(Functions([tools[0].tool]), server.url, cap=1),
            Worker(Functions([tools[1].tool]), server.url, cap=1),
            Worker(Functions([tools[2].tool]), server.url, cap=1),
            Worker(Functions([tools[3].tool]), server.url, cap=1),
        ):
            # Each caller knows only of its own call, so it finds workers that are busy with those of others.
            buses = [Bus(server.url) for _ in tools]
            calls: list[asyncio.Task[Outcome]] = []
            for bus in buses:
                await bus.open()
                await bus.tools()
                calls.append(asyncio.create_task(bus.call_capability(HOLD, {}, CallContext())))
                await until(lambda: sum(each.begun for each in tools) == len(calls))
            assert [each.begun for each in tools] == [1] * 4
            outcome = await buses[0].call_capability(HOLD, {}, CallContext())
            assert isinstance(outcome, NotDelivered)
            assert outcome.code == "busy"
            for each in tools:
                each.let_go.set()
            assert await asyncio.gather(*calls) == [Answered("held")] * 4
            assert [each.begun for each in tools] == [1] * 4
            for bus in buses:
                await bus.close()

    run(scenario)


@asynccontextmanager
async def liar(server: NatsServer, hash: bytes, *frames: Frame) -> AsyncGenerator[list[bytes]]:
    """A worker that answers every call with these frames. Yields the bodies of the calls that it received."""
    received: list[bytes] = []
    async with nats_client(server.url) as client:

        async def answer_look(message: Message) -> None:
            await client.send(message.reply, b'["liar","%b",1,100]' % hash)

        async def answer_call(message: Message) -> None:
            received.append(message.data)
            for frame in frames:
                headers, body = encode_frame(frame)
                await client.send(message.reply, body, headers=headers)

        await client.subscribe("$SRV.INFO.ferrule-local", answer_look)
        await client.subscribe("t.local.*.*.*.liar", answer_call)
        await client.flush()
        yield received


@pytest.mark.parametrize("rejection", [BUSY, NOT_SERVED], ids=["busy", "not served"])
@pytest.mark.parametrize(
    "sign, is_begun",
    [((Heartbeat(),), True), ((StreamItem(0, "x"),), True), ((), False)],
    ids=["a heartbeat", "a piece of the answer", "nothing"],
)
def test_a_call_that_began_is_never_sent_to_another_worker(
    sign: tuple[Frame, ...], is_begun: bool, rejection: Frame
) -> None:
    ran: list[int] = []

    @tool(side_effects=True, bound_to=("victim.happen", "1.0"))
    async def happen(number: int) -> int:
        ran.append(number)
        return number

    async def scenario(server: NatsServer) -> None:
        async with Worker(Functions([happen]), server.url), nats_client(server.url) as other:
            (brief,) = await other.gather("$SRV.INFO.ferrule-local", b'{"brief":true}')
            async with liar(server, brief.data.split(b'"')[3], *sign, rejection) as received, Bus(server.url) as bus:
                await bus.tools()
                assert len(bus._directory.workers_of(HAPPEN)) == 2
                outcomes = [
                    await bus.call_capability(HAPPEN, {"number": number}, CallContext(call_id=str(number)))
                    for number in range(20)
                ]
        assert received
        unknown = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Unknown)]
        assert len(unknown) == (len(received) if is_begun else 0)
        assert sorted([*ran, *unknown]) == list(range(20))
        assert all(isinstance(outcome, Answered | Unknown) for outcome in outcomes)

    run(scenario)


def test_when_a_worker_is_killed_its_next_calls_go_to_the_other_at_once(tmp_path: Path) -> None:
    place = tmp_path / "place"

    async def scenario(server: NatsServer) -> None:
        with ExitStack() as stack:
            environment = {bus_victim.PLACE: str(place)}
            first, _ = (
                stack.enter_context(
                    worker_process(f"{bus_victim.__file__}:TOOLS", "--nats", server.url, env=environment)
                )
                for _ in range(2)
            )
            async with Bus(server.url) as bus:
                await bus.tools()
                first.send_signal(signal.SIGKILL)
                first.wait()
                for number in range(20):
                    assert await bus.call("happen", {"number": number}, CallContext()) == Answered(number)

    run(scenario)
    assert sorted(map(int, place.read_text(encoding="ascii").split())) == list(range(20))


def test_with_permissions_for_an_older_version_a_worker_is_called_by_its_queue_group() -> None:
    async def scenario(server: NatsServer) -> None:
        async with kitchen(server) as worker, gateway(server) as bus:
            assert [tool.name for tool in await bus.tools()] == ["brew"]
            assert worker.connection.errors
            assert not bus._directory.workers_of(BREW)
            assert await bus.call("brew", {"cups": 1}, ANN) == Answered("1 cups")

    older = CONFIGURATION.replace('"t.acme.kitchen.>"', '"t.acme.kitchen.*.*"')
    assert older != CONFIGURATION
    run(scenario, older)


def test_a_caller_that_may_not_publish_to_a_worker_calls_its_queue_group() -> None:
    async def scenario(server: NatsServer) -> None:
        async with (
            Worker(Functions([brew]), server.url_for("kitchen", "k"), tenant="acme", key=KEY),
            Bus(server.url_for("gateway", "g"), tenant="acme", key=KEY, inbox="_INBOX_gateway") as bus,
        ):
            await bus.tools()
            assert bus._directory.workers_of(BREW)
            context = CallContext(principal=Principal("ann", "acme"))
            outcomes = await asyncio.gather(*(bus.call("brew", {"cups": 1}, context) for _ in range(10)))
            assert outcomes == [Answered("1 cups")] * 10

    run(
        scenario,
        """authorization { users = [
            { user: gateway, password: g, permissions {
                publish: ["t.acme.*.*.*", "$SRV.INFO.ferrule-acme"], subscribe: ["_INBOX_gateway.>", "n.acme"] } }
            { user: kitchen, password: k }
        ] }""",
    )
