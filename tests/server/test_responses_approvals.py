"""Approval requests and answers in the Responses API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.server.config.config import KeyConfig
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.responses_world import PATH, SteppingEngine, ToolLog, check_stream, items, text_of


def answer(request: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    body = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}
    return {**body, "reason": reason} if reason else body


async def start_waiting(client: Client, headers: dict[str, str] | None = None, **more: Any) -> tuple[Any, list[Any]]:
    """A response that waits, and what it asks."""
    body = (await client.post(PATH, {"input": "go", **more}, headers)).json()
    return body, items(body, "mcp_approval_request")


def test_a_waiting_turn_completes_with_its_approval_request_and_resumes_where_it_stopped() -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(("look", "pay")), sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            assert (first["status"], request_item["name"], request_item["arguments"]) == (
                "completed",
                "pay",
                '{"step": 1}',
            )
            assert world.calls == ["look 0"]
            body = {"input": [answer(request_item)], "previous_response_id": first["id"], "stream": True}
            events = (await client.post(PATH, body)).events()
            check_stream(events)
            (call,) = items(events[-1]["response"], "mcp_call")
            assert (call["approval_request_id"], call["output"]) == (request_item["id"], "paid 1")
            assert text_of(events[-1]["response"]) == "All done."
            assert world.calls == ["look 0", "pay 1"]
            records = [await client.gateway.ledger.response(one["id"]) for one in (first, events[-1]["response"])]
            assert len({record and record.conversation for record in records}) == 1
            assert await client.gateway.ledger.verify() is None

    asyncio.run(story())


def test_the_model_reads_a_denial_with_its_reason() -> None:
    async def story() -> None:
        world, engine = ToolLog(), SteppingEngine(("pay",))
        async with gateway_of(engine, sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            body = {"input": [answer(request_item, False, "too dear")], "previous_response_id": first["id"]}
            response = (await client.post(PATH, body)).json()
            assert (text_of(response), world.calls) == ("All done.", [])
            (result,) = engine.requests[-1].messages[-1].results
            assert "too dear" in str(result.content)

    asyncio.run(story())


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("approve", [True, False])
def test_answering_twice_is_a_conflict_and_nothing_happens_twice(store: bool, approve: bool) -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(("pay",)), sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            body = {"input": [answer(request_item, approve)], "previous_response_id": first["id"], "store": store}
            answers = await asyncio.gather(*(client.post(PATH, body) for _ in range(6)))
            statuses = sorted(one.status for one in answers)
            assert statuses == [200, 409, 409, 409, 409, 409]
            assert all(one.json()["error"]["type"] == "conflict_error" for one in answers if one.status == 409)
            assert (await client.post(PATH, body)).status == 409
            assert world.calls == (["pay 0"] if approve else [])

    asyncio.run(story())


def test_unanswered_approval_requests_are_sent_again() -> None:
    async def story() -> None:
        world = ToolLog()
        calls = [ToolCall.of("pay", {"step": number}, id=f"k{number}") for number in (1, 2)]
        async with gateway_of(scripted_engine(Reply.of(*calls), "done"), sources=[world.source()]) as client:
            first, request_item = await start_waiting(client)
            assert [one["arguments"] for one in request_item] == ['{"step": 1}', '{"step": 2}']
            body = {"input": [answer(request_item[1])], "previous_response_id": first["id"]}
            second = (await client.post(PATH, body)).json()
            assert world.calls == ["pay 2"]
            (remaining,) = items(second, "mcp_approval_request")
            assert remaining["id"] == request_item[0]["id"]
            body = {"input": [answer(remaining)], "previous_response_id": second["id"]}
            assert text_of((await client.post(PATH, body)).json()) == "done"
            assert world.calls == ["pay 2", "pay 1"]

    asyncio.run(story())


def test_a_client_that_resends_the_whole_conversation_needs_no_previous_id() -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(("look", "pay")), sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            message = {"role": "user", "content": "go"}
            body = {"input": [message, *first["output"], answer(request_item)]}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.calls == ["look 0", "pay 1"]

    asyncio.run(story())


def test_a_response_that_is_not_stored_waits_and_resumes_too() -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(("pay",)), sources=[world.source()]) as client:
            _, (request_item,) = await start_waiting(client, store=False)
            body = {"input": [{"role": "user", "content": "go"}, request_item, answer(request_item)], "store": False}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.calls == ["pay 0"]

    asyncio.run(story())


def test_a_new_message_in_the_middle_of_a_turn_is_refused() -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(("pay",)), sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            news = {"role": "user", "content": "and also"}
            for body in (
                {"input": [answer(request_item), news], "previous_response_id": first["id"]},
                {"input": [{"role": "user", "content": "go"}, request_item, answer(request_item), news]},
            ):
                refused = await client.post(PATH, body)
                assert (refused.status, world.calls) == (400, [])

    asyncio.run(story())


def test_continuing_without_an_answer_forks_and_the_approval_stays_pending() -> None:
    async def story() -> None:
        world, engine = ToolLog(), SteppingEngine(("look", "pay"))
        async with gateway_of(engine, sources=[world.source()]) as client:
            first, (request_item,) = await start_waiting(client)
            other = (await client.post(PATH, {"input": "never mind", "previous_response_id": first["id"]})).json()
            history = engine.requests[2].messages
            assert not any(call.name == "pay" for message in history for call in message.tool_calls)
            assert [one["name"] for one in items(other, "mcp_approval_request")] == ["pay"]
            body = {"input": [answer(request_item)], "previous_response_id": first["id"]}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.calls == ["look 0", "look 0", "pay 1"]

    asyncio.run(story())


KEYS: list[tuple[KeyConfig, int]] = [
    (key("ann", tools=("*",), approve=True), 200),
    (key("ann", tools=("*",)), 403),
]


@pytest.mark.parametrize("key, status", KEYS)
def test_only_a_key_with_the_right_approves_and_not_the_owner(key: KeyConfig, status: int) -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(
            SteppingEngine(("pay",)), sources=[world.source()], config=config_with_keys(key)
        ) as client:
            first, (request_item,) = await start_waiting(client, bearer("ann"))
            body = {"input": [answer(request_item)], "previous_response_id": first["id"]}
            assert (await client.post(PATH, body, bearer("ann"))).status == status
            assert world.calls == (["pay 0"] if status == 200 else [])

    asyncio.run(story())


def test_approvals_in_another_principals_conversation_are_refused() -> None:
    async def story() -> None:
        world = ToolLog()
        keys = config_with_keys(key("ann", tools=("*",), approve=True), key("bob", tools=("*",), approve=True))
        async with gateway_of(SteppingEngine(("pay",)), sources=[world.source()], config=keys) as client:
            _, (request_item,) = await start_waiting(client, bearer("ann"))
            refused = await client.post(PATH, {"input": [answer(request_item)]}, bearer("bob"))
            assert (refused.status, refused.json()["error"]["code"]) == (400, "approval_unknown")
            assert world.calls == []

    asyncio.run(story())


@pytest.mark.parametrize("wish, asks", [("always", True), (None, True), ("never", False)])
def test_a_client_may_require_approval_for_a_read_only_tool(wish: str | None, asks: bool) -> None:
    async def story() -> None:
        world = ToolLog()
        declared = {"type": "mcp", "server_label": "till", **({"require_approval": wish} if wish else {})}
        async with gateway_of(SteppingEngine(("look",)), sources=[world.source()]) as client:
            first, request_item = await start_waiting(client, tools=[declared])
            assert (len(request_item), world.calls) == ((1, []) if asks else (0, ["look 0"]))
            if asks:
                body = {"input": [answer(request_item[0])], "previous_response_id": first["id"], "tools": [declared]}
                assert text_of((await client.post(PATH, body)).json()) == "All done."
                assert world.calls == ["look 0"]

    asyncio.run(story())


def test_a_client_cannot_waive_the_approval_that_the_gateway_requires() -> None:
    async def story() -> None:
        world = ToolLog()
        declared = {"type": "mcp", "server_label": "till", "require_approval": "never"}
        async with gateway_of(SteppingEngine(("pay",)), sources=[world.source()]) as client:
            _, request_item = await start_waiting(client, tools=[declared])
            assert (len(request_item), world.calls) == (1, [])

    asyncio.run(story())
