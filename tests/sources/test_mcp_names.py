"""Names of MCP tools: no two tools share one, whatever the servers and tools are called."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from ferrule.core.tool import ToolDefinition
from ferrule.sources.mcp.servers import LONGEST_NAME, offered_name, prefixes

# Few letters, so that names are often prefixes of each other.
awkward = st.text("ab_-", min_size=1, max_size=5)
anything = st.text(min_size=1, max_size=80)
servers = st.lists(awkward | anything, min_size=1, max_size=6, unique=True)
tools = st.lists(awkward | anything, min_size=1, max_size=6, unique=True)


@given(servers, tools)
@example(["a", "a_"], ["b", "_b"])
@example(["a", "a_b"], ["c", "b_c"])
@example(["my_server", "my"], ["server_tool", "tool"])
@example(["ä", "a"], ["b"])
@example(["K", "\u212a"], ["b"])
def test_no_two_tools_share_a_name(servers: list[str], tools: list[str]) -> None:
    server_prefixes = prefixes(servers)
    names = [offered_name(server_prefixes[server], server, tool) for server in servers for tool in tools]
    assert len(set(names)) == len(servers) * len(tools)


@given(servers, anything | awkward)
def test_a_name_is_one_that_every_provider_takes(servers: list[str], tool: str) -> None:
    server_prefixes = prefixes(servers)
    for server in servers:
        name = offered_name(server_prefixes[server], server, tool)
        assert len(name) <= LONGEST_NAME
        assert re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]*", name)
        assert ToolDefinition(name).name == name


@given(servers, awkward)
def test_a_name_does_not_depend_on_the_order_of_the_servers(servers: list[str], tool: str) -> None:
    forth, back = prefixes(servers), prefixes(reversed(servers))
    assert forth == back


@given(servers)
def test_with_its_underscore_no_prefix_begins_with_another(servers: list[str]) -> None:
    server_prefixes = list(prefixes(servers).values())
    assert len(set(server_prefixes)) == len(servers)
    assert not any(a != b and f"{a}_".startswith(f"{b}_") for a in server_prefixes for b in server_prefixes)


def test_the_common_case_is_server_and_tool_joined() -> None:
    server_prefixes = prefixes(["files", "my_server", "web-2"])
    assert server_prefixes == {"files": "files", "my_server": "my_server", "web-2": "web-2"}
    assert offered_name("files", "files", "read_file") == "files_read_file"
    assert offered_name("my_server", "my_server", "get-sum") == "my_server_get-sum"


def test_a_server_that_is_called_like_a_made_up_prefix_does_not_get_in_its_way() -> None:
    made_up = prefixes(["a", "a_b"])["a_b"]
    server_prefixes = prefixes(["a", "a_b", made_up, f"{made_up}_c"])
    assert len(set(server_prefixes.values())) == 4
    assert server_prefixes[made_up] == made_up
    assert server_prefixes["a_b"] != made_up
