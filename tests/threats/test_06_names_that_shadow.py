"""Row 6: no tool gets another's calls, whatever it and its server call themselves."""

from __future__ import annotations

import asyncio
import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.sources.fake import FakeSource
from ferrule.sources.mcp.names import prefixes, wire_name
from server.client import gateway_of, speaking
from threats.house import CHAT, USER, call, works

NAMES = st.text(st.sampled_from("ab_-.AＡａ\u0430\u200b\u212a "), min_size=1, max_size=6)


@given(st.sets(NAMES, min_size=1, max_size=4), st.sets(NAMES, min_size=1, max_size=4))
def test_no_two_tools_of_any_servers_share_a_name(servers: set[str], tools: set[str]) -> None:
    given_ = prefixes(servers)
    pairs = [(server, tool) for server in servers for tool in tools]
    named = [wire_name(given_[server], server, tool) for server, tool in pairs]
    assert len(set(named)) == len(pairs)
    # Nor when somebody folds what looks alike into one.
    assert len({unicodedata.normalize("NFKC", name) for name in named}) == len(pairs)


@given(st.sampled_from(["read", "send", "a_b"]))
def test_a_name_that_two_sources_claim_is_neither_s(name: str) -> None:
    async def scenario() -> tuple[list[str], int, int]:
        first = FakeSource([ToolDefinition(name), ToolDefinition("kept")], works, id="first")
        second = FakeSource([ToolDefinition(name)], works, id="second")
        engine = speaking(call(name), "Done.", "Done.")
        async with gateway_of(engine, sources=[first, second]) as client:
            await client.post(CHAT, {"model": "e0", "messages": USER})
            offered = [tool.name for tool in engine.requests[0].tools]
            return offered, len(first.called), len(second.called)

    assert asyncio.run(scenario()) == (["kept"], 0, 0)


@given(NAMES.map(lambda name: f"{name}Ａ"))
def test_names_that_look_alike_stay_two(server: str) -> None:
    folded = unicodedata.normalize("NFKC", server)
    named = prefixes([server, folded])
    assert named[server] != named[folded]
