"""How a gateway stops that holds more than requests: kept responses, WebSockets, tools."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import Ask
from ferrule.run.ledger.ledger import ResponseStatus
from ferrule.server.process.drain import Drain
from server.client import Client, gateway_of, speaking
from server.responses_world import PATH, Endless, World, config, ended, followed
from server.responses_world import Stepping as Looping
from server.watched import BODIES, CHAT, Stepping, watched_gateway
from server.websocket_client import connected

TOOLS = [{"type": "function", "function": {"name": "launch"}}]


async def lease(client: Client, conversation: str) -> float:
    record = await client.gateway.ledger.load(conversation)
    assert record is not None
    return record.lease_until


def test_a_kept_response_is_left_for_another_gateway_which_ends_it(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, float, float]:
        world = World()
        made = config(str(tmp_path / "ledger.db"), lease=60.0, confirms=False)
        async with gateway_of(Endless(), sources=[world.source()], config=made) as first:
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
            while not first.gateway.watch.answers:
                await asyncio.sleep(0.01)
            (noted,) = first.gateway.watch.answers
            held = await lease(first, noted.conversation)
            first.gateway.watch.drain.begin()
            await first.gateway.watch.drain.ended(0.0)
            async with asyncio.timeout(30):
                while (left := await lease(first, noted.conversation)) >= held:
                    await asyncio.sleep(0.02)
            let_go = await first.gateway.ledger.response(id)
            assert let_go is not None
            assert not let_go.is_ended
        # Long before the lease of a minute would have run out.
        async with gateway_of(Looping(), sources=[world.source()], config=made) as second:
            await ended(second, id)
            record = await second.gateway.ledger.response(id)
            assert record is not None
            assert await followed(second, id)
        return record.status, held, left

    status, held, left = asyncio.run(scenario())
    assert status == ResponseStatus.COMPLETED
    assert left < held


def test_a_gateway_that_drains_takes_nothing_up(tmp_path: Path) -> None:
    async def scenario() -> int:
        made = config(str(tmp_path / "ledger.db"), lease=0.05, confirms=False)
        async with gateway_of(Endless(), sources=[World().source()], config=made) as client:
            await client.post(PATH, {"input": "go", "background": True})
            while not client.gateway.watch.answers:
                await asyncio.sleep(0.01)
            client.gateway.watch.drain.begin()
            await client.gateway.watch.drain.ended(0.0)
            await asyncio.sleep(0.3)
            return len(client.gateway.watch.answers)

    assert asyncio.run(scenario()) == 0


def test_a_quiet_websocket_is_closed_at_once() -> None:
    async def scenario() -> int | None:
        async with watched_gateway(speaking()) as (client, _), connected(client) as socket:
            while not client.gateway.watch.requests:
                await asyncio.sleep(0.01)
            client.gateway.watch.drain.begin()
            assert await client.gateway.watch.drain.ended(3600.0) == 0
            return socket.closed

    assert asyncio.run(scenario()) == 1013


def test_a_turn_on_a_websocket_goes_on_while_there_is_time_and_then_fails_as_one_that_may_be_asked_again() -> None:
    async def scenario(seconds: float) -> list[type]:
        engine = Stepping(last=2)
        async with watched_gateway(engine) as (client, _), connected(client) as socket:
            await socket.say(Ask(BODIES[CHAT]))
            await engine.began.wait()
            draining = asyncio.ensure_future(_drained(client.gateway.watch.drain, seconds))
            await asyncio.sleep(0.1)
            if seconds:
                engine.leave.put_nowait(None)
                engine.leave.put_nowait(None)
            last = await socket.to_end()
            await draining
            if isinstance(last.frame, out.Failed):
                assert (last.frame.code, last.frame.retryable) == ("draining", True)
            return [type(last.frame)]

    assert asyncio.run(scenario(3600.0)) == [out.Done]
    assert asyncio.run(scenario(0.0)) == [out.Failed]


def test_a_turn_that_waits_for_its_callers_result_is_not_quiet() -> None:
    async def scenario() -> tuple[int | None, int]:
        call = Reply.of(ToolCall.of("launch", {}, id="call_1"))
        async with watched_gateway(speaking(call)) as (client, _), connected(client) as socket:
            await socket.say(Ask({**BODIES[CHAT], "tools": TOOLS}))
            await socket.until(out.Call)
            client.gateway.watch.drain.begin()
            await client.gateway.watch.drain.ended(0.2)
            return socket.closed, len(client.gateway.watch.drain.under_way)

    closed, left = asyncio.run(scenario())
    assert (closed, left) == (None, 1)


async def _drained(drain: Drain, seconds: float) -> None:
    drain.begin()
    await drain.ended(seconds)
