"""A client that declares its API's own tool search: the gateway carries it out, in the shapes of that API."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import ALL_CHOICES, Traits
from ferrule.run.deferral import DeferralSettings
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from run.tool_sets import many_tools
from server.client import ClientResponse, gateway_of
from server.responses_world import check_stream, follow
from server.searching_engine import SearchingEngine

TOOLS = many_tools(60)
NOW = "get_weather_0"
WANTED = "get_stock_5"
BM25, REGEX = "tool_search_tool_bm25", "tool_search_tool_regex"


def anthropic_tools(search: str = BM25) -> list[dict[str, Any]]:
    entries = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters, "defer_loading": True}
        for tool in TOOLS
    ]
    entries[0]["defer_loading"] = False
    return [{"type": f"{search}_20251119", "name": search}, *entries]


def openai_tools() -> list[dict[str, Any]]:
    """One function that is not deferred, half of the others in a namespace."""
    functions = [
        {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.parameters}
        for tool in TOOLS
    ]
    first, *rest = functions
    rest = [{**one, "defer_loading": True} for one in rest]
    store = {"type": "namespace", "name": "store", "description": "All about the store.", "tools": rest[30:]}
    return [first, *rest[:30], store, {"type": "tool_search"}]


def engine_of(search: str, query: str = "stock number 5", wanted: str = WANTED) -> SearchingEngine:
    return SearchingEngine(wanted, query, search)


def loaded(request: ToolCallRequest) -> list[str]:
    return [tool.name for tool in request.tools]


def blocks_of(response: ClientResponse, *, streams: bool) -> list[dict[str, Any]]:
    assert response.status == 200, response.body
    if not streams:
        return response.json()["content"]
    blocks: list[dict[str, Any]] = []
    pieces = ""
    for event in response.events():
        match event["type"]:
            case "content_block_start":
                assert event["index"] == len(blocks)
                blocks.append(event["content_block"])
                pieces = ""
            case "content_block_delta" if event["delta"]["type"] == "input_json_delta":
                pieces += event["delta"]["partial_json"]
            case "content_block_delta":
                blocks[-1]["text"] += event["delta"]["text"]
            case "content_block_stop" if pieces:
                blocks[-1] = {**blocks[-1], "input": json.loads(pieces)}
                pieces = ""
            case _:
                pass
    return blocks


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("search, query", [(BM25, "stock number 5"), (REGEX, "(?i)STOCK_[5-9]")])
def test_anthropics_search_is_carried_out_and_its_blocks_are_read_back(search: str, query: str, streams: bool) -> None:
    engine = engine_of(search, query)

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            user = {"role": "user", "content": "go"}
            body = {"model": "e0", "max_tokens": 99, "tools": anthropic_tools(search), "stream": streams}
            first = await client.post("/v1/messages", {**body, "messages": [user]})
            assert "ferrule-ignored" not in first.headers
            content = blocks_of(first, streams=streams)
            assert [block["type"] for block in content] == [
                *("text", "server_tool_use", "tool_search_tool_result", "text", "tool_use")
            ]
            use, result = content[1:3]
            assert (use["name"], use["input"]) == (search, {"query": query})
            assert use["id"] == result["tool_use_id"]
            assert use["id"].startswith("srvtoolu_")
            references = result["content"]["tool_references"]
            assert {"type": "tool_reference", "tool_name": WANTED} in references
            assert content[-1]["name"] == WANTED
            done = {"type": "tool_result", "tool_use_id": content[-1]["id"], "content": "7"}
            messages = [user, {"role": "assistant", "content": content}, {"role": "user", "content": [done]}]
            last = await client.post("/v1/messages", {**body, "messages": messages})
            assert [block["text"] for block in blocks_of(last, streams=streams)] == ["Done 3."]

    asyncio.run(scenario())
    first, second, third = engine.requests
    # Only what the client does not defer, and the search. Then exactly what was found as well.
    assert loaded(first) == [NOW, search]
    assert WANTED in loaded(second)
    assert len(second.tools) <= 7
    assert third.messages[: len(second.messages)] == second.messages
    assert (third.tools, third.described_tools) == (second.tools, second.described_tools)


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("store", [False, True], ids=["direct", "stored"])
def test_openais_hosted_search_is_carried_out_and_its_items_are_read_back(streams: bool, store: bool) -> None:
    engine = engine_of("tool_search", wanted="store__get_stock_5")

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            user = {"role": "user", "content": "go"}
            body = {"model": "e0", "tools": openai_tools(), "store": store, "stream": streams}
            answer = await client.post("/v1/responses", {**body, "input": [user]})
            assert answer.status == 200, answer.body
            if streams:
                check_stream(answer.events())
            response = answer.events()[-1]["response"] if streams else answer.json()
            output = response["output"]
            kinds = ["message", "tool_search_call", "tool_search_output", "message", "function_call"]
            assert [item["type"] for item in output] == kinds
            call, found, made = output[1], output[2], output[4]
            assert [one["call_id"] for one in (call, found)] == [None, None]
            assert [one["execution"] for one in (call, found)] == ["server", "server"]
            assert call["arguments"] == {"query": "stock number 5"}
            (space,) = [entry for entry in found["tools"] if entry["type"] == "namespace"]
            assert (space["name"], space["description"]) == ("store", "All about the store.")
            assert WANTED in [tool["name"] for tool in space["tools"]]
            assert all(tool in openai_tools()[-2]["tools"] for tool in space["tools"])
            assert (made["namespace"], made["name"]) == ("store", WANTED)
            if store:
                assert (await follow(client, response["id"]))[-1]["response"] == response
            result = {"type": "function_call_output", "call_id": made["call_id"], "output": "7"}
            more = [result] if store else [user, *output, result]
            before = {"previous_response_id": response["id"]} if store else {}
            last = await client.post("/v1/responses", {**body, "input": more, "stream": False, **before})
            assert [item["type"] for item in last.json()["output"]] == ["message"]

    asyncio.run(scenario())
    first, second, third = engine.requests
    assert loaded(first) == [NOW, "tool_search"]
    assert "store (29): All about the store." in first.tools[1].description
    assert "store__get_stock_5" in loaded(second)
    assert third.described_tools == second.described_tools
    results = [[result.text for message in one.messages for result in message.results] for one in (second, third)]
    assert results[1][: len(results[0])] == results[0]


def test_a_deferred_function_in_no_namespace_is_called_with_its_own_name_as_one() -> None:
    engine = engine_of("tool_search", "song number 2", "get_song_2")

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            body = {"model": "e0", "tools": openai_tools(), "store": False}
            output = (await client.post("/v1/responses", {**body, "input": "go"})).json()["output"]
            made = output[-1]
            assert (made["namespace"], made["name"]) == ("get_song_2", "get_song_2")
            assert {"type": "function", "name": "get_song_2", "defer_loading": True}.items() <= next(
                tool for tool in output[2]["tools"] if tool["name"] == "get_song_2"
            ).items()
            result = {"type": "function_call_output", "call_id": made["call_id"], "output": "7"}
            items = [{"role": "user", "content": "go"}, *output, result]
            last = (await client.post("/v1/responses", {**body, "input": items})).json()
            assert last["output"][0]["content"][0]["text"] == "Done 3."

    asyncio.run(scenario())
    assert [call.name for message in engine.requests[-1].messages for call in message.tool_calls][-1] == "get_song_2"


@pytest.mark.parametrize("query", ["(", "(?=a)", "x" * 201])
def test_a_pattern_that_cannot_be_searched_is_an_error_in_the_answer(query: str) -> None:
    engine = engine_of(REGEX, query)

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            user = {"role": "user", "content": "go"}
            body = {"model": "e0", "max_tokens": 99, "tools": anthropic_tools(REGEX)}
            content = (await client.post("/v1/messages", {**body, "messages": [user]})).json()["content"]
            errors = [one["content"] for one in content if one["type"] == "tool_search_tool_result"]
            codes = [*["invalid_tool_input"] * 3, "too_many_requests"]
            assert errors == [{"type": "tool_search_tool_result_error", "error_code": code} for code in codes]
            again = [user, {"role": "assistant", "content": content}, user]
            assert (await client.post("/v1/messages", {**body, "messages": again})).status == 200

    asyncio.run(scenario())
    # The fourth has no search to call; this model calls it all the same.
    fourth, again = engine.requests[3:5]
    assert again.messages[: len(fourth.messages)] == fourth.messages


def test_a_search_that_the_client_did_not_declare_loads_what_it_found_and_names_nothing_else() -> None:
    engine = engine_of("none")

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            reference = {"type": "tool_reference", "tool_name": WANTED}
            content = [
                {"type": "server_tool_use", "id": "srvtoolu_1", "name": BM25, "input": {"query": "x"}},
                {
                    "type": "tool_search_tool_result",
                    "tool_use_id": "srvtoolu_1",
                    "content": {"type": "tool_search_tool_search_result", "tool_references": [reference]},
                },
                {"type": "text", "text": "Found it."},
            ]
            messages = [{"role": "user", "content": "go"}, {"role": "assistant", "content": content}]
            messages.append({"role": "user", "content": "on"})
            body = {"model": "e0", "max_tokens": 99, "tools": anthropic_tools()[1:], "messages": messages}
            assert (await client.post("/v1/messages", body)).status == 200

    asyncio.run(scenario())
    assert loaded(engine.requests[0]) == [NOW, WANTED]


def test_a_choice_of_a_deferred_tool_loads_it_and_shows_the_search() -> None:
    engine = engine_of(BM25)

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            choice = {"type": "tool", "name": WANTED}
            body = {"model": "e0", "max_tokens": 99, "tools": anthropic_tools(), "tool_choice": choice}
            answer = await client.post("/v1/messages", {**body, "messages": [{"role": "user", "content": "go"}]})
            kinds = [block["type"] for block in answer.json()["content"]]
            assert kinds == ["server_tool_use", "tool_search_tool_result", "text", "tool_use"]

    asyncio.run(scenario())


def test_more_tools_than_a_prompt_may_list_are_allowed_if_they_are_deferred() -> None:
    engine = engine_of(BM25)
    limits = GatewayLimits(tools=20, deferred_tools=61)
    config = Config(engines=(EngineConfig(name="e0", use="e0"),), limits=limits)

    async def scenario() -> None:
        async with gateway_of(engine, config=config) as client:
            body = {"model": "e0", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]}
            assert (await client.post("/v1/messages", {**body, "tools": anthropic_tools()})).status == 200
            plain = [{**tool, "defer_loading": False} for tool in anthropic_tools()[1:]]
            assert (await client.post("/v1/messages", {**body, "tools": plain})).status == 413
            extra = {**plain[0], "name": "one_more", "defer_loading": True}
            many = [*anthropic_tools(), extra, {**extra, "name": "two_more"}]
            assert (await client.post("/v1/messages", {**body, "tools": many})).status == 413

    asyncio.run(scenario())


def test_the_gateways_own_budget_holds_beside_the_clients_search() -> None:
    """A client that defers almost nothing does not fill a prompt beyond what the gateway allows."""
    engine = engine_of(BM25)
    config = Config(
        engines=(EngineConfig(name="e0", use="e0"),), tool_search=DeferralSettings(above_tokens=600, preselected=2)
    )

    async def scenario() -> None:
        async with gateway_of(engine, config=config) as client:
            search, *tools = anthropic_tools()
            plain = [{**tool, "defer_loading": tool["name"] == NOW} for tool in tools]
            body = {"model": "e0", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]}
            answer = await client.post("/v1/messages", {**body, "tools": [search, *plain]})
            assert answer.json()["content"][-1]["name"] == WANTED

    asyncio.run(scenario())
    assert loaded(engine.requests[0]) == [BM25]


def test_an_engine_that_searches_itself_gets_the_declaration() -> None:
    engine = engine_of("nothing")
    engine.traits = Traits(name="fake", honours=ALL_CHOICES, tool_search=True)

    async def scenario() -> None:
        async with gateway_of(engine) as client:
            body = {"model": "e0", "max_tokens": 99, "messages": [{"role": "user", "content": "go"}]}
            await client.post("/v1/messages", {**body, "tools": anthropic_tools()})

    asyncio.run(scenario())
    (request,) = engine.requests
    assert len(request.tools) == len(TOOLS)
    assert request.tool_search is not None
    assert len(request.tool_search.deferred) == len(TOOLS) - 1
