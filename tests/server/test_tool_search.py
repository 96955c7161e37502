"""A gateway in front of a model that gets far more tools than its prompt should list."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.message import Role
from ferrule.core.outcome import Answered
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.frames.client_frames import AskFrame, CallerResultFrame
from ferrule.dialects.frames.server_frames import CallFrame
from ferrule.engines.engine import Engine
from ferrule.run.deferral import DeferralSettings, first_query
from ferrule.server.config.config import Config, EngineConfig, GatewayLimits
from ferrule.sources.fake import FakeSource
from run.tool_sets import many_tools
from server.client import Client, ClientResponse, gateway_of
from server.keys import bearer, config_with_keys, key
from server.searching_engine import SearchingEngine
from server.websocket_client import connect

TOOLS = many_tools(200)
SEARCH = DeferralSettings(above_tokens=600, preselected=2)
CONFIG = Config(engines=(EngineConfig(name="e0", use="e0"),), tool_search=SEARCH)
ASKED = "Which song 3 is it? I need get_stock_7"
APIS = ("chat", "messages", "responses")


class Talk:
    """A client of one API that has its own tools, runs their calls and keeps its own history."""

    def __init__(self, client: Client, api: str, *, streams: bool, tools: tuple[ToolDefinition, ...] = TOOLS) -> None:
        self.client, self.api, self.streams = client, api, streams
        self._tools = [self._tool(tool) for tool in tools]
        self._items: list[Any] = [{"role": "user", "content": ASKED}]

    def _tool(self, tool: ToolDefinition) -> dict[str, Any]:
        match self.api:
            case "chat":
                return tool.as_function()
            case "messages":
                return {"name": tool.name, "description": tool.description, "input_schema": tool.parameters}
            case _:
                return {"type": "function", **tool.as_function()["function"]}

    async def send(self, **options: Any) -> ClientResponse:
        path = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}[self.api]
        messages = {"input": self._items, "store": False} if self.api == "responses" else {"messages": self._items}
        stream: dict[str, Any] = {"stream": True} if self.streams else {}
        if self.streams and self.api == "chat":
            stream["stream_options"] = {"include_usage": True}
        body = {"model": "e0", "max_tokens": 100, "tools": self._tools, **messages, **stream, **options}
        if self.api == "responses":
            body["max_output_tokens"] = body.pop("max_tokens")
        return await self.client.post(path, body)

    def calls(self, response: ClientResponse) -> list[tuple[str, str]]:
        """The ids and names of the calls in a response, which then stands in the history with their results."""
        assert response.status == 200, response.body
        found: dict[str, str] = {}
        match self.api:
            case "chat":
                message = self._chat_message(response)
                found = {call["id"]: call["function"]["name"] for call in message.get("tool_calls") or ()}
                self._items.append(message)
                self._items += [{"role": "tool", "tool_call_id": id, "content": "it is 7"} for id in found]
            case "messages":
                content = self._blocks(response)
                found = {block["id"]: block["name"] for block in content if block["type"] == "tool_use"}
                self._items.append({"role": "assistant", "content": content})
                results = [{"type": "tool_result", "tool_use_id": id, "content": "it is 7"} for id in found]
                self._items += [{"role": "user", "content": results}] if results else []
            case _:
                output = self._output(response)
                found = {item["call_id"]: item["name"] for item in output if item["type"] == "function_call"}
                self._items += output
                self._items += [{"type": "function_call_output", "call_id": id, "output": "it is 7"} for id in found]
        return list(found.items())

    def _chat_message(self, response: ClientResponse) -> dict[str, Any]:
        if not self.streams:
            return response.json()["choices"][0]["message"]
        message: dict[str, Any] = {"role": "assistant", "content": ""}
        calls: dict[int, dict[str, Any]] = {}
        for chunk in response.events():
            for choice in chunk["choices"]:
                message["content"] += choice["delta"].get("content") or ""
                for call in choice["delta"].get("tool_calls") or ():
                    own = calls.setdefault(call["index"], {"function": {"name": "", "arguments": ""}})
                    own |= {name: value for name, value in call.items() if name in ("id", "type")}
                    for name, text in call["function"].items():
                        own["function"][name] += text
        return {**message, "tool_calls": list(calls.values())} if calls else message

    def _blocks(self, response: ClientResponse) -> list[dict[str, Any]]:
        if not self.streams:
            return response.json()["content"]
        blocks: list[dict[str, Any]] = []
        for event in response.events():
            if event["type"] == "content_block_start":
                blocks.append(event["content_block"])
            elif event["type"] == "content_block_delta" and event["delta"]["type"] == "text_delta":
                blocks[-1]["text"] += event["delta"]["text"]
        return [{**one, "input": {"id": "3"}} if one["type"] == "tool_use" else one for one in blocks]

    def _output(self, response: ClientResponse) -> list[dict[str, Any]]:
        if not self.streams:
            return response.json()["output"]
        return next(one["response"]["output"] for one in response.events() if one["type"] == "response.completed")

    def tokens(self, response: ClientResponse) -> int:
        """How many tokens of prompts the response says it took."""
        match self.api:
            case "chat":
                body = response.events()[-1] if self.streams else response.json()
                return body["usage"]["prompt_tokens"]
            case "messages":
                body = response.events()[-2] if self.streams else response.json()
                return body["usage"]["input_tokens"]
            case _:
                body = response.events()[-1]["response"] if self.streams else response.json()
                return body["usage"]["input_tokens"]


def run(scenario: Callable[[Client], Coroutine[Any, Any, None]], engine: Engine, config: Config = CONFIG) -> None:
    async def inside() -> None:
        async with gateway_of(engine, config=config) as client:
            await scenario(client)

    asyncio.run(inside())


@pytest.mark.parametrize("streams", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("api", APIS)
def test_a_client_sees_only_the_calls_of_its_own_tools(api: str, streams: bool) -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        talk = Talk(client, api, streams=streams)
        response = await talk.send()
        assert [name for _, name in talk.calls(response)] == ["get_stock_7"]
        assert b"find_tools" not in response.body
        assert talk.tokens(response) == 200
        last = await talk.send()
        assert talk.calls(last) == []
        assert b"Done 3" in last.body

    run(scenario, engine)
    first, second, third = engine.requests
    assert len(first.tools) < 6
    # The client sent its history without the search, and the prompt begins as the one before.
    assert third.messages[: len(second.messages)] == second.messages
    assert third.tools == second.tools
    assert third.described_tools == second.described_tools


@pytest.mark.parametrize("api", APIS)
def test_another_gateway_continues_without_the_searches(api: str) -> None:
    first, second = SearchingEngine(), SearchingEngine()

    async def scenario() -> None:
        async with gateway_of(first, config=CONFIG) as client:
            talk = Talk(client, api, streams=False)
            talk.calls(await talk.send())
        async with gateway_of(second, config=CONFIG) as other:
            talk.client = other
            response = await talk.send()
            assert talk.calls(response) == []
            assert b"Done 1" in response.body

    asyncio.run(scenario())
    (request,) = second.requests
    assert "get_stock_7" in request.described_tools
    # It is described where it was called, not in the list at the front.
    assert request.tools[:3] == first.requests[0].tools[:3]
    assert [message.role.value for message in request.messages] == ["user", "assistant", "tool", "assistant", "tool"]


@pytest.mark.parametrize("api", APIS)
def test_by_default_every_tool_is_listed(api: str) -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        talk = Talk(client, api, streams=False)
        talk.calls(await talk.send())

    run(scenario, engine, Config(engines=CONFIG.engines))
    assert len(engine.requests[0].tools) == len(TOOLS)
    assert not engine.requests[0].described_tools


def test_an_engine_has_a_limit_of_its_own() -> None:
    def config(gateway: int, engine: int) -> Config:
        settings = replace(SEARCH, above_tokens=gateway)
        return Config(
            engines=(EngineConfig(name="e0", use="e0", tool_search_above_tokens=engine),), tool_search=settings
        )

    listed: dict[tuple[int, int], bool] = {}
    for gateway, own in ((600, -1), (600, 0), (0, 600), (0, -1), (100_000, 600)):
        engine = SearchingEngine()

        async def scenario(client: Client) -> None:
            talk = Talk(client, "chat", streams=False)
            talk.calls(await talk.send())

        run(scenario, engine, config(gateway, own))
        listed[gateway, own] = len(engine.requests[0].tools) == len(TOOLS)
    assert listed == {(600, -1): False, (600, 0): True, (0, 600): False, (0, -1): True, (100_000, 600): False}


def test_a_clients_own_find_tools_is_called_as_any_tool() -> None:
    own = ToolDefinition("find_tools", "Finds tools in the shed.", {"type": "object", "properties": {}})
    engine = SearchingEngine(wanted="find_tools")

    async def scenario(client: Client) -> None:
        talk = Talk(client, "chat", streams=False, tools=(*TOOLS, own))
        response = await talk.send(tool_choice={"type": "function", "function": {"name": "find_tools"}})
        assert [name for _, name in talk.calls(response)] == ["find_tools"]

    run(scenario, engine)
    assert "search_tools" in [tool.name for tool in engine.requests[0].tools]


@pytest.mark.parametrize("api", APIS)
def test_two_thousand_tools_of_a_client_are_served(api: str) -> None:
    engine = SearchingEngine()
    config = replace(CONFIG, limits=GatewayLimits(tools=2_000))

    async def scenario(client: Client) -> None:
        talk = Talk(client, api, streams=True, tools=many_tools(2_000))
        assert [name for _, name in talk.calls(await talk.send())] == ["get_stock_7"]

    run(scenario, engine, config)
    assert all(sum(tool.characters for tool in one.tools) < 8 * SEARCH.above_tokens for one in engine.requests)


def test_an_engine_that_dies_after_the_search_leaves_nothing_behind() -> None:
    engine = SearchingEngine()
    engine.fails_after_search = True

    async def scenario(client: Client) -> None:
        talk = Talk(client, "chat", streams=False)
        assert (await talk.send()).status >= 500
        assert [name for _, name in talk.calls(await talk.send())] == ["get_stock_7"]

    run(scenario, engine)


def test_a_search_that_finds_nothing_ends_in_an_answer() -> None:
    engine = SearchingEngine(wanted="nothing", query="zzz")

    async def scenario(client: Client) -> None:
        talk = Talk(client, "chat", streams=False)
        response = await talk.send()
        assert talk.calls(response) == []

    run(scenario, engine)
    assert 1 < len(engine.requests) <= 1 + SEARCH.searches


def test_tokens_are_counted_for_the_tools_that_are_listed() -> None:
    class Counting(SearchingEngine):
        async def count_tokens(self, request: ToolCallRequest) -> int:
            return len(request.tools)

    async def scenario(client: Client) -> None:
        talk = Talk(client, "messages", streams=False)
        body = {"model": "e0", "messages": [{"role": "user", "content": ASKED}]}
        tools = [{"name": one.name, "input_schema": one.parameters} for one in TOOLS]
        response = await talk.client.post("/v1/messages/count_tokens", {**body, "tools": tools})
        assert 0 < response.json()["input_tokens"] < 10

    run(scenario, Counting())


# Tools of the gateway.

KEYS = config_with_keys(key("ann", tools=("*",)), key("rob", tools=tuple(tool.name for tool in TOOLS[:150:3])))


def own_tools(engine: Engine, scenario: Callable[[Client], Coroutine[Any, Any, None]]) -> FakeSource:
    source = FakeSource(TOOLS, lambda name, arguments, context: Answered("it is 7"))

    async def inside() -> None:
        async with gateway_of(engine, sources=[source], config=replace(KEYS, tool_search=SEARCH)) as client:
            await scenario(client)

    asyncio.run(inside())
    return source


@pytest.mark.parametrize("api", APIS)
def test_the_gateways_own_tools_are_found_and_run(api: str) -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        path = {"chat": "/v1/chat/completions", "messages": "/v1/messages", "responses": "/v1/responses"}[api]
        asked = {"input": ASKED} if api == "responses" else {"messages": [{"role": "user", "content": ASKED}]}
        body = {"model": "e0", **asked, **({} if api == "responses" else {"max_tokens": 100})}
        response = await client.post(path, {**body, "ferrule": {"tools": "gateway"}}, bearer("ann"))
        assert response.status == 200, response.body
        assert b"Done 3" in response.body

    source = own_tools(engine, scenario)
    assert [name for name, _, _ in source.calls] == ["get_stock_7"]
    assert len(engine.requests[0].tools) < 6
    assert engine.requests[2].messages[: len(engine.requests[1].messages)] == engine.requests[1].messages


def test_what_a_key_may_not_use_is_not_found() -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        body = {"model": "e0", "messages": [{"role": "user", "content": ASKED}]}
        response = await client.post("/v1/chat/completions", body, bearer("rob"))
        assert response.status == 200, response.body

    source = own_tools(engine, scenario)
    allowed = {tool.name for tool in TOOLS[:150:3]}
    assert "get_stock_7" not in allowed
    assert source.calls == []
    assert {tool.name for one in engine.requests for tool in one.tools} <= {*allowed, "find_tools"}
    text = "".join(result.text for one in engine.requests for message in one.messages for result in message.results)
    assert "get_stock_7" not in text
    assert all("get_stock_7" not in tool.description for one in engine.requests for tool in one.tools)


def test_a_stored_response_keeps_its_searches() -> None:
    first, second = SearchingEngine(), SearchingEngine()
    tools = [{"type": "function", **tool.as_function()["function"]} for tool in TOOLS]

    async def scenario(ledger: str) -> None:
        config = replace(CONFIG, ledger=ledger)
        async with gateway_of(first, config=config) as client:
            body = {"model": "e0", "input": ASKED, "tools": tools}
            response = (await client.post("/v1/responses", body)).json()
            (call,) = [item for item in response["output"] if item["type"] == "function_call"]
        # Another process: its memory is empty.
        async with gateway_of(second, config=config) as client:
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "it is 7"}
            body = {"model": "e0", "input": [result], "tools": tools, "previous_response_id": response["id"]}
            answer = (await client.post("/v1/responses", body)).json()
            assert answer["output"][-1]["content"][0]["text"] == "Done 1."

    async def in_folder() -> None:
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            await scenario(f"{folder}/ledger.db")

    asyncio.run(in_folder())
    assert second.requests[0].messages[: len(first.requests[1].messages)] == first.requests[1].messages
    assert first_query(second.requests[0].messages) == ASKED
    assert second.requests[0].messages[-1].role is Role.TOOL


def test_a_client_on_a_websocket_sees_only_the_calls_of_its_own_tools() -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        body = {"messages": [{"role": "user", "content": ASKED}], "tools": [tool.as_function() for tool in TOOLS]}
        async with connect(client) as socket:
            await socket.send(AskFrame(body))
            call = await socket.until(CallFrame)
            assert isinstance(call.frame, CallFrame)
            assert call.frame.name == "get_stock_7"
            await socket.send(CallerResultFrame(call.turn, call.frame.id, "it is 7"))
            await socket.to_end()
            assert {one.name for one in socket.of(CallFrame)} == {"get_stock_7"}

    run(scenario, engine)
    assert engine.requests[2].messages[: len(engine.requests[1].messages)] == engine.requests[1].messages


def test_a_turn_that_dies_after_its_search_is_resumed() -> None:
    engine = SearchingEngine()
    engine.fails_after_search = True

    async def scenario(client: Client) -> None:
        headers = {**bearer("ann"), "idempotency-key": "k1"}
        body = {"model": "e0", "messages": [{"role": "user", "content": ASKED}], "ferrule": {"tools": "gateway"}}
        first = await client.post("/v1/chat/completions", body, headers)
        assert first.status >= 500
        second = await client.post("/v1/chat/completions", body, headers)
        assert second.status == 200, second.body
        assert b"Done" in second.body
        assert b"find_tools" not in second.json()["choices"][0]["message"]["content"].encode()

    source = own_tools(engine, scenario)
    assert [name for name, _, _ in source.calls] == ["get_stock_7"]


def test_an_answer_that_is_asked_for_again_is_the_same_answer() -> None:
    engine = SearchingEngine()

    async def scenario(client: Client) -> None:
        headers = {**bearer("ann"), "idempotency-key": "k1"}
        body = {"model": "e0", "messages": [{"role": "user", "content": ASKED}], "ferrule": {"tools": "gateway"}}
        first = (await client.post("/v1/chat/completions", body, headers)).json()
        second = (await client.post("/v1/chat/completions", body, headers)).json()
        assert first["choices"] == second["choices"]
        assert first["usage"] == second["usage"]

    source = own_tools(engine, scenario)
    assert len(source.calls) == 1
