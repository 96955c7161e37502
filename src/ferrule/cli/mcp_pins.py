"""`ferrule mcp diff` and `ferrule mcp pin`: what changed in the definitions of MCP tools, and accepting it."""

from __future__ import annotations

import difflib
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from ferrule.cli import json_view, streams
from ferrule.cli.credentials_option import on_credentials
from ferrule.cli.mcp_exit import FOUND, exit_code
from ferrule.cli.pins_file import PinsFile
from ferrule.core.visible_text import visible
from ferrule.sources.mcp.config import McpConfig
from ferrule.sources.mcp.credentials import CredentialStore
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import QuarantinedTool, SourceState, SourceStatus, ToolSnapshot


def diff(arguments: Namespace, config: McpConfig) -> None:
    pins = PinsFile(Path(arguments.pins)).read()
    statuses = on_credentials(arguments, config.servers, lambda store: _statuses(config, pins, arguments.wait, store))
    lines = [line for status in statuses for line in _lines(status)]
    streams.write("".join(f"{line}\n" for line in lines) or "no definition has changed\n")
    code = exit_code(statuses, config) or (FOUND if lines else 0)
    if code:
        raise SystemExit(code)


def pin(arguments: Namespace, config: McpConfig) -> None:
    file = PinsFile(Path(arguments.pins))
    before = file.read()
    after = on_credentials(arguments, config.servers, lambda store: _pinned(config, before, arguments, store))
    changed = _changes(before, after)
    file.write(after)
    streams.write(f"pinned in {file.path}: {', '.join(map(visible, changed)) or 'nothing new'}\n")


async def _statuses(config: McpConfig, pins: Pins, seconds: float, store: CredentialStore) -> tuple[SourceStatus, ...]:
    async with McpServers(config, pins=pins, settle_seconds=seconds, credentials=store) as source:
        return source.statuses


async def _pinned(config: McpConfig, pins: Pins, arguments: Namespace, store: CredentialStore) -> Pins:
    async with McpServers(config, pins=pins, settle_seconds=arguments.wait, credentials=store) as source:
        for status in source.statuses:
            if arguments.server not in (None, status.name):
                continue
            if status.state is not SourceState.READY:
                reason = f"{status.name} is {status.state.value}: {visible(status.reason)}"
                print(f"error: {reason}\nhint: Nothing was pinned. Mend it first.", file=sys.stderr)
                raise SystemExit(exit_code([status], config))
            source.repin(status.name, arguments.tool)
        return source.pins


def _changes(before: Pins, after: Pins) -> list[str]:
    return [
        f"{server} {tool}"
        for server, tools in after.hashes.items()
        for tool, pinned in tools.items()
        if before.of(server, tool) != pinned
    ]


def _lines(status: SourceStatus) -> Iterator[str]:
    if status.state is not SourceState.READY:
        yield f"{status.name} is {status.state.value}: {visible(status.reason)}"
    for tool in status.quarantined:
        yield f"{tool.tool} {visible(tool.reason)}"
        yield from _differences(tool)


def _differences(tool: QuarantinedTool) -> Iterator[str]:
    """A server's text is shown with nothing hidden: it may have changed to deceive."""
    before, now = (_text(one) for one in (tool.before, tool.now))
    for line in difflib.unified_diff(before, now, "pinned", "now", lineterm=""):
        yield f"  {visible(line)}"


def _text(snapshot: ToolSnapshot | None) -> list[str]:
    if snapshot is None:
        return []
    fields = {"description": snapshot.description, "parameters": snapshot.parameters, **snapshot.more}
    return json_view.page(fields).splitlines()
