"""Row 8: a model has no rights. What it asks for runs with the caller's, on every way in, and no deeper."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.context import DEFAULT_HOPS, CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.errors import BudgetError
from ferrule.sources.fake import FakeSource
from server.client import gateway_of, speaking
from server.keys import bearer, key, keyed
from threats.house import CHAT, USER, call, works

TOOLS = ("a", "b", "c")


@settings(max_examples=20)
@given(st.sets(st.sampled_from([*TOOLS, "*"])), st.sampled_from(TOOLS), st.booleans())
def test_a_tool_runs_only_with_the_right_to_it_whoever_asks(may: set[str], wanted: str, by_model: bool) -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        source = FakeSource([ToolDefinition(name) for name in TOOLS], works)
        engine = speaking(call(wanted), "Done.", "Done.")
        config = keyed(key("ann", models=("*",), tools=tuple(may)))
        async with gateway_of(engine, sources=[source], config=config) as client:
            if by_model:
                await client.post(CHAT, {"model": "e0", "messages": USER}, bearer("ann"))
            else:
                await client.post("/v1/tools/call", {"name": wanted, "arguments": {}}, bearer("ann"))
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": wanted, "arguments": {}}}
                await client.post("/mcp", body, bearer("ann"))
            offered = [tool.name for request in engine.requests for tool in request.tools]
            return [name for name, _, _ in source.called], offered

    called, offered = asyncio.run(scenario())
    is_allowed = "*" in may or wanted in may
    assert (wanted in called) == is_allowed
    assert "*" in may or set(offered) <= may


@pytest.mark.parametrize("wish", ["gateway", ["a"], ["a", "b"], "caller", "none"])
def test_asking_for_the_gateways_tools_gives_no_right_to_them(wish: object) -> None:
    async def scenario() -> list[str]:
        source = FakeSource([ToolDefinition(name) for name in TOOLS], works)
        engine = speaking(call("a"), "Done.", "Done.")
        async with gateway_of(engine, sources=[source], config=keyed(key("ann", tools=("b",)))) as client:
            body = {"model": "e0", "messages": USER, "ferrule": {"tools": wish}}
            await client.post(CHAT, body, bearer("ann"))
        return [name for name, _, _ in source.called]

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize("asked, given_", [("999999", DEFAULT_HOPS - 1), ("2", 1), (None, DEFAULT_HOPS - 1)])
def test_nobody_is_given_more_depth_than_the_gateway_has(asked: str | None, given_: int) -> None:
    async def scenario() -> list[int]:
        source = FakeSource([ToolDefinition("a")], works)
        async with gateway_of(speaking(), sources=[source], config=keyed(key("ann", tools=("*",)))) as client:
            headers = bearer("ann") | ({} if asked is None else {"ferrule-hops": asked})
            await client.post("/v1/tools/call", {"name": "a", "arguments": {}}, headers)
        return [context.hops for _, _, context in source.called]

    assert asyncio.run(scenario()) == [given_]


@given(st.integers(0, 12))
def test_tools_that_call_tools_come_to_an_end(depth: int) -> None:
    context = CallContext(hops=depth)
    for _ in range(depth):
        context = context.deeper()
    with pytest.raises(BudgetError):
        context.deeper()
