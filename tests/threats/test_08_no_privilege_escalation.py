"""Row 8: a model has no rights of its own. Its calls run with the caller's scopes, in every API, to a bounded depth."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.context import DEFAULT_HOPS, CallContext
from ferrule.core.tool import ToolDefinition
from ferrule.errors import BudgetError
from ferrule.sources.fake import FakeSource
from server.client import gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from threats.gateway_fixture import CHAT, USER, call, succeed

TOOLS = ("a", "b", "c")


@settings(max_examples=20)
@given(st.sets(st.sampled_from([*TOOLS, "*"])), st.sampled_from(TOOLS), st.booleans())
def test_a_tool_runs_only_with_its_scope_for_models_and_clients(allowed: set[str], name: str, by_model: bool) -> None:
    async def scenario() -> tuple[list[str], list[str]]:
        source = FakeSource([ToolDefinition(name) for name in TOOLS], succeed)
        engine = scripted_engine(call(name), "Done.", "Done.")
        config = config_with_keys(key("ann", models=("*",), tools=tuple(allowed)))
        async with gateway_of(engine, sources=[source], config=config) as client:
            if by_model:
                await client.post(CHAT, {"model": "e0", "messages": USER}, bearer("ann"))
            else:
                await client.post("/v1/tools/call", {"name": name, "arguments": {}}, bearer("ann"))
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": name, "arguments": {}}}
                await client.post("/mcp", body, bearer("ann"))
            offered = [tool.name for request in engine.requests for tool in request.tools]
            return [name for name, _, _ in source.calls], offered

    called, offered = asyncio.run(scenario())
    is_allowed = "*" in allowed or name in allowed
    assert (name in called) == is_allowed
    assert "*" in allowed or set(offered) <= allowed


@pytest.mark.parametrize("wish", ["gateway", ["a"], ["a", "b"], "caller", "none"])
def test_requesting_the_gateways_tools_grants_no_scope(wish: object) -> None:
    async def scenario() -> list[str]:
        source = FakeSource([ToolDefinition(name) for name in TOOLS], succeed)
        engine = scripted_engine(call("a"), "Done.", "Done.")
        async with gateway_of(engine, sources=[source], config=config_with_keys(key("ann", tools=("b",)))) as client:
            body = {"model": "e0", "messages": USER, "ferrule": {"tools": wish}}
            await client.post(CHAT, body, bearer("ann"))
        return [name for name, _, _ in source.calls]

    assert asyncio.run(scenario()) == []


@pytest.mark.parametrize("header, hops", [("999999", DEFAULT_HOPS - 1), ("2", 1), (None, DEFAULT_HOPS - 1)])
def test_no_client_gets_more_hops_than_the_gateway_allows(header: str | None, hops: int) -> None:
    async def scenario() -> list[int]:
        source = FakeSource([ToolDefinition("a")], succeed)
        async with gateway_of(
            scripted_engine(), sources=[source], config=config_with_keys(key("ann", tools=("*",)))
        ) as client:
            headers = bearer("ann") | ({} if header is None else {"ferrule-hops": header})
            await client.post("/v1/tools/call", {"name": "a", "arguments": {}}, headers)
        return [context.hops for _, _, context in source.calls]

    assert asyncio.run(scenario()) == [hops]


@given(st.integers(0, 12))
def test_nested_tool_calls_are_bounded(depth: int) -> None:
    context = CallContext(hops=depth)
    for _ in range(depth):
        context = context.nested()
    with pytest.raises(BudgetError):
        context.nested()
