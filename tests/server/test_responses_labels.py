"""The labels by which clients of the Responses API name the gateway's tools, also of wrapped sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolDefinition
from ferrule.cli.pins_file import PinsFile
from ferrule.cli.serve_sources import PinnedServers
from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.reply import Reply
from ferrule.run.executor import ToolSettings
from ferrule.server.apis.responses.labels import Labels
from ferrule.server.tool_catalog import ToolCatalog
from ferrule.sources.adapters import ApprovalAdapter, FilterAdapter, PrefixAdapter, TimeoutAdapter
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.fake import FakeSource
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.source import Source
from ferrule.sources.status import SourceStatus
from server.client import gateway_of, scripted_engine
from server.responses_world import PATH, ToolLog, config, items
from sources.mcp_servers import SWIFT, plain, tool

READ, SEND, OTHER = ToolDefinition("read"), ToolDefinition("send"), ToolDefinition("other")


class Servers(FakeSource):
    """Two servers as one source."""

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        return SourceStatus("files", "mcp", tools=("read",)), SourceStatus("mail", "mcp", tools=("send",))


def hosts(*sources: Source) -> dict[str, list[str]]:
    async def told() -> dict[str, list[str]]:
        tool_catalog = ToolCatalog(CombinedSources(sources), ToolSettings())
        await tool_catalog.refresh()
        hosts = Labels(tool_catalog).hosts(Principal("ann"))
        return {label: [one.definition.name for one in tools] for label, tools in hosts.items()}

    return asyncio.run(told())


PANES: dict[str, Callable[[Source], Source]] = {
    "none": lambda source: source,
    "one": ApprovalAdapter,
    "two": lambda source: TimeoutAdapter(ApprovalAdapter(source), 5),
}


@pytest.mark.parametrize("pane", PANES.values(), ids=PANES)
def test_each_server_is_a_label_however_its_source_is_wrapped(pane: Callable[[Source], Source]) -> None:
    servers = pane(Servers([READ, SEND], id="mcp"))
    assert hosts(servers, FakeSource([OTHER], id="till")) == {
        "files": ["read"],
        "mail": ["send"],
        "till": ["other"],
        "ferrule": ["other", "read", "send"],
    }


def test_labels_follow_other_names_and_what_is_left_out() -> None:
    servers = Servers([READ, SEND], id="mcp")
    assert hosts(PrefixAdapter(servers)) == {
        "files": ["mcp_read"],
        "mail": ["mcp_send"],
        "ferrule": ["mcp_read", "mcp_send"],
    }
    assert hosts(FilterAdapter(servers, lambda one: one == SEND)) == {"mail": ["send"], "ferrule": ["send"]}


def test_a_name_that_two_sources_claim_has_no_label() -> None:
    tools = hosts(Servers([READ, SEND], id="mcp"), FakeSource([READ, OTHER], id="till"))
    assert tools == {"mail": ["send"], "till": ["other"], "ferrule": ["other", "send"]}


@pytest.mark.parametrize("is_pinned", [False, True])
def test_a_client_names_a_server_with_and_without_pins(is_pinned: bool, tmp_path: Path) -> None:
    async def story() -> None:
        two = [plain("files", [tool("read")], trusted=True), plain("mail", [tool("send")], trusted=True)]
        servers = McpServers(two, options=SWIFT, settle_seconds=60)
        source: Source = PinnedServers(servers, PinsFile(tmp_path / "pins.json")) if is_pinned else servers
        engine = scripted_engine(Reply.of(ToolCall.of("mail_send", {}, "k")), "Sent.")
        async with gateway_of(engine, sources=[source, ToolLog().source()], config=config(confirms=False)) as client:
            declared: dict[str, Any] = {"type": "mcp", "server_label": "mail", "require_approval": "never"}
            answer = await client.post(PATH, {"input": "Send it.", "tools": [declared]})
            assert answer.status == 200, answer.body
            (called,) = items(answer.json(), "mcp_call")
            assert (called["server_label"], called["name"]) == ("mail", "mail_send")
            (listed,) = items(answer.json(), "mcp_list_tools")
            assert [one["name"] for one in listed["tools"]] == ["mail_send"]
            assert [one.name for one in engine.requests[0].tools] == ["mail_send"]

    asyncio.run(story())


def test_what_is_computed_of_the_tools_is_kept_until_a_refresh_finds_others() -> None:
    read = ToolDefinition("read", "Reads.", {"type": "object", "properties": {"path": {"type": "string"}}})
    ann, ben = Principal("ann"), Principal("ben", scopes=frozenset({"read"}))

    class Changing(Servers):
        offered: tuple[ToolDefinition, ...] = (read, SEND)

        async def tools(self) -> tuple[ToolDefinition, ...]:
            return self.offered

    async def kept() -> None:
        source = Changing([])
        tool_catalog = ToolCatalog(CombinedSources([source]), ToolSettings())
        await tool_catalog.refresh()
        labels = Labels(tool_catalog)
        tools, of_ann, of_ben = tool_catalog.tools, labels.hosts(ann), labels.hosts(ben)
        assert [*of_ann] == ["files", "mail", "ferrule"]
        assert [*of_ben] == ["files", "ferrule"]
        await tool_catalog.refresh()
        assert tool_catalog.tools is tools
        assert labels.hosts(ann) is of_ann
        assert labels.hosts(ben) is of_ben
        source.offered = (read, SEND, OTHER)
        await tool_catalog.refresh()
        assert "other" in tool_catalog.tools
        assert [tool.definition.name for tool in labels.hosts(ann)["ferrule"]] == ["read", "send", "other"]
        source.offered = (ToolDefinition("read", "Reads a file.", read.parameters), SEND)
        await tool_catalog.refresh()
        assert tool_catalog.tools["read"].description == "Reads a file."
        assert labels.hosts(ben)["files"][0].definition.description == "Reads a file."

    asyncio.run(kept())


def test_a_tool_that_moved_to_another_server_has_that_servers_label() -> None:
    class Moving(Servers):
        at = "files"

        @property
        def statuses(self) -> tuple[SourceStatus, ...]:
            return (SourceStatus(self.at, "mcp", tools=("read",)),)

    async def labels_of_both() -> list[list[str]]:
        source = Moving([READ])
        tool_catalog = ToolCatalog(CombinedSources([source]), ToolSettings())
        labels = Labels(tool_catalog)
        told: list[list[str]] = []
        for source.at in ("files", "mail"):
            await tool_catalog.refresh()
            told.append([*labels.hosts(Principal("ann"))])
        return told

    assert asyncio.run(labels_of_both()) == [["files", "ferrule"], ["mail", "ferrule"]]
