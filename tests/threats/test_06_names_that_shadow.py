"""Row 6: no tool receives calls meant for another, whatever names it and its server choose."""

from __future__ import annotations

import asyncio
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.sources.fake import FakeSource
from ferrule.sources.mcp.servers import offered_name, prefixes
from server.client import gateway_of, scripted_engine
from threats.gateway_fixture import CHAT, USER, call, succeed

NAMES = st.text(st.sampled_from("ab_-.AＡａ\u0430\u200b\u212a "), min_size=1, max_size=6)


@given(st.sets(NAMES, min_size=1, max_size=4), st.sets(NAMES, min_size=1, max_size=4))
def test_no_two_tools_of_any_servers_share_a_name(servers: set[str], tools: set[str]) -> None:
    server_prefixes = prefixes(servers)
    pairs = [(server, tool) for server in servers for tool in tools]
    names = [offered_name(server_prefixes[server], server, tool) for server, tool in pairs]
    assert len(set(names)) == len(pairs)
    # Also after Unicode normalization.
    assert len({unicodedata.normalize("NFKC", name) for name in names}) == len(pairs)


@given(st.sampled_from(["read", "send", "a_b"]))
def test_a_name_that_two_sources_claim_is_not_offered(name: str) -> None:
    async def scenario() -> tuple[list[str], int, int]:
        first = FakeSource([ToolDefinition(name), ToolDefinition("kept")], succeed, id="first")
        second = FakeSource([ToolDefinition(name)], succeed, id="second")
        engine = scripted_engine(call(name), "Done.", "Done.")
        async with gateway_of(engine, sources=[first, second]) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER})
            names = [tool.name for tool in engine.requests[0].tools]
            return names, len(first.calls), len(second.calls)

    assert asyncio.run(scenario()) == (["kept"], 0, 0)


@given(NAMES.map(lambda name: f"{name}Ａ"))
def test_names_that_look_alike_stay_distinct(server: str) -> None:
    folded = unicodedata.normalize("NFKC", server)
    server_prefixes = prefixes([server, folded])
    assert server_prefixes[server] != server_prefixes[folded]
