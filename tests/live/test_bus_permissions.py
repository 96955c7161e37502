"""NATS permissions, with the configuration in docs/how-to/bus.md."""

from __future__ import annotations

import asyncio
import re
import time
from pathlib import Path

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome, Unknown
from ferrule.errors import BusUnavailableError
from ferrule.schema.tool_decorator import tool
from ferrule.sources.bus.bus import Bus
from ferrule.sources.bus.connection import Connection, Message
from ferrule.sources.bus.subject import Capability
from ferrule.sources.bus.worker import Worker
from ferrule.sources.functions import Functions
from lab.bus_server import NatsServer
from live.bus_parts import KEY, run
from waiting import MOMENT

pytestmark = pytest.mark.live
PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "bus.md"
(CONFIGURATION,) = re.findall(r"^```nats\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PASSWORDS = dict(re.findall(r'user: (\w+), password: "([^"]+)"', CONFIGURATION))
BREW, ORDER = Capability.read("kitchen.brew"), Capability.read("office.order")
ANN = CallContext(principal=Principal("ann", "acme"))


@tool(bound_to=("kitchen.brew", "1.0"))
async def brew(cups: int, context: CallContext) -> str:
    """Makes coffee."""
    for cup in range(cups):
        context.report(cup, cups)
        await asyncio.sleep(0.15)
    return f"{cups} cups"


def url_of(server: NatsServer, user: str) -> str:
    return server.url_for(user, PASSWORDS[user])


def gateway(server: NatsServer, user: str = "gateway", tenant: str = "acme") -> Bus:
    return Bus(url_of(server, user), tenant=tenant, key=KEY, inbox=f"_INBOX_{user}", heartbeat_timeout=1.0)


def kitchen(server: NatsServer) -> Worker:
    return Worker(Functions([brew]), url_of(server, "kitchen"), tenant="acme", key=KEY, heartbeat=0.3)


def test_the_printed_configuration_lets_a_gateway_call_what_a_worker_serves() -> None:
    message: list[float] = []

    async def scenario(server: NatsServer) -> None:
        async with kitchen(server) as worker, gateway(server) as bus:
            assert [tool.name for tool in await bus.tools()] == ["brew"]
            context = CallContext(principal=ANN.principal, on_progress=lambda progress: message.append(progress.done))
            assert await bus.call("brew", {"cups": 4}, context) == Answered("4 cups")
            assert (await bus.counts())["requests", BREW.subject("acme")] == 1
            assert not bus.connection.errors
            assert not worker.connection.errors

    run(scenario, CONFIGURATION)
    # Only the newest progress counts: one may be skipped for the next.
    assert len(message) >= 2
    assert message == sorted(message)


def test_another_tenant_sees_nothing_and_calls_nothing() -> None:
    async def scenario(server: NatsServer) -> None:
        async with kitchen(server), gateway(server, "globex", "globex") as bus:
            assert await bus.tools() == ()
            refused = await bus.call_capability(BREW, {"cups": 1}, ANN)
            assert isinstance(refused, Answered)
            assert refused.code == "token_scope_insufficient"
        # Even with manipulated code and the right key, the server refuses.
        liar = gateway(server, "globex", "acme")
        async with kitchen(server), liar as bus:
            assert await bus.discover() == []
            outcome: Outcome = await bus.call_capability(BREW, {"cups": 1}, ANN)
            assert isinstance(outcome, Unknown)

    run(scenario, CONFIGURATION)


def test_what_the_server_refuses_is_silence_and_a_complaint_that_a_person_can_read() -> None:
    async def scenario(server: NatsServer) -> None:
        async with Bus(url_of(server, "kitchen"), tenant="acme", key=KEY, heartbeat_timeout=1.0) as bus:
            # The NATS user of a worker may not call.
            started = time.monotonic()
            outcome = await bus.call_capability(BREW, {"cups": 1}, ANN)
            assert isinstance(outcome, Unknown)
            assert time.monotonic() - started < MOMENT
            assert any("permissions violation" in lines.lower() for lines in bus.connection.errors)

    run(scenario, CONFIGURATION)


def test_nobody_reads_anothers_answers() -> None:
    overheard: list[Message] = []

    async def keep(message: Message) -> None:
        overheard.append(message)

    async def scenario(server: NatsServer) -> None:
        spy = Connection(url_of(server, "globex"))
        await spy.open()
        for subject in ("_INBOX_gateway.>", ">", "t.acme.>", "_INBOX.>"):
            await spy.subscribe(subject, keep)
        async with kitchen(server), gateway(server) as bus:
            await bus.tools()
            assert await bus.call("brew", {"cups": 1}, ANN) == Answered("1 cups")
        assert spy.errors
        await spy.close()

    run(scenario, CONFIGURATION)
    assert not overheard


def test_a_worker_answers_who_asked_and_nobody_else() -> None:
    async def scenario(server: NatsServer) -> None:
        worker = Connection(url_of(server, "kitchen"))
        await worker.open()
        async with gateway(server) as bus:

            async def misuse(message: Message) -> None:
                await worker.send("t.acme.office.order.1", b'{"input": {}}')
                await worker.send("_INBOX_gateway.somewhere", b"forged")
                await worker.send(message.reply, b'{"content": "mine"}')

            await worker.subscribe("t.acme.kitchen.*.*", misuse, "q")
            await worker.flush()
            assert await bus.call_capability(BREW, {"cups": 1}, ANN) == Answered("mine")
            await worker.flush()
        refused = [lines for lines in worker.errors if "permissions violation" in lines.lower()]
        assert len(refused) == 2
        await worker.close()

    run(scenario, CONFIGURATION)


def test_a_wrong_password_is_reported_in_seconds_and_not_printed() -> None:
    async def scenario(server: NatsServer) -> None:
        with pytest.raises(BusUnavailableError) as refusal:
            await Bus(server.url_for("gateway", "guessed")).open()
        assert "guessed" not in str(refusal.value)
        assert "authorization" in str(refusal.value).lower()

    run(scenario, CONFIGURATION)
