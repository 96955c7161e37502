"""The gateway as an MCP server for the protocol's own client over real HTTP, in both eras, and for another gateway."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from mcp import Client as McpClient
from mcp import MCPError, types
from mcp.client.streamable_http import streamable_http_client

from ferrule.run.executor import ToolSettings
from ferrule.server.config.config import ServerConfig
from ferrule.server.process.server import serve
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.servers import McpServers
from server.client import gateway_of, scripted_engine
from server.keys import bearer
from server.tool_world import World, world_of

pytestmark = pytest.mark.live
ERAS = {"auto": "2026-07-28", "2026-07-28": "2026-07-28", "legacy": "2025-11-25"}
FREE = ToolSettings(tools_require_confirmation_for_side_effects=False)


@asynccontextmanager
async def served(world: World) -> AsyncGenerator[str]:
    """The address of the world's gateway on a real port."""
    up: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    serving = asyncio.ensure_future(serve(world.client.app, ServerConfig(port=0), up.set_result))
    try:
        yield f"http://127.0.0.1:{await up}/mcp"
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


@asynccontextmanager
async def client(url: str, mode: str, who: str = "ann", **callbacks: Any) -> AsyncGenerator[McpClient]:
    async with (
        httpx2.AsyncClient(headers=bearer(who)) as web,
        McpClient(
            streamable_http_client(url, http_client=web), mode=mode, read_timeout_seconds=30, **callbacks
        ) as made,
    ):
        yield made


def living(story: Callable[[World, str], Coroutine[Any, Any, None]], **changes: Any) -> None:
    async def told() -> None:
        async with world_of(**changes) as world, served(world) as url:
            await story(world, url)

    asyncio.run(told())


@pytest.mark.parametrize("mode", ERAS)
def test_the_protocols_own_client_lists_and_calls_in_each_era(mode: str) -> None:
    async def story(world: World, url: str) -> None:
        async with client(url, mode) as mcp:
            assert mcp.protocol_version == ERAS[mode]
            listed = {tool.name: tool for tool in (await mcp.list_tools()).tools}
            assert sorted(listed) == ["fail", "look", "pay", "pay_slowly", "tell", "wait"]
            assert listed["look"].annotations is not None
            assert listed["look"].annotations.read_only_hint is True
            answer = await mcp.call_tool("look", {"place": "Bern"})
            assert (answer.is_error, answer.structured_content) == (False, {"place": "Bern", "seen": True})
            for name, arguments in (("look", {}), ("fly", {})):
                assert (await mcp.call_tool(name, arguments)).is_error
        async with client(url, mode, "rob") as mcp:
            assert [tool.name for tool in (await mcp.list_tools()).tools] == ["look"]

    living(story)


@pytest.mark.parametrize("mode", ERAS)
def test_progress_reaches_the_client_before_the_answer(mode: str) -> None:
    async def story(world: World, url: str) -> None:
        steps: list[float] = []

        async def heard(progress: float, total: float | None, message: str | None) -> None:
            steps.append(progress)

        async with client(url, mode) as mcp:
            answer = await mcp.call_tool("tell", {"steps": 3}, progress_callback=heard)
        assert isinstance(answer.content[0], types.TextContent)
        assert (answer.content[0].text, steps) == ("told", [1, 2, 3])

    living(story)


@pytest.mark.parametrize("mode", ERAS)
def test_a_call_that_changes_the_world_waits_and_runs_once_when_it_is_made_again(mode: str) -> None:
    async def story(world: World, url: str) -> None:
        async with client(url, mode) as mcp:
            waiting = await mcp.call_tool("pay", {"amount": 3})
            assert waiting.is_error
            assert waiting.meta is not None
            await world.decide(waiting.meta["ferrule.dev/approval"], approve=True)
            done = await mcp.call_tool("pay", {"amount": 3})
            assert isinstance(done.content[0], types.TextContent)
            assert (done.is_error, done.content[0].text) == (False, "paid 3")
            assert (await mcp.call_tool("pay", {"amount": 3})).is_error
        assert world.done["pay"] == 1

    living(story)


@pytest.mark.parametrize("says", [True, False])
def test_a_client_that_can_ask_its_user_does_and_his_word_is_kept(says: bool) -> None:
    asked: list[str] = []

    async def answer(context: Any, params: types.ElicitRequestParams) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action="accept", content={"approve": says})

    async def story(world: World, url: str) -> None:
        async with client(url, "auto", "boss", elicitation_callback=answer) as mcp:
            told = await mcp.call_tool("pay", {"amount": 3})
        assert told.is_error is not says
        assert asked == ['Allow pay with {"amount":3}?']
        assert world.done["pay"] == int(says)

    living(story)


@pytest.mark.parametrize("mode", ["2026-07-28", "legacy"])
def test_without_a_key_nobody_comes_in(mode: str) -> None:
    async def story(world: World, url: str) -> None:
        # The SDK wraps what fails inside of it in groups.
        with pytest.raises((MCPError, ExceptionGroup)):
            async with client(url, mode, "nobody") as mcp:
                await mcp.list_tools()

    living(story)


def test_a_gateway_behind_a_gateway_is_one_source_more() -> None:
    async def story(world: World, url: str) -> None:
        behind = McpServers([Server("inner", HttpTransport(url, bearer("ann")), trusted=True)])
        async with gateway_of(scripted_engine("hello"), sources=[behind]) as outer:

            async def call(name: str, arguments: Any, call_id: str) -> Any:
                body = {"name": name, "arguments": arguments, "call_id": call_id}
                return await outer.post("/v1/tools/call", body)

            tools = {one["name"]: one for one in (await outer.get("/v1/tools")).json()["data"]}
            assert (tools["inner_look"]["side_effects"], tools["inner_pay"]["side_effects"]) == (False, True)
            assert (await call("inner_look", {"place": "x"}, "a")).json()["content"] == {"place": "x", "seen": True}
            # Each gateway is one call deeper than the one before it.
            assert world.contexts[-1].hops == 4
            waiting = (await call("inner_pay", {"amount": 3}, "b")).json()
            await outer.post(f"/v1/approvals/{waiting['approval']['id']}", {"approve": True})
            for _ in range(3):
                assert (await call("inner_pay", {"amount": 3}, "b")).json()["content"] == "paid 3"
            assert world.done["pay"] == 1

    living(story, tools=FREE)
