"""`/v1/responses`: stored responses over HTTP."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.message import ChatMessage, Text
from ferrule.core.reply import Reply
from ferrule.errors import EngineUnavailableError
from ferrule.server.apis.responses.api import routes
from ferrule.server.config.config import GatewayLimits
from ferrule.server.http import Request, StreamingResponse
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.responses_world import (
    PATH,
    EndlessEngine,
    FailingEngine,
    SteppingEngine,
    ToolLog,
    check_stream,
    config,
    follow,
    items,
    kinds,
    text_of,
    wait_for_end,
)


def words(message: ChatMessage) -> str:
    return "".join(part.text for part in message.parts if isinstance(part, Text))


WEATHER = {"type": "function", "name": "weather", "parameters": {"type": "object", "properties": {}}}


def test_what_is_answered_is_what_is_fetched_later_and_what_its_events_come_to() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            body = (await client.post(PATH, {"input": "hi", "metadata": {"a": "b"}})).json()
            assert (body["status"], text_of(body), body["metadata"]) == ("completed", "hello", {"a": "b"})
            assert (await client.get(f"{PATH}/{body['id']}")).json() == body
            events = await follow(client, body["id"])
            check_stream(events)
            assert events[-1]["response"] == body

    asyncio.run(story())


def test_from_any_number_on_a_reader_gets_the_rest_and_each_event_once() -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(), sources=[world.source()], config=config(confirms=False)) as client:
            streamed = await client.post(PATH, {"input": "go", "stream": True})
            events = streamed.events()
            check_stream(events)
            id = events[0]["response"]["id"]
            for after in range(-1, len(events) + 2):
                assert await follow(client, id, after) == events[after + 1 :]
            assert world.calls == ["look 0", "pay 1", "pay 2"]
            assert text_of(events[-1]["response"]) == "Step 0. Step 1. Step 2. All done."
            calls = items(events[-1]["response"], "mcp_call")
            assert [(one["output"], one["server_label"]) for one in calls] == [
                *(("seen 0", "till"), ("paid 1", "till"), ("paid 2", "till"))
            ]

    asyncio.run(story())


def test_a_response_continues_another_with_all_messages_and_without_its_instructions() -> None:
    async def story() -> None:
        engine = scripted_engine("one", "two", "fork", "three")
        async with gateway_of(engine) as client:
            first = (await client.post(PATH, {"input": "a", "instructions": "be brief"})).json()["id"]
            second = (await client.post(PATH, {"input": "b", "previous_response_id": first})).json()["id"]
            fork = {"input": "c", "previous_response_id": first, "instructions": "be long"}
            assert text_of((await client.post(PATH, fork)).json()) == "fork"
            await client.post(PATH, {"input": "d", "previous_response_id": second})
            messages = [[words(message) for message in request.messages] for request in engine.requests]
            assert messages == [
                ["be brief", "a"],
                ["a", "one", "b"],
                ["be long", "a", "one", "c"],
                ["a", "one", "b", "two", "d"],
            ]
            ids = [await client.gateway.ledger.response(id) for id in (first, second)]
            assert len({record and record.conversation for record in ids}) == 1

    asyncio.run(story())


def test_the_callers_calls_end_the_response_and_their_results_continue_it() -> None:
    async def story() -> None:
        engine = scripted_engine(Reply.of("let me see ", ToolCall.of("weather", {}, id="k")), "sunny")
        async with gateway_of(engine, sources=[ToolLog().source()]) as client:
            first = (await client.post(PATH, {"input": "?", "tools": [WEATHER]})).json()
            (call,) = items(first, "function_call")
            assert (call["call_id"], call["status"]) == ("k", "completed")
            result = {"type": "function_call_output", "call_id": "k", "output": "28 degrees"}
            body = {"input": [result], "previous_response_id": first["id"], "tools": [WEATHER]}
            assert text_of((await client.post(PATH, body)).json()) == "sunny"
            (tool_result,) = engine.requests[1].messages[-1].results
            assert (tool_result.name, tool_result.content) == ("weather", "28 degrees")

    asyncio.run(story())


def test_in_the_background_it_is_answered_at_once_and_worked_on_without_anybody() -> None:
    async def story() -> None:
        world = ToolLog()
        engine = SteppingEngine(pause=0.01)
        async with gateway_of(engine, sources=[world.source()], config=config(confirms=False)) as client:
            body = (await client.post(PATH, {"input": "go", "background": True})).json()
            assert (body["status"], body["output"], body["background"]) == ("queued", [], True)
            events = await follow(client, body["id"])
            check_stream(events)
            assert [event["type"] for event in events[:3]] == [
                *("response.created", "response.queued", "response.in_progress")
            ]
            assert world.calls == ["look 0", "pay 1", "pay 2"]

    asyncio.run(story())


def test_a_client_that_disconnects_finds_all_events_later() -> None:
    async def story() -> None:
        world = ToolLog()
        leaves = asyncio.Event()
        source = world.source()
        async with gateway_of(SteppingEngine(pause=0.005), sources=[source], config=config(confirms=False)) as client:
            task = asyncio.ensure_future(
                client.request("POST", PATH, {"input": "go", "stream": True}, disconnect=leaves)
            )
            while not world.calls:
                await asyncio.sleep(0.001)
            leaves.set()
            events = (await task).events()
            assert events
            rest = await follow(client, events[0]["response"]["id"], events[-1]["sequence_number"])
            check_stream([*events, *rest])
            assert world.calls == ["look 0", "pay 1", "pay 2"]

    asyncio.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_not_stored_is_answered_the_same_and_cannot_be_fetched(stream: bool) -> None:
    async def story() -> None:
        world = ToolLog()
        async with gateway_of(SteppingEngine(), sources=[world.source()], config=config(confirms=False)) as client:
            answered = await client.post(PATH, {"input": "go", "store": False, "stream": stream})
            if stream:
                check_stream(answered.events())
            body = answered.events()[-1]["response"] if stream else answered.json()
            assert (body["status"], body["store"]) == ("completed", False)
            assert text_of(body) == "Step 0. Step 1. Step 2. All done."
            assert world.calls == ["look 0", "pay 1", "pay 2"]
            for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
                refused = await client.request(method, f"{PATH}/{body['id']}{path}")
                assert (refused.status, refused.json()["error"]["type"]) == (404, "not_found_error")

    asyncio.run(story())


def test_somebody_else_s_response_is_not_there_for_any_route() -> None:
    async def story() -> None:
        keys = config_with_keys(key("ann"), key("eve"), key("ann2", tenant="other"))
        async with gateway_of(scripted_engine("secret", "x", "x"), config=keys) as client:
            id = (await client.post(PATH, {"input": "hi"}, bearer("ann"))).json()["id"]
            for other in ("eve", "ann2"):
                for method, path in (("GET", ""), ("DELETE", ""), ("POST", "/cancel"), ("GET", "/input_items")):
                    assert (await client.request(method, f"{PATH}/{id}{path}", headers=bearer(other))).status == 404
                body = {"input": "tell me", "previous_response_id": id}
                refused = await client.post(PATH, body, bearer(other))
                assert (refused.status, refused.json()["error"]["code"]) == (400, "previous_response_not_found")
            assert (await client.get(f"{PATH}/{id}", bearer("ann"))).status == 200

    asyncio.run(story())


def test_a_deleted_response_is_missing_and_cannot_be_continued() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            id = (await client.post(PATH, {"input": "hi"})).json()["id"]
            deletion = await client.request("DELETE", f"{PATH}/{id}")
            assert deletion.json() == {"id": id, "object": "response", "deleted": True}
            assert [(await client.request(method, f"{PATH}/{id}")).status for method in ("GET", "DELETE")] == [404, 404]
            assert (await client.post(PATH, {"input": "x", "previous_response_id": id})).status == 400

    asyncio.run(story())


@pytest.mark.parametrize("is_deleted", [True, False])
def test_only_a_stream_with_its_last_event_says_that_it_is_done(
    is_deleted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Pages of a short response: it is deleted between two of them.
    monkeypatch.setattr("ferrule.server.apis.responses.store._PAGE", 4)

    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            id = (await client.post(PATH, {"input": "hi"})).json()["id"]
            last = (await follow(client, id))[-1]["sequence_number"]
            (get,) = [one for one in routes(client.gateway) if (one.method, one.path) == ("GET", f"{PATH}/{{id}}")]

            async def stream(after: int) -> StreamingResponse:
                query = {"stream": "true", "starting_after": str(after)}
                answer = await get.handler(Request("GET", PATH, "r", query=query, params={"id": id}))
                assert isinstance(answer, StreamingResponse)
                return answer

            first, at_end = await stream(-1), await stream(last)
            head = await anext(first.chunks)
            assert b"response.completed" not in head
            if is_deleted:
                assert (await client.request("DELETE", f"{PATH}/{id}")).status == 200
            rest = b"".join([chunk async for chunk in first.chunks])
            assert (b"response.completed" in rest, b"[DONE]" in rest) == (not is_deleted, not is_deleted)
            assert (b"[DONE]" in b"".join([chunk async for chunk in at_end.chunks])) is not is_deleted

    asyncio.run(story())


def test_cancelling_stops_the_engine_and_ends_the_stream_cleanly() -> None:
    async def story() -> None:
        engine = EndlessEngine()
        async with gateway_of(engine) as client:
            id = (await client.post(PATH, {"input": "go", "background": True})).json()["id"]
            await engine.has_begun.wait()
            assert (await client.request("DELETE", f"{PATH}/{id}")).status == 409
            following = asyncio.ensure_future(follow(client, id))
            body = (await client.request("POST", f"{PATH}/{id}/cancel")).json()
            assert body["status"] == "cancelled"
            assert engine.is_stopped.is_set()
            check_stream(await following)
            assert (await client.request("POST", f"{PATH}/{id}/cancel")).json() == body
            assert (await client.request("DELETE", f"{PATH}/{id}")).status == 200

    asyncio.run(story())


@pytest.mark.parametrize("body", [{}, {"stream": True}, {"store": False}, {"store": False, "stream": True}])
def test_a_failure_before_any_output_has_an_http_status(body: dict[str, Any]) -> None:
    async def story() -> None:
        async with gateway_of(FailingEngine(error=EngineUnavailableError("overloaded"))) as client:
            refused = await client.post(PATH, {"input": "hi", **body})
            assert (refused.status, refused.headers["x-should-retry"]) == (503, "true")
            assert refused.json()["error"]["code"] == "engine_unavailable"

    asyncio.run(story())


@pytest.mark.parametrize("store", [True, False])
def test_what_fails_in_the_middle_ends_the_stream_as_the_api_ends_it(store: bool) -> None:
    async def story() -> None:
        async with gateway_of(FailingEngine("a word")) as client:
            events = (await client.post(PATH, {"input": "hi", "stream": True, "store": store})).events()
            check_stream(events)
            assert events[-1]["type"] == "response.failed"
            assert events[-1]["response"]["error"]["code"] == "server_error"
            if store:
                assert (await wait_for_end(client, events[0]["response"]["id"]))["status"] == "failed"

    asyncio.run(story())


def test_an_answer_that_takes_too_long_ends_as_failed() -> None:
    async def story() -> None:
        limits = GatewayLimits(total_seconds=0.2)
        async with gateway_of(EndlessEngine(), config=config(limits=limits)) as client:
            id = (await client.post(PATH, {"input": "go", "background": True})).json()["id"]
            body = await wait_for_end(client, id)
            assert (body["status"], "too long" in body["error"]["message"]) == ("failed", True)

    asyncio.run(story())


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"input": "x", "background": True, "store": False}, "background"),
    ({"input": "x", "tools": [{"type": "mcp", "server_label": "nowhere"}]}, "nowhere"),
    ({"input": "x", "tools": [{"type": "mcp", "server_label": "till", "server_url": "http://x"}]}, "server_url"),
    ({"input": "x", "previous_response_id": "resp_none"}, "previous_response_id"),
    ({"input": "x", "ferrule": {"resume": "c"}}, "ferrule.resume"),
    ({"input": [{"type": "mcp_approval_response", "approval_request_id": "a", "approve": True}]}, "approval"),
    ({}, "input"),
]


@pytest.mark.parametrize("body, word", REFUSED)
def test_an_unsupported_request_is_refused_with_a_message_and_starts_nothing(body: dict[str, Any], word: str) -> None:
    async def story() -> None:
        engine = scripted_engine("never")
        async with gateway_of(engine, sources=[ToolLog().source()]) as client:
            refused = await client.post(PATH, body)
            assert (refused.status, refused.json()["error"]["type"]) == (400, "invalid_request_error")
            assert word in refused.json()["error"]["message"]
            assert engine.requests == []

    asyncio.run(story())


@pytest.mark.parametrize("after", ["x", "1.5", "-", "9" * 30])
def test_a_place_in_a_stream_that_is_no_number_is_refused(after: str) -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            id = (await client.post(PATH, {"input": "hi"})).json()["id"]
            assert (await client.get(f"{PATH}/{id}?stream=true&starting_after={after}")).status == 400

    asyncio.run(story())


@pytest.mark.parametrize("word, status", [("True", 200), ("1", 200), ("off", 200), ("perhaps", 400), ("", 400)])
def test_the_stream_parameter_takes_the_words_that_settings_take(word: str, status: int) -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            id = (await client.post(PATH, {"input": "hi"})).json()["id"]
            assert (await client.get(f"{PATH}/{id}?stream={word}")).status == status

    asyncio.run(story())


def test_what_went_into_a_response_is_listed_page_by_page() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            messages = [{"role": "user", "content": f"number {at}"} for at in range(5)]
            id = (await client.post(PATH, {"input": messages})).json()["id"]
            first = (await client.get(f"{PATH}/{id}/input_items?limit=3&order=asc")).json()
            rest = (await client.get(f"{PATH}/{id}/input_items?order=asc&after={first['last_id']}")).json()
            listed = [item["content"][0]["text"] for page in (first, rest) for item in page["data"]]
            assert listed == [one["content"] for one in messages]
            assert (first["has_more"], rest["has_more"]) == (True, False)

    asyncio.run(story())


def test_input_tokens_are_counted_with_the_history_and_the_gateway_s_tools() -> None:
    async def story() -> None:
        engine = scripted_engine("hello")
        counted: list[Any] = []

        async def count_tokens(request: Any) -> int:
            counted.append(request)
            return 7

        engine.count_tokens = count_tokens  # type: ignore[method-assign]
        async with gateway_of(engine, sources=[ToolLog().source()]) as client:
            id = (await client.post(PATH, {"input": "hi"})).json()["id"]
            body = {"input": "more", "previous_response_id": id, "instructions": "be brief"}
            response = (await client.post(f"{PATH}/input_tokens", body)).json()
            assert response == {"object": "response.input_tokens", "input_tokens": 7}
            messages = [words(message) for message in counted[0].messages]
            assert messages == ["be brief", "hi", "hello", "more"]
            assert [tool.name for tool in counted[0].tools] == ["look", "pay"]

    asyncio.run(story())


async def _one(client: Client, body: dict[str, Any]) -> Any:
    return (await client.post(PATH, body)).json()


def test_declared_servers_are_listed_first_and_only_what_they_allow_is_offered() -> None:
    async def story() -> None:
        engine = SteppingEngine(("look",))
        declared = {"type": "mcp", "server_label": "till", "allowed_tools": ["look"], "require_approval": "never"}
        async with gateway_of(engine, sources=[ToolLog().source()]) as client:
            body = await _one(client, {"input": "go", "tools": [declared]})
            assert [item["type"] for item in body["output"][:2]] == ["mcp_list_tools", "message"]
            assert [tool["name"] for tool in body["output"][0]["tools"]] == ["look"]
            assert all([tool.name for tool in request.tools] == ["look"] for request in engine.requests)
            everything = {"type": "mcp", "server_label": "ferrule", "require_approval": "never"}
            body = await _one(client, {"input": "go", "tools": [everything], "previous_response_id": body["id"]})
            assert [item["type"] for item in body["output"]] == ["message", "mcp_call", "message"]
            assert {tool.name for tool in engine.requests[-1].tools} == {"look", "pay"}

    asyncio.run(story())


def test_no_more_tools_are_called_than_the_client_allows() -> None:
    async def story() -> None:
        world, engine = ToolLog(), SteppingEngine(("look", "look", "look"))
        async with gateway_of(engine, sources=[world.source()]) as client:
            body = await _one(client, {"input": "go", "max_tool_calls": 2})
            assert world.calls == ["look 0", "look 1"]
            assert (body["status"], body["max_tool_calls"]) == ("completed", 2)

    asyncio.run(story())


def test_every_event_of_a_stream_has_its_name() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("hello")) as client:
            answered = await client.post(PATH, {"input": "hi", "stream": True})
            lines = answered.body.decode().splitlines()
            named = [line.removeprefix("event: ") for line in lines if line.startswith("event: ")]
            assert named == kinds(answered)
            assert answered.headers["content-type"].startswith("text/event-stream")

    asyncio.run(story())


def test_as_many_run_in_the_background_as_a_key_is_wide() -> None:
    async def story() -> None:
        narrow = config_with_keys(key("ann", width=1))
        async with gateway_of(EndlessEngine(), config=narrow) as client:
            body = {"input": "go", "background": True}
            first = await client.post(PATH, body, bearer("ann"))
            refused = await client.post(PATH, body, bearer("ann"))
            assert (first.status, refused.status) == (200, 429)
            await client.request("POST", f"{PATH}/{first.json()['id']}/cancel", headers=bearer("ann"))
            assert (await client.post(PATH, body, bearer("ann"))).status == 200

    asyncio.run(story())


def test_messages_of_a_conversation_are_stored_in_order() -> None:
    async def story() -> None:
        async with gateway_of(scripted_engine("one")) as client:
            id = (await _one(client, {"input": "a"}))["id"]
            record = await client.gateway.ledger.response(id)
            assert record is not None
            conversation = await client.gateway.ledger.load(record.conversation)
            assert conversation is not None
            messages = [ChatMessage.user("a"), Reply.of("one").as_message()]
            assert (record.reach, len(conversation.state["messages"])) == (len(messages), len(messages))

    asyncio.run(story())
