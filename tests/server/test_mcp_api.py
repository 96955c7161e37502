"""`/mcp`: what a client of the MCP server sees, and that its calls follow the rules of all calls."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule import Media, ToolResult
from ferrule.dialects.mcp_server import HANDSHAKE, METHOD_NOT_FOUND, MODERN, RpcRequest
from ferrule.run.executor import ToolSettings
from ferrule.server.apis.mcp import first_open_number
from ferrule.server.apis.mcp_results import tool_call_result, without_header_keywords
from server.keys import bearer
from server.tool_world import World, run_story

_META = "io.modelcontextprotocol/"


async def modern(world: World, method: str, who: str = "ann", asks: bool = False, **params: Any) -> Any:
    """A result of the newer era."""
    capabilities = {"elicitation": {"form": {}}} if asks else {}
    meta = {f"{_META}protocolVersion": MODERN[0], f"{_META}clientCapabilities": capabilities}
    headers = {"mcp-protocol-version": MODERN[0], "mcp-method": method}
    named = {"mcp-name": params["name"]} if "name" in params else {}
    answer = await world.rpc(method, {**params, "_meta": {**params.get("_meta", {}), **meta}}, who, **headers, **named)
    return answer.json().get("result", answer.json())


async def call_tool(
    world: World, name: str, arguments: Any = None, who: str = "ann", meta: Mapping[str, Any] | None = None
) -> Any:
    """A result of the handshake's era."""
    params = {"name": name, "arguments": arguments or {}, "_meta": dict(meta or {})}
    return (await world.rpc("tools/call", params, who)).json()["result"]


