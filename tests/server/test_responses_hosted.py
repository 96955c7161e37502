"""Tools of OpenAI's service that the gateway binds to tools of its own."""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.run.approval_policy import ApprovalRule
from ferrule.server.config.config import Config, HostedConfig, KeyConfig
from server.client import Client, gateway_of
from server.responses_world import PATH, ToolLog, items, text_of
from server.responses_world import config as responses_config
from server.test_responses_mixed_tools import FUNCTION, RoundEngine, create, output, results_of

SEARCH: dict[str, Any] = {"type": "web_search", "external_web_access": False}
MCP = {"type": "mcp", "server_label": "till", "require_approval": "never", "allowed_tools": ["look"]}


def bound(tool: str = "look", ledger: Path | str = "", **more: Any) -> Config:
    return responses_config(str(ledger), hosted=HostedConfig(web_search=tool), **more)


async def ask(client: Client, *tools: dict[str, Any], **more: Any) -> Any:
    answer = await client.post(PATH, {"input": "go", "tools": [*tools], **more})
    assert answer.status == 200, answer.body
    return answer


@pytest.mark.parametrize(
    "type", ["web_search", "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11"]
)
@pytest.mark.parametrize("store", [True, False])
def test_a_search_of_the_service_runs_the_tool_that_it_is_bound_to(type: str, store: bool) -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",))
        async with gateway_of(engine, sources=[log.source()], config=bound()) as client:
            search = {**SEARCH, "type": type}
            answer = await ask(client, search, FUNCTION, store=store)
            response = answer.json()
            (call,) = items(response, "mcp_call")
            assert (call["server_label"], call["name"], call["output"]) == ("till", "look", "seen 0")
            assert (text_of(response), log.calls) == ("All done.", ["look 0"])
            # What the client declared comes back as it was, and no list of a server that it never named.
            assert [one["type"] for one in response["tools"]] == ["function", type]
            assert search in response["tools"]
            assert items(response, "mcp_list_tools") == []
            assert {tool.name for tool in engine.requests[0].tools} == {"look", "ask_user"}
            # Nothing of the entry reaches the tool, and the client is told so.
            assert answer.headers["ferrule-ignored"] == "tools[].external_web_access"

    asyncio.run(story())


@pytest.mark.parametrize("stream", [False, True])
def test_the_clients_calls_in_the_same_round_are_still_its_own(stream: bool) -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look", "ask_user"))
        async with gateway_of(engine, sources=[log.source()], config=bound()) as client:
            first = await create(client, "go", tools=[SEARCH, FUNCTION], stream=stream)
            (mine,) = items(first, "function_call")
            assert (mine["name"], log.calls) == ("ask_user", ["look 0"])
            more = {"tools": [SEARCH, FUNCTION], "previous_response_id": first["id"], "stream": stream}
            second = await create(client, [output(mine["call_id"])], **more)
            assert text_of(second) == "All done."
            assert results_of(engine) == [("call_0_0", "seen 0"), ("call_0_1", "yes")]

    asyncio.run(story())


def test_what_is_not_bound_or_not_offered_is_left_out() -> None:
    async def story() -> None:
        for config in (responses_config(), bound("search_elsewhere")):
            log, engine = ToolLog(), RoundEngine()
            async with gateway_of(engine, sources=[log.source()], config=config) as client:
                answer = await ask(client, SEARCH, FUNCTION)
                assert answer.headers["ferrule-ignored"] == "tools[]=web_search"
                assert [tool.name for tool in engine.requests[0].tools] == ["ask_user"]
                refused = await client.post(
                    PATH, {"input": "go", "tools": [SEARCH, FUNCTION], "tool_choice": {"type": "web_search"}}
                )
                assert refused.status == 400

    asyncio.run(story())


def test_a_key_reaches_a_bound_tool_only_with_the_right_to_use_it() -> None:
    def key(name: str, *tools: str) -> KeyConfig:
        return KeyConfig(name=name, sha256=hashlib.sha256(name.encode()).hexdigest(), tools=tools)

    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",))
        config = replace(bound(), keys=(key("ann", "look"), key("bob", "pay")))
        async with gateway_of(engine, sources=[log.source()], config=config) as client:
            body = {"input": "go", "tools": [SEARCH, FUNCTION]}
            ann = await client.post(PATH, body, {"authorization": "Bearer ann"})
            assert (ann.status, log.calls) == (200, ["look 0"])
            bob = await client.post(PATH, body, {"authorization": "Bearer bob"})
            assert bob.headers["ferrule-ignored"] == "tools[]=web_search"
            assert [tool.name for tool in engine.requests[-1].tools] == ["ask_user"]
            assert log.calls == ["look 0"]

    asyncio.run(story())


