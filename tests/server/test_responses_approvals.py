"""Leave that is asked for and given through the Responses API."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.server.config.config import KeyConfig
from server.client import Client, gateway_of, speaking
from server.keys import bearer, key, keyed
from server.responses_world import PATH, Stepping, World, check_stream, items, text_of


def answer(request: Any, approve: bool = True, reason: str | None = None) -> dict[str, Any]:
    told = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": approve}
    return {**told, "reason": reason} if reason else told


async def waiting(client: Client, headers: dict[str, str] | None = None, **more: Any) -> tuple[Any, list[Any]]:
    """A response that waits, and what it asks."""
    told = (await client.post(PATH, {"input": "go", **more}, headers)).json()
    return told, items(told, "mcp_approval_request")


def test_a_turn_that_waits_is_completed_with_its_question_and_goes_on_where_it_stopped() -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("look", "pay")), sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            assert (first["status"], asked["name"], asked["arguments"]) == ("completed", "pay", '{"step": 1}')
            assert world.happened == ["look 0"]
            body = {"input": [answer(asked)], "previous_response_id": first["id"], "stream": True}
            events = (await client.post(PATH, body)).events()
            check_stream(events)
            (call,) = items(events[-1]["response"], "mcp_call")
            assert (call["approval_request_id"], call["output"]) == (asked["id"], "paid 1")
            assert text_of(events[-1]["response"]) == "All done."
            assert world.happened == ["look 0", "pay 1"]
            records = [await client.gateway.ledger.response(one["id"]) for one in (first, events[-1]["response"])]
            assert len({record and record.conversation for record in records}) == 1
            assert await client.gateway.ledger.verify() is None

    asyncio.run(story())


def test_a_denial_is_told_to_the_model_with_its_reason() -> None:
    async def story() -> None:
        world, engine = World(), Stepping(("pay",))
        async with gateway_of(engine, sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            body = {"input": [answer(asked, False, "too dear")], "previous_response_id": first["id"]}
            told = (await client.post(PATH, body)).json()
            assert (text_of(told), world.happened) == ("All done.", [])
            (result,) = engine.requests[-1].messages[-1].results
            assert "too dear" in str(result.content)

    asyncio.run(story())


@pytest.mark.parametrize("store", [True, False])
@pytest.mark.parametrize("approve", [True, False])
def test_answering_twice_is_a_conflict_and_nothing_happens_twice(store: bool, approve: bool) -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("pay",)), sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            body = {"input": [answer(asked, approve)], "previous_response_id": first["id"], "store": store}
            answers = await asyncio.gather(*(client.post(PATH, body) for _ in range(6)))
            statuses = sorted(one.status for one in answers)
            assert statuses == [200, 409, 409, 409, 409, 409]
            assert all(one.json()["error"]["type"] == "conflict_error" for one in answers if one.status == 409)
            assert (await client.post(PATH, body)).status == 409
            assert world.happened == (["pay 0"] if approve else [])

    asyncio.run(story())


def test_of_several_questions_those_left_open_are_asked_again() -> None:
    async def story() -> None:
        world = World()
        calls = [ToolCall.of("pay", {"step": number}, id=f"k{number}") for number in (1, 2)]
        async with gateway_of(speaking(Reply.of(*calls), "done"), sources=[world.source()]) as client:
            first, asked = await waiting(client)
            assert [one["arguments"] for one in asked] == ['{"step": 1}', '{"step": 2}']
            body = {"input": [answer(asked[1])], "previous_response_id": first["id"]}
            second = (await client.post(PATH, body)).json()
            assert world.happened == ["pay 2"]
            (left,) = items(second, "mcp_approval_request")
            assert left["id"] == asked[0]["id"]
            body = {"input": [answer(left)], "previous_response_id": second["id"]}
            assert text_of((await client.post(PATH, body)).json()) == "done"
            assert world.happened == ["pay 2", "pay 1"]

    asyncio.run(story())


def test_who_resends_the_whole_conversation_needs_no_previous_id() -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("look", "pay")), sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            said = {"role": "user", "content": "go"}
            body = {"input": [said, *first["output"], answer(asked)]}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.happened == ["look 0", "pay 1"]

    asyncio.run(story())


def test_what_is_not_stored_waits_and_goes_on_too() -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("pay",)), sources=[world.source()]) as client:
            _, (asked,) = await waiting(client, store=False)
            body = {"input": [{"role": "user", "content": "go"}, asked, answer(asked)], "store": False}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.happened == ["pay 0"]

    asyncio.run(story())


def test_something_new_cannot_be_said_in_the_middle_of_a_turn() -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("pay",)), sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            news = {"role": "user", "content": "and also"}
            for body in (
                {"input": [answer(asked), news], "previous_response_id": first["id"]},
                {"input": [{"role": "user", "content": "go"}, asked, answer(asked), news]},
            ):
                refused = await client.post(PATH, body)
                assert (refused.status, world.happened) == (400, [])

    asyncio.run(story())


def test_who_goes_on_without_an_answer_begins_anew_and_the_question_stays_open() -> None:
    async def story() -> None:
        world, engine = World(), Stepping(("look", "pay"))
        async with gateway_of(engine, sources=[world.source()]) as client:
            first, (asked,) = await waiting(client)
            other = (await client.post(PATH, {"input": "never mind", "previous_response_id": first["id"]})).json()
            history = engine.requests[2].messages
            assert not any(call.name == "pay" for message in history for call in message.tool_calls)
            assert [one["name"] for one in items(other, "mcp_approval_request")] == ["pay"]
            body = {"input": [answer(asked)], "previous_response_id": first["id"]}
            assert text_of((await client.post(PATH, body)).json()) == "All done."
            assert world.happened == ["look 0", "look 0", "pay 1"]

    asyncio.run(story())


KEYS: list[tuple[KeyConfig, int]] = [
    (key("ann", tools=("*",), approve=True), 200),
    (key("ann", tools=("*",)), 403),
]


@pytest.mark.parametrize("held, status", KEYS)
def test_leave_is_given_by_who_has_the_right_and_not_by_whoever_asked(held: KeyConfig, status: int) -> None:
    async def story() -> None:
        world = World()
        async with gateway_of(Stepping(("pay",)), sources=[world.source()], config=keyed(held)) as client:
            first, (asked,) = await waiting(client, bearer("ann"))
            body = {"input": [answer(asked)], "previous_response_id": first["id"]}
            assert (await client.post(PATH, body, bearer("ann"))).status == status
            assert world.happened == (["pay 0"] if status == 200 else [])

    asyncio.run(story())


def test_nobody_gives_leave_in_somebody_else_s_conversation() -> None:
    async def story() -> None:
        world = World()
        keys = keyed(key("ann", tools=("*",), approve=True), key("bob", tools=("*",), approve=True))
        async with gateway_of(Stepping(("pay",)), sources=[world.source()], config=keys) as client:
            _, (asked,) = await waiting(client, bearer("ann"))
            refused = await client.post(PATH, {"input": [answer(asked)]}, bearer("bob"))
            assert (refused.status, refused.json()["error"]["code"]) == (400, "approval_unknown")
            assert world.happened == []

    asyncio.run(story())


@pytest.mark.parametrize("wish, asks", [("always", True), (None, True), ("never", False)])
def test_a_client_may_want_to_be_asked_for_what_only_reads(wish: str | None, asks: bool) -> None:
    async def story() -> None:
        world = World()
        declared = {"type": "mcp", "server_label": "till", **({"require_approval": wish} if wish else {})}
        async with gateway_of(Stepping(("look",)), sources=[world.source()]) as client:
            first, asked = await waiting(client, tools=[declared])
            assert (len(asked), world.happened) == ((1, []) if asks else (0, ["look 0"]))
            if asks:
                body = {"input": [answer(asked[0])], "previous_response_id": first["id"], "tools": [declared]}
                assert text_of((await client.post(PATH, body)).json()) == "All done."
                assert world.happened == ["look 0"]

    asyncio.run(story())


def test_a_client_cannot_do_without_the_leave_that_the_gateway_wants() -> None:
    async def story() -> None:
        world = World()
        declared = {"type": "mcp", "server_label": "till", "require_approval": "never"}
        async with gateway_of(Stepping(("pay",)), sources=[world.source()]) as client:
            _, asked = await waiting(client, tools=[declared])
            assert (len(asked), world.happened) == (1, [])

    asyncio.run(story())
