"""One response with the client's functions and the gateway's tools: each side runs its own calls, each call once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.event import Event
from ferrule.core.message import Role
from ferrule.core.outcome import Answered
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Engine, Traits
from ferrule.engines.fake import events_of
from ferrule.run.deferral import DeferralSettings
from ferrule.server.config.config import Config, EngineConfig, TracesConfig
from ferrule.sources.fake import FakeSource
from run.tool_sets import many_tools
from server.client import Client, gateway_of
from server.responses_world import PATH, ToolLog, check_stream, follow, items, text_of
from server.responses_world import config as responses_config
from server.test_responses_takeover import LEASE, Cut

MCP = {"type": "mcp", "server_label": "ferrule", "require_approval": "never"}
FUNCTION = {
    "type": "function",
    "name": "ask_user",
    "parameters": {"type": "object", "properties": {"step": {"type": "integer"}}, "required": ["step"]},
}


class RoundEngine(Engine):
    """Makes the calls of one round after the other, by how many rounds follow the user's message, and then answers."""

    traits = Traits(name="rounds", honours=ALL_CHOICES)

    def __init__(self, *rounds: tuple[str, ...]) -> None:
        self.rounds = rounds
        self.requests: list[ToolCallRequest] = []

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        self.requests.append(request)
        made = 0
        for message in reversed(request.messages):
            if message.role is Role.USER:
                break
            made += bool(message.tool_calls)
        names = self.rounds[made] if made < len(self.rounds) else ()
        calls = [ToolCall.of(name, {"step": made}, id=f"call_{made}_{at}") for at, name in enumerate(names)]
        for event in events_of(Reply.of(*calls) if calls else Reply.of("All done.")):
            yield event

    async def close(self) -> None:
        return


def output(call_id: str, text: str = "yes") -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


async def create(client: Client, given: Any, **more: Any) -> Any:
    tools = [MCP, FUNCTION]
    answer = await client.post(PATH, {"input": given, "tools": tools, **more})
    assert answer.status == 200, answer.body
    if more.get("stream"):
        events = answer.events()
        check_stream(events)
        return events[-1]["response"]
    return answer.json()


def results_of(engine: RoundEngine) -> list[tuple[str, str]]:
    return [(one.tool_call_id, one.text) for message in engine.requests[-1].messages for one in message.results]


@pytest.mark.parametrize("stream", [False, True])
def test_the_gateway_runs_its_calls_and_the_client_gets_its_own_and_continues(stream: bool) -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look", "ask_user"), ("look",))
        async with gateway_of(engine, sources=[log.source()]) as client:
            first = await create(client, "go", stream=stream)
            assert first["status"] == "completed"
            (hosted,), (mine,) = items(first, "mcp_call"), items(first, "function_call")
            assert (hosted["name"], hosted["output"], mine["name"]) == ("look", "seen 0", "ask_user")
            assert (mine["call_id"], json.loads(mine["arguments"])) == ("call_0_1", {"step": 0})
            assert log.calls == ["look 0"]
            assert len(engine.requests) == 1
            assert {tool.name for tool in engine.requests[0].tools} >= {"look", "pay", "ask_user"}
            second = await create(client, [output("call_0_1")], previous_response_id=first["id"], stream=stream)
            # The round has both results, its own call runs once, and the next one of the gateway's too.
            assert (text_of(second), log.calls) == ("All done.", ["look 0", "look 1"])
            assert results_of(engine)[:2] == [("call_0_0", "seen 0"), ("call_0_1", "yes")]
            assert await client.gateway.ledger.verify() is None

    asyncio.run(story())


def test_a_round_of_the_clients_calls_alone_is_handed_out_and_kept() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",), ("ask_user", "ask_user"))
        async with gateway_of(engine, sources=[log.source()]) as client:
            first = await create(client, "go")
            assert [one["call_id"] for one in items(first, "function_call")] == ["call_1_0", "call_1_1"]
            results = [output("call_1_0", "a"), output("call_1_1", "b")]
            second = await create(client, results, previous_response_id=first["id"])
            assert (text_of(second), log.calls) == ("All done.", ["look 0"])
            assert results_of(engine) == [("call_0_0", "seen 0"), ("call_1_0", "a"), ("call_1_1", "b")]

    asyncio.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_without_storing_the_client_sends_everything_again(stream: bool) -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look", "ask_user"))
        async with gateway_of(engine, sources=[log.source()]) as client:
            user = {"role": "user", "content": "go"}
            first = await create(client, [user], store=False, stream=stream)
            given = [user, *first["output"], output("call_0_1")]
            second = await create(client, given, store=False, stream=stream)
            assert (text_of(second), log.calls) == ("All done.", ["look 0"])
            assert [text for _, text in results_of(engine)] == ["seen 0", "yes"]

    asyncio.run(story())


async def _waiting(client: Client) -> tuple[Any, Any, Any]:
    label = {**MCP, "require_approval": "always"}
    answer = await client.post(PATH, {"input": "go", "tools": [label, FUNCTION]})
    first = answer.json()
    (request,), (mine,) = items(first, "mcp_approval_request"), items(first, "function_call")
    return first, request, mine


def _approve(request: Any, approve: bool = True) -> dict[str, Any]:
    return {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}