def test_a_restriction_of_the_search_is_refused_since_no_tool_would_keep_it() -> None:
    async def story() -> None:
        async with gateway_of(RoundEngine(), sources=[ToolLog().source()], config=bound()) as client:
            search = {"type": "web_search", "filters": {"allowed_domains": ["docs.example"]}}
            refused = await client.post(PATH, {"input": "go", "tools": [search]})
            assert refused.status == 400
            assert "tools[0].filters" in refused.json()["error"]["message"]

    asyncio.run(story())


def test_a_choice_of_the_search_is_a_choice_of_its_tool() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",))
        async with gateway_of(engine, sources=[log.source()], config=bound()) as client:
            await ask(client, SEARCH, FUNCTION, tool_choice={"type": "web_search"})
            assert engine.requests[0].tool_choice.names == ("look",)
            subset = {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "web_search"}]}
            await ask(client, SEARCH, FUNCTION, tool_choice=subset)
            assert engine.requests[-1].tool_choice.names == ("look",)

    asyncio.run(story())


def test_a_tool_with_side_effects_waits_for_approval_as_ever() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("pay",))
        async with gateway_of(engine, sources=[log.source()], config=bound("pay")) as client:
            response = (await ask(client, SEARCH, FUNCTION)).json()
            (request,) = items(response, "mcp_approval_request")
            assert (request["name"], log.calls) == ("pay", [])
            approval = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
            more = {"tools": [SEARCH, FUNCTION], "previous_response_id": response["id"]}
            ended = (await client.post(PATH, {"input": [approval], **more})).json()
            assert (ended["status"], log.calls) == ("completed", ["pay 0"])

    asyncio.run(story())


def test_an_approval_policy_covers_a_bound_tool() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",))
        config = bound(approvals=(ApprovalRule(name="look", tools=("look",)),))
        async with gateway_of(engine, sources=[log.source()], config=config) as client:
            response = (await ask(client, SEARCH)).json()
            assert [one["name"] for one in items(response, "mcp_approval_request")] == ["look"]
            assert log.calls == []

    asyncio.run(story())


def test_a_server_and_a_bound_search_of_the_same_tool_are_one_tool() -> None:
    async def story() -> None:
        log, engine = ToolLog(), RoundEngine(("look",))
        async with gateway_of(engine, sources=[log.source()], config=bound()) as client:
            approved = {**MCP, "require_approval": "always"}
            response = (await ask(client, SEARCH, approved)).json()
            # The stricter of the two counts, whichever comes first.
            assert [one["name"] for one in items(response, "mcp_approval_request")] == ["look"]
            assert [tool.name for tool in engine.requests[0].tools] == ["look"]
            assert log.calls == []

    asyncio.run(story())


@pytest.mark.parametrize("type", [[], {}, ["web_search"], 1, None, True], ids=repr)
def test_a_type_that_is_no_text_is_refused(type: object) -> None:
    async def story() -> None:
        async with gateway_of(RoundEngine(), sources=[ToolLog().source()], config=bound()) as client:
            refused = await client.post(PATH, {"input": "go", "tools": [{"type": type}]})
            assert refused.status == 400, refused.body
            choice = {"input": "go", "tools": [SEARCH], "tool_choice": {"type": type}}
            refused = await client.post(PATH, choice)
            assert refused.status == 400, refused.body

    asyncio.run(story())


def test_no_client_can_name_a_binding_as_a_server() -> None:
    async def story() -> None:
        async with gateway_of(RoundEngine(), sources=[ToolLog().source()], config=bound()) as client:
            server = {"type": "mcp", "server_label": "hosted.web_search", "require_approval": "never"}
            refused = await client.post(PATH, {"input": "go", "tools": [server]})
            assert (refused.status, "hosted." in refused.json()["error"].get("hint", "")) == (400, False)

    asyncio.run(story())
