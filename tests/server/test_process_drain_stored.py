"""Draining a gateway with stored responses, WebSockets and tools."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.run.ledger.ledger import ResponseStatus
from ferrule.server.process.drain import Drain
from server.client import Client, gateway_of, scripted_engine
from server.responses_world import PATH, EndlessEngine, ToolLog, config, follow, wait_for_end
from server.responses_world import SteppingEngine as Looping
from server.watched import BODIES, CHAT, StepEngine, gateway_with_log
from server.websocket_client import connect
from waiting import PATIENCE

TOOLS = [{"type": "function", "function": {"name": "launch"}}]


async def lease(client: Client, conversation: str) -> float:
    record = await client.gateway.ledger.load(conversation)
    assert record is not None
    return record.lease_until


def test_another_gateway_completes_a_stored_response(tmp_path: Path) -> None:
    async def scenario() -> tuple[str, float, float]:
        world = ToolLog()
        gateway_config = config(str(tmp_path / "ledger.db"), lease=60.0, confirms=False)
        async with gateway_of(EndlessEngine(), sources=[world.source()], config=gateway_config) as first:
            id = (await first.post(PATH, {"input": "go", "background": True})).json()["id"]
            while not first.gateway.telemetry.answers:
                await asyncio.sleep(0.01)
            (noted,) = first.gateway.telemetry.answers
            before = await lease(first, noted.conversation)
            first.gateway.telemetry.drain.begin()
            await first.gateway.telemetry.drain.wait(0.0)
            async with asyncio.timeout(PATIENCE):
                while (after := await lease(first, noted.conversation)) >= before:
                    await asyncio.sleep(0.02)
            released = await first.gateway.ledger.response(id)
            assert released is not None
            assert not released.is_ended
        # Long before the lease of a minute expires.
        async with gateway_of(Looping(), sources=[world.source()], config=gateway_config) as second:
            await wait_for_end(second, id)
            record = await second.gateway.ledger.response(id)
            assert record is not None
            assert await follow(second, id)
        return record.status, before, after

    status, before, after = asyncio.run(scenario())
    assert status == ResponseStatus.COMPLETED
    assert after < before


def test_a_draining_gateway_takes_over_no_responses(tmp_path: Path) -> None:
    async def scenario() -> int:
        gateway_config = config(str(tmp_path / "ledger.db"), lease=0.05, confirms=False)
        async with gateway_of(EndlessEngine(), sources=[ToolLog().source()], config=gateway_config) as client:
            await client.post(PATH, {"input": "go", "background": True})
            while not client.gateway.telemetry.answers:
                await asyncio.sleep(0.01)
            client.gateway.telemetry.drain.begin()
            await client.gateway.telemetry.drain.wait(0.0)
            await asyncio.sleep(0.3)
            return len(client.gateway.telemetry.answers)

    assert asyncio.run(scenario()) == 0


def test_an_idle_websocket_is_closed_at_once() -> None:
    async def scenario() -> int | None:
        async with gateway_with_log(scripted_engine()) as (client, _), connect(client) as socket:
            while not client.gateway.telemetry.requests:
                await asyncio.sleep(0.01)
            client.gateway.telemetry.drain.begin()
            assert await client.gateway.telemetry.drain.wait(3600.0) == 0
            return socket.closed

    assert asyncio.run(scenario()) == 1013


def test_a_websocket_turn_completes_in_time_or_fails_with_a_retryable_error() -> None:
    async def scenario(seconds: float) -> list[type]:
        engine = StepEngine(last=2)
        async with gateway_with_log(engine) as (client, _), connect(client) as socket:
            await socket.send(AskFrame(BODIES[CHAT]))
            await engine.started.wait()
            draining = asyncio.ensure_future(_drain(client.gateway.telemetry.drain, seconds))
            await asyncio.sleep(0.1)
            if seconds:
                engine.steps.put_nowait(None)
                engine.steps.put_nowait(None)
            last = await socket.to_end()
            await draining
            if isinstance(last.frame, out.ErrorFrame):
                assert (last.frame.code, last.frame.retryable) == ("draining", True)
            return [type(last.frame)]

    assert asyncio.run(scenario(3600.0)) == [out.DoneFrame]
    assert asyncio.run(scenario(0.0)) == [out.ErrorFrame]


def test_a_turn_that_waits_for_a_tool_result_is_not_idle() -> None:
    async def scenario() -> tuple[int | None, int]:
        call = Reply.of(ToolCall.of("launch", {}, id="call_1"))
        async with gateway_with_log(scripted_engine(call)) as (client, _), connect(client) as socket:
            await socket.send(AskFrame({**BODIES[CHAT], "tools": TOOLS}))
            await socket.until(out.CallFrame)
            client.gateway.telemetry.drain.begin()
            await client.gateway.telemetry.drain.wait(0.2)
            return socket.closed, len(client.gateway.telemetry.drain.active)

    closed, active = asyncio.run(scenario())
    assert (closed, active) == (None, 1)


async def _drain(drain: Drain, seconds: float) -> None:
    drain.begin()
    await drain.wait(seconds)