@pytest.mark.parametrize("approve", [True, False])
def test_a_call_that_waits_for_approval_does_not_hold_the_clients_call(approve: bool) -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("pay", "ask_user"))
        async with gateway_of(engine, sources=[log.source()]) as client:
            first, request, mine = await _waiting(client)
            assert (request["name"], mine["call_id"], log.calls) == ("pay", "call_0_1", [])
            # The round ends when all its own calls have: both ways to try are refused, and nothing happens.
            for early in ([output("call_0_1")], [_approve(request, approve), output("call_0_1")]):
                refused = await client.post(PATH, {"input": early, "previous_response_id": first["id"]})
                assert (refused.status, refused.json()["error"]["code"]) == (400, "approval_pending")
            assert (log.calls, len(engine.requests)) == ([], 1)
            body = {"input": [_approve(request, approve)], "previous_response_id": first["id"]}
            second = (await client.post(PATH, body)).json()
            assert (second["status"], len(engine.requests)) == ("completed", 1)
            assert log.calls == (["pay 0"] if approve else [])
            third = await create(client, [output("call_0_1")], previous_response_id=second["id"])
            assert text_of(third) == "All done."
            assert log.calls == (["pay 0"] if approve else [])
            (paid, text), (asked, answer) = results_of(engine)
            assert (paid, asked, answer) == ("call_0_0", "call_0_1", "yes")
            assert ("paid 0" in text) is approve
            again = await client.post(PATH, body)
            assert again.status == 409

    asyncio.run(story())


def test_results_may_follow_an_approval_that_was_given_elsewhere() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("pay", "ask_user"))
        async with gateway_of(engine, sources=[log.source()]) as client:
            first, request, _ = await _waiting(client)
            decided = await client.post(f"/v1/approvals/{request['id']}", {"approve": True})
            assert decided.status == 200, decided.body
            async with asyncio.timeout(60):
                while log.calls != ["pay 0"]:
                    await asyncio.sleep(0.02)
                record = await client.gateway.ledger.response(first["id"])
                assert record is not None
                while (await client.get(f"/v1/conversations/{record.conversation}/result")).status != 200:
                    await asyncio.sleep(0.02)
            second = await create(client, [output("call_0_1")], previous_response_id=first["id"])
            assert (text_of(second), log.calls) == ("All done.", ["pay 0"])
            assert [id for id, _ in results_of(engine)] == ["call_0_0", "call_0_1"]

    asyncio.run(story())


def test_two_tools_of_one_name_are_refused() -> None:
    async def story() -> None:
        async with gateway_of(RoundEngine(), sources=[ToolLog().source()]) as client:
            tools = [MCP, {**FUNCTION, "name": "look"}]
            refused = await client.post(PATH, {"input": "go", "tools": tools})
            assert refused.status == 400
            assert "look" in refused.json()["error"]["message"]

    asyncio.run(story())


def test_a_search_among_the_gateways_tools_does_not_hide_the_clients_functions() -> None:
    async def story() -> None:
        engine = RoundEngine(("ask_user",))
        search = DeferralSettings(above_tokens=600, preselected=0)
        config = Config(engines=(EngineConfig(name="e0", use="e0"),), tool_search=search)
        source = FakeSource(many_tools(200), lambda name, arguments, context: Answered("well"))
        async with gateway_of(engine, sources=[source], config=config) as client:
            first = await create(client, "go")
            names = [tool.name for tool in engine.requests[0].tools]
            assert "ask_user" in names
            assert len(names) < 20
            assert [one["name"] for one in items(first, "function_call")] == ["ask_user"]

    asyncio.run(story())


@pytest.mark.parametrize("is_made", [False, True])
def test_cut_off_at_any_transaction_the_clients_call_is_handed_out_once_and_effects_happen_once(
    tmp_path: Path, is_made: bool
) -> None:
    async def cut_at(number: int) -> bool:
        log = ToolLog()
        settings = responses_config(str(tmp_path / f"{number}.db"), LEASE, confirms=False, traces=TracesConfig(days=0))
        rounds = (("pay", "ask_user"), ("pay",), ("ask_user",))
        async with (
            gateway_of(RoundEngine(*rounds), sources=[log.source()], config=settings) as first,
            gateway_of(RoundEngine(*rounds), sources=[log.source()], config=settings) as second,
        ):
            cut = Cut(first.gateway.ledger, number, is_made)
            begun = await first.post(PATH, {"input": "go", "tools": [MCP, FUNCTION], "background": True})
            if begun.status != 200:
                return True
            events = await follow(second, begun.json()["id"])
            check_stream(events)
            response = events[-1]["response"]
            assert response["status"] == "completed", number
            assert [one["call_id"] for one in items(response, "function_call")] == ["call_0_1"], number
            after = await create(second, [output("call_0_1")], previous_response_id=response["id"])
            assert [one["call_id"] for one in items(after, "function_call")] == ["call_2_0"], number
            last = await create(second, [output("call_2_0")], previous_response_id=after["id"])
            assert text_of(last) == "All done."
            effects = [one for one in log.calls if one.startswith("pay")]
            assert len(effects) == len(set(effects)), (number, log.calls)
            assert await second.gateway.ledger.verify() is None
            return cut.is_cut

    async def story() -> None:
        number = 1
        while await cut_at(number):
            number += 1
        # The last one was not cut: every transaction of the first response has been.
        assert number > 3

    asyncio.run(story())


def test_a_retried_request_that_is_not_stored_gets_the_same_calls_again() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("pay", "ask_user"))
        settings = responses_config(confirms=False)
        async with gateway_of(engine, sources=[log.source()], config=settings) as client:
            body = {"input": "go", "tools": [MCP, FUNCTION], "store": False}
            answers = [await client.post(PATH, body, {"idempotency-key": "one"}) for _ in range(2)]
            calls = [items(one.json(), "function_call") for one in answers]
            assert [[one["call_id"] for one in found] for found in calls] == [["call_0_1"]] * 2
            assert (log.calls, len(engine.requests)) == (["pay 0"], 1)

    asyncio.run(story())
