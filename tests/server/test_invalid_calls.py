"""A call that may not run never waits for a person, by whichever API it came: the model or the caller reads why."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.context import CallContext
from ferrule.core.reply import Reply
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.run.executor import ToolExecutor
from ferrule.schema.tool_decorator import tool
from ferrule.sources.functions import Functions
from server.keys import bearer
from server.tool_world import World, run_story
from server.websocket_client import connect

USER = [{"role": "user", "content": "Pay."}]
MCP = {"type": "mcp", "server_label": "ferrule", "require_approval": "always"}
REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": USER}),
    "chat, streamed": ("/v1/chat/completions", {"messages": USER, "stream": True}),
    "messages": ("/v1/messages", {"messages": USER, "max_tokens": 100}),
    "messages, streamed": ("/v1/messages", {"messages": USER, "max_tokens": 100, "stream": True}),
    "responses": ("/v1/responses", {"input": "Pay."}),
    "responses, streamed": ("/v1/responses", {"input": "Pay.", "stream": True}),
    "responses, approvals of the client": ("/v1/responses", {"input": "Pay.", "tools": [MCP]}),
}
INVALID = {
    "of another type": '{"amount": "three"}',
    "missing": "{}",
    "with more": '{"amount": 3, "to": "eve"}',
    "not an object": "[]",
    "not JSON": '{"amount": 3',
}


def _calling(arguments: str, name: str = "pay") -> list[Reply | str]:
    return [Reply.of(ToolCall("c1", FunctionCall(name, arguments))), "I see."]


async def _approvals(world: World) -> list[Any]:
    return (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]


@pytest.mark.parametrize("arguments", INVALID.values(), ids=INVALID)
@pytest.mark.parametrize("api", REQUESTS)
def test_an_invalid_call_of_the_model_raises_no_approval(api: str, arguments: str) -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS[api]
        answer = await world.client.post(path, body, bearer("ann"))
        assert answer.status == 200, answer.body
        assert b"I see." in answer.body
        assert await _approvals(world) == []
        assert world.done["pay"] == 0

    run_story(story, replies=_calling(arguments))


def test_an_invalid_call_raises_no_approval_on_a_websocket() -> None:
    async def story(world: World) -> None:
        async with connect(world.client, bearer("ann")) as socket:
            await socket.send(AskFrame({"messages": USER}))
            await socket.to_end()
            assert "invalid_arguments" in str(socket.frames)
        assert await _approvals(world) == []

    run_story(story, replies=_calling(INVALID["of another type"]))


@pytest.mark.parametrize("arguments", INVALID.values(), ids=INVALID)
def test_an_invalid_call_raises_no_approval_over_the_tools_api_and_mcp(arguments: str) -> None:
    async def story(world: World) -> None:
        assert (await world.call("pay", arguments)).status == 400
        params = {"name": "pay", "arguments": {"amount": "three"}}
        answer = await world.rpc("tools/call", params)
        assert "requires_confirmation" not in answer.body.decode()
        assert await _approvals(world) == []

    run_story(story)


def test_a_valid_call_beside_an_invalid_one_waits_alone() -> None:
    async def story(world: World) -> None:
        await world.client.post("/v1/chat/completions", {"messages": USER}, bearer("ann"))
        assert [one["arguments"] for one in await _approvals(world)] == ['{"amount":3}']

    calls = (ToolCall("c1", FunctionCall("pay", "{}")), ToolCall("c2", FunctionCall("pay", '{"amount": 3}')))
    run_story(story, replies=[Reply.of(*calls), "Done."])


def test_a_call_that_no_longer_fits_its_tool_is_refused_when_the_conversation_resumes() -> None:
    async def story(world: World) -> None:
        path, body = REQUESTS["chat"]
        first = (await world.client.post(path, body, bearer("ann"))).json()
        waiting = next(one["waiting"] for one in first["ferrule"]["events"] if "waiting" in one)
        tools = world.client.gateway.tool_catalog.tools
        schema = {"type": "object", "properties": {"amount": {"type": "string"}}, "required": ["amount"]}
        world.client.gateway.tool_catalog.tools = {**tools, "pay": replace(tools["pay"], parameters=schema)}
        resume = {"messages": USER, "ferrule": {"resume": waiting["conversation"]}}
        answer = await world.client.post(path, resume, bearer("ann"))
        assert b"I see." in answer.body
        assert b"invalid_arguments" in answer.body
        late = await world.decide(waiting["approvals"][0], approve=True)
        assert late.status == 409
        assert world.done["pay"] == 0

    run_story(story, replies=_calling('{"amount": 3}'))


def test_dispatch_reports_an_invalid_call_before_it_asks_for_confirmation() -> None:
    @tool(side_effects=True)
    def pay(amount: int) -> str:
        """Pays."""
        return str(amount)

    async def run() -> tuple[str, str]:
        executor = ToolExecutor(Functions([pay]))
        await executor.refresh()
        invalid = await executor.dispatch(ToolCall("c", FunctionCall("pay", "{}")), CallContext())
        valid = await executor.dispatch(ToolCall("c", FunctionCall("pay", '{"amount": 1}')), CallContext())
        return invalid.text, valid.text

    invalid, valid = asyncio.run(run())
    assert invalid.startswith("invalid_arguments")
    assert valid.startswith("requires_confirmation")
