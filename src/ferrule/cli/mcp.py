"""`ferrule mcp`: shows the status of the MCP servers in an mcp.json."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from dataclasses import asdict
from pathlib import Path

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.command import Command
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import McpConfig, read_config
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.servers import McpServers, ServerStatus

_HEADINGS = ("server", "state", "protocol", "tools", "trust", "notices")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    list_parser = actions.add_parser("list", help="connect to every server and show its status")
    list_parser.add_argument(
        "--config", default="mcp.json", metavar="FILE", help="the configuration file (default: mcp.json)"
    )
    list_parser.add_argument("--pins", metavar="FILE", help="pinned tool definitions, as written by Pins.to_json")
    list_parser.add_argument(
        "--wait", type=float, default=10.0, metavar="SECONDS", help="how long to wait for slow servers (default: 10)"
    )
    list_parser.add_argument("--json", action="store_true", help="print JSON, with the names of the tools")
    list_parser.set_defaults(act=_list)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _list(arguments: Namespace) -> None:
    config = read_config(arguments.config)
    statuses = asyncio.run(_probe(config, _pins(arguments.pins), arguments.wait))
    if arguments.json:
        page = {"servers": [asdict(status) for status in statuses], "faults": list(config.faults)}
        streams.write(json_view.page(page) + "\n")
        return
    rows = [_row(status) for status in statuses]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
        terminal.show_lines(config.faults)
        return
    streams.write("".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (_HEADINGS, *rows)))
    # On stderr, so that a program can read the table on stdout.
    for fault in config.faults:
        print(fault, file=sys.stderr)


def _pins(path: str | None) -> Pins | None:
    if path is None:
        return None
    try:
        return Pins.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"cannot read {path}", hint="Name a file that Pins.to_json wrote.") from error


async def _probe(config: McpConfig, pins: Pins | None, seconds: float) -> tuple[ServerStatus, ...]:
    async with McpServers(config, pins=pins, settle_seconds=seconds) as source:
        return source.servers


def _row(status: ServerStatus) -> tuple[str, ...]:
    trust = "trusted" if status.trusted else "not trusted"
    return (
        status.name,
        status.state,
        status.protocol_version,
        str(len(status.tools)),
        trust,
        "\n".join(status.notices),
    )


COMMAND = Command(
    name="mcp",
    about="Show the status of the MCP servers in an mcp.json.",
    more="Starts or connects to every server in the file, concurrently, and lists its tools. It calls no\n"
    "tool. The notices say which servers are unavailable, which tools are not offered and why, and\n"
    "which tools are offered under another name.",
    examples="  ferrule mcp list\n  ferrule mcp list --config .vscode/mcp.json --json",
    add_options=_add_options,
    run=_run,
)
