"""Calls with side effects run at most once, also after a crash and with several gateways."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.run.executor import ToolSettings
from ferrule.run.ledger.claim import Claim
from ferrule.server.tools.service import CallKey, ToolService
from server.tool_world import World, run_story, world_of

ANN = Principal("ann", "acme")
FREE = ToolSettings(tools_require_confirmation_for_side_effects=False)


async def _start_and_abandon(world: World, name: str, arguments: dict[str, object], call_id: str) -> None:
    """A gateway that began this call a while ago and was killed."""
    gateway = world.client.gateway
    key = CallKey.of(ANN, "", call_id)
    tool = gateway.tool_catalog.tools[name]
    claim = Claim.of(key.conversation, ANN, ToolCall.of(name, arguments, call_id), tool)
    then = time.time() - 100
    record = await gateway.ledger.open(key.conversation, ANN, "dead", 1.0, now=then)
    await gateway.ledger.propose(claim, record.epoch, side_effects=tool.side_effects, needs_approval=False, now=then)
    assert await gateway.ledger.start(claim, record.epoch, now=then)


def test_what_a_killed_gateway_began_and_may_have_done_is_not_begun_again() -> None:
    async def story(world: World) -> None:
        await _start_and_abandon(world, "pay", {"amount": 3}, "c")
        for _ in range(2):
            body = await world.call("pay", {"amount": 3}, call_id="c")
            assert (body.status, body.json()["error"]["code"], body.json()["outcome"]) == (
                502,
                "internal_error",
                "unknown",
            )
        assert not world.done

    run_story(story, tools=FREE)


def test_what_only_reads_is_begun_again() -> None:
    async def story(world: World) -> None:
        await _start_and_abandon(world, "look", {"place": "x"}, "c")
        for _ in range(2):
            assert (await world.call("look", {"place": "x"}, call_id="c")).json()["content"]["seen"]
        assert world.done["look"] == 1

    run_story(story)


def test_two_gateways_on_one_ledger_make_a_call_once(tmp_path: Path) -> None:
    async def told() -> None:
        ledger = str(tmp_path / "ledger.db")
        async with world_of(ledger=ledger, tools=FREE) as one, world_of(ledger=ledger, tools=FREE) as other:
            for number in range(5):
                calls = [world.call("pay", {"amount": 1}, call_id=f"c{number}") for world in (one, other) * 4]
                answers = await asyncio.gather(*calls)
                assert {answer.status for answer in answers} <= {200, 409}
                assert any(answer.status == 200 for answer in answers)
            assert one.done["pay"] + other.done["pay"] == 5

    asyncio.run(told())


def test_a_gateway_with_patience_waits_for_the_decision_itself() -> None:
    async def story(world: World) -> None:
        asking = asyncio.ensure_future(world.call("pay", {"amount": 3}, call_id="c"))
        while not (waiting := await world.client.gateway.ledger.approvals_of("acme")):
            await asyncio.sleep(0.01)
        await world.decide(waiting[0].id, approve=True)
        assert (await asking).json()["content"] == "paid 3"

    run_story(story, approval_patience_seconds=30.0)


def test_a_stopping_gateway_finishes_calls_with_side_effects() -> None:
    async def told() -> None:
        async with world_of(tools=FREE) as world:
            asking = asyncio.ensure_future(world.call("pay_slowly", {"amount": 3}, call_id="c"))
            await world.has_started.wait()
            asking.cancel()
            asyncio.get_running_loop().call_later(0.1, world.gate.set)
            await asyncio.gather(asking, return_exceptions=True)
        assert world.done["pay_slowly"] == 1

    asyncio.run(told())


@pytest.mark.parametrize(
    "one, other",
    [
        ((ANN, "", "c"), (ANN, "c", "")),
        ((ANN, "a", "b"), (ANN, "a/b", "")),
        ((ANN, "", "c"), (Principal("ann", "evil"), "", "c")),
        ((Principal("a", "bc"), "", "c"), (Principal("ab", "c"), "", "c")),
    ],
)
def test_no_two_calls_share_a_place(one: tuple[Principal, str, str], other: tuple[Principal, str, str]) -> None:
    assert CallKey.of(*one).conversation != CallKey.of(*other).conversation


def test_a_tool_is_also_found_by_its_capability() -> None:
    async def story(world: World) -> None:
        tool_catalog = world.client.gateway.tool_catalog
        tool_catalog.tools["look"] = replace(
            tool_catalog.tools["look"], bound_capability="place.look", bound_version="1.0"
        )
        governed = ToolService(world.client.gateway)
        for name in ("look", "place.look", "place.look@1.0"):
            assert governed.tool(name, ANN).name == "look"

    run_story(story)
