"""`ferrule.sources.mcp`: the servers of a file or of a dict."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ferrule.errors import DefinitionError
from ferrule.sources import McpServers, Pins, mcp

SERVERS = {"files": {"command": "serve-files", "args": ["."], "trusted": True}}


def names(source: McpServers) -> list[str]:
    return [server.name for server in source.config.servers]


@pytest.mark.parametrize("servers", [SERVERS, {"mcpServers": SERVERS}, {"servers": SERVERS}])
def test_a_dict_is_the_content_of_a_file_or_the_servers_alone(servers: dict[str, object]) -> None:
    source = mcp(servers)
    assert names(source) == ["files"]
    assert source.config.servers[0].trusted
    assert not source.config.faults


def test_a_file_is_named_by_text_or_by_path(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(json.dumps({"mcpServers": SERVERS}), encoding="utf-8")
    assert names(mcp(file)) == names(mcp(str(file))) == ["files"]


def test_accepted_pins_are_passed_on() -> None:
    pins = Pins()
    assert mcp(SERVERS, pins=pins).pins is pins


def test_a_file_that_does_not_exist_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match=r"none\.json cannot be read"):
        mcp(tmp_path / "none.json")