def test_the_handshake_and_discovery_describe_the_server() -> None:
    async def story(world: World) -> None:
        result = (await world.rpc("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}})).json()["result"]
        assert (result["protocolVersion"], result["serverInfo"]["name"]) == ("2025-06-18", "ferrule")
        assert (await world.rpc("ping")).json()["result"] == {}
        discovery = await modern(world, "server/discover")
        assert discovery["supportedVersions"] == [*MODERN, *reversed(HANDSHAKE)]
        assert discovery["resultType"] == "complete"
        for method, era in (("ping", modern), ("resources/list", modern), ("initialize", modern)):
            assert (await era(world, method))["error"]["code"] == METHOD_NOT_FOUND
        missing = await world.rpc("server/discover")
        assert (missing.status, missing.json()["error"]["code"]) == (200, METHOD_NOT_FOUND)

    run_story(story)


def test_there_are_no_sessions_and_notifications_have_no_answer() -> None:
    async def story(world: World) -> None:
        for method in ("GET", "DELETE"):
            answer = await world.client.request(method, "/mcp", None, bearer("ann"))
            assert (answer.status, answer.headers["allow"]) == (405, "POST")
        noted = await world.client.post(
            "/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, bearer("ann")
        )
        assert (noted.status, noted.body) == (202, b"")
        nobody = await world.client.post("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
        assert (nobody.status, nobody.json()["error"]["data"]["code"]) == (401, "unauthenticated")

    run_story(story)


def test_tools_list_has_the_usable_tools_with_true_hints() -> None:
    async def story(world: World) -> None:
        for who, names in {"ann": ["fail", "look", "pay", "pay_slowly", "tell", "wait"], "rob": ["look"]}.items():
            for result in (
                (await world.rpc("tools/list", who=who)).json()["result"],
                await modern(world, "tools/list", who),
            ):
                assert [one["name"] for one in result["tools"]] == names
        hints = {
            one["name"]: one["annotations"]["readOnlyHint"] for one in (await modern(world, "tools/list"))["tools"]
        }
        assert (hints["look"], hints["pay"]) == (True, False)
        refused = await call_tool(world, "pay", {"amount": 1}, "rob")
        assert refused["isError"]
        assert refused["_meta"]["ferrule.dev/code"] == "token_scope_insufficient"

    run_story(story)


def test_a_call_is_answered_in_text_and_in_structure() -> None:
    async def story(world: World) -> None:
        for result in (
            await call_tool(world, "look", {"place": "x"}),
            await modern(world, "tools/call", name="look", arguments={"place": "x"}),
        ):
            assert result["structuredContent"] == {"place": "x", "seen": True}
            assert result["content"] == [{"type": "text", "text": '{"place": "x", "seen": true}'}]
            assert not result["isError"]
        for wrong in ({"name": "look", "arguments": []}, {"name": 3}, {}):
            assert (await world.rpc("tools/call", wrong)).json()["error"]["code"] == -32602
        for name, arguments in (("look", {}), ("fly", {})):
            result = await call_tool(world, name, arguments)
            assert (result["isError"], result["_meta"]["ferrule.dev/code"]) == (True, "bad_request")

    run_story(story)


def test_a_call_with_side_effects_names_its_approval_and_the_same_call_runs_it_once() -> None:
    async def story(world: World) -> None:
        waiting = [await call_tool(world, "pay", {"amount": 3}) for _ in range(2)]
        (approval,) = {one["_meta"]["ferrule.dev/approval"] for one in waiting}
        assert waiting[0]["isError"]
        assert approval in waiting[0]["content"][0]["text"]
        await world.decide(approval, approve=True)
        assert (await call_tool(world, "pay", {"amount": 3}))["content"][0]["text"] == "paid 3"
        # It has run; the same arguments are a new call, which needs its own approval.
        again = await call_tool(world, "pay", {"amount": 3})
        assert again["_meta"]["ferrule.dev/approval"] != approval
        assert world.done["pay"] == 1

    run_story(story)


def test_a_denial_is_returned_to_the_same_call_again() -> None:
    async def story(world: World) -> None:
        approval = (await call_tool(world, "pay", {"amount": 3}))["_meta"]["ferrule.dev/approval"]
        await world.decide(approval, approve=False, why="too much")
        for _ in range(2):
            result = await call_tool(world, "pay", {"amount": 3})
            assert (result["isError"], result["content"][0]["text"]) == (True, "denied: too much")
        assert (await call_tool(world, "pay", {"amount": 2}))["_meta"]["ferrule.dev/approval"]
        assert not world.done

    run_story(story)


def test_a_client_that_names_its_calls_has_each_run_once() -> None:
    async def story(world: World) -> None:
        keys = ("a/1", "a/1", "x" * 300, "x" * 300, "b")
        for key in keys:
            result = await call_tool(world, "pay", {"amount": 3}, meta={"ferrule.dev/idempotency-key": key})
            assert result["content"][0]["text"] == "paid 3"
        assert world.done["pay"] == 3

    run_story(story, tools=ToolSettings(tools_require_confirmation_for_side_effects=False))


def test_an_approver_is_asked_during_the_call() -> None:
    async def story(world: World) -> None:
        async def asked(**more: Any) -> Any:
            return await modern(world, "tools/call", "boss", True, name="pay", arguments={"amount": 3}, **more)

        first = await asked()
        assert first["resultType"] == "input_required"
        question = first["inputRequests"]["approval"]["params"]
        assert question["message"] == 'Allow pay with {"amount":3}?'
        yes = {"approval": {"action": "accept", "content": {"approve": True}}}
        done = await asked(requestState=first["requestState"], inputResponses=yes)
        assert (done["resultType"], done["content"][0]["text"]) == ("complete", "paid 3")
        assert world.done["pay"] == 1

    run_story(story)


@pytest.mark.parametrize(
    "answer, words",
    [
        ({"action": "accept", "content": {"approve": False}}, "denied"),
        ({"action": "accept", "content": {}}, "denied"),
        ({"action": "decline"}, "denied"),
        ({"action": "cancel"}, "requires_confirmation"),
        ({}, "requires_confirmation"),
    ],
)
def test_everything_but_a_yes_runs_nothing(answer: Any, words: str) -> None:
    async def story(world: World) -> None:
        params: dict[str, Any] = {"name": "pay", "arguments": {"amount": 3}}
        first = await modern(world, "tools/call", "boss", True, **params)
        back = {"requestState": first["requestState"], "inputResponses": {"approval": answer}}
        result = await modern(world, "tools/call", "boss", True, **params, **back)
        assert result["content"][0]["text"].startswith(words)
        assert not world.done

    run_story(story)


def test_a_forged_answer_without_the_right_to_approve_has_no_effect() -> None:
    async def story(world: World) -> None:
        params: dict[str, Any] = {"name": "pay", "arguments": {"amount": 3}}
        yes = {"approval": {"action": "accept", "content": {"approve": True}}}
        # Ann's client can ask her, but her key may not approve.
        first = await modern(world, "tools/call", "ann", True, **params)
        approval = first["_meta"]["ferrule.dev/approval"]
        for state in (approval, "never", "\x00"):
            result = await modern(world, "tools/call", "ann", True, **params, requestState=state, inputResponses=yes)
            assert result["isError"]
        # Eve may approve in her own tenant; Boss may, but answers for another call than the one shown.
        for who, more in (("eve", params), ("boss", params), ("boss", {**params, "arguments": {"amount": 9}})):
            result = await modern(world, "tools/call", who, True, **more, requestState=approval, inputResponses=yes)
            assert result.get("isError") or result["resultType"] == "input_required"
        assert not world.done
        discovery = await world.client.gateway.ledger.approval(approval)
        assert discovery is not None
        assert discovery.state.value == "pending"

    run_story(story)


def test_progress_is_sent_before_the_answer() -> None:
    async def story(world: World) -> None:
        body = {
            "jsonrpc": "2.0",
            "id": 5,
            "method": "tools/call",
            "params": {"name": "tell", "arguments": {"steps": 3}, "_meta": {"progressToken": "p"}},
        }
        result = await world.client.post(
            "/mcp", body, {**bearer("ann"), "accept": "application/json, text/event-stream"}
        )
        *steps, last = result.events()
        assert [one["params"]["progress"] for one in steps] == [1, 2, 3]
        assert {one["params"]["progressToken"] for one in steps} == {"p"}
        assert (last["id"], last["result"]["content"][0]["text"]) == (5, "told")
        plain = await world.client.post("/mcp", body, {**bearer("ann"), "accept": "application/json"})
        assert plain.json()["result"] == last["result"] | {"_meta": plain.json()["result"]["_meta"]}

    run_story(story)


def test_a_gateway_that_calls_itself_comes_to_an_end() -> None:
    async def story(world: World) -> None:
        await call_tool(world, "look", {"place": "x"}, meta={"ferrule.dev/hops": 2})
        assert world.contexts[-1].hops == 1
        for hops in (0, -3, "many"):
            result = await call_tool(world, "look", {"place": "x"}, meta={"ferrule.dev/hops": hops})
            assert result["_meta"]["ferrule.dev/code"] == "budget_exhausted"
        assert world.done["look"] == 1

    run_story(story)


def test_header_keywords_of_a_tools_own_server_are_hidden_from_clients() -> None:
    schema = {
        "type": "object",
        "properties": {
            "x-mcp-header": {"type": "string", "x-mcp-header": "Region"},
            "b": {"items": [{"x-mcp-header": "B"}]},
        },
        "default": {"x-mcp-header": 1},
    }
    assert without_header_keywords(schema) == {
        "type": "object",
        "properties": {"x-mcp-header": {"type": "string"}, "b": {"items": [{}]}},
        "default": {"x-mcp-header": 1},
    }


@given(st.integers(1, 5_000))
def test_the_first_that_is_not_over_is_found_in_few_steps(first: int) -> None:
    steps = 0

    async def is_over(number: int) -> bool:
        nonlocal steps
        steps += 1
        return number < first

    assert asyncio.run(first_open_number(is_over)) == first
    assert steps <= 2 * first.bit_length() + 2


def test_a_result_with_media_has_their_blocks() -> None:
    media = (
        Media("image", "image/png", data="AAAA"),
        Media("file", "application/pdf", data="AAAA", name="a b.pdf"),
        Media("file", url="https://example.com/a.pdf"),
    )
    result = tool_call_result(RpcRequest(1, "tools/call"), ToolResult("c1", "shoot", "the page", media=media))
    assert result["content"] == [
        {"type": "text", "text": "the page"},
        {"type": "image", "data": "AAAA", "mimeType": "image/png"},
        {"type": "resource", "resource": {"uri": "file:///a%20b.pdf", "blob": "AAAA", "mimeType": "application/pdf"}},
        {"type": "resource_link", "uri": "https://example.com/a.pdf", "name": "https://example.com/a.pdf"},
    ]


def test_half_of_a_surrogate_pair_in_the_name_of_a_file_does_not_fail_the_call() -> None:
    media = [Media("file", "application/pdf", data="AAAA", name="a\ud800.pdf")]
    result = tool_call_result(RpcRequest(1, "tools/call"), ToolResult("c1", "shoot", "", media=media))
    assert result["content"][0]["resource"]["uri"] == "file:///a%3F.pdf"
