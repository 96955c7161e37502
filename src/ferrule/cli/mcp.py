"""`ferrule mcp`: which servers an mcp.json names, how it stands with each, and what a person should know."""

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
from ferrule.sources.mcp.servers import McpServers, ServerView

_HEADINGS = ("server", "state", "protocol", "tools", "trust", "notices")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    listed = actions.add_parser("list", help="connect to every server and tell how it stands with each")
    listed.add_argument("--config", default="mcp.json", metavar="FILE", help="the servers (default: mcp.json)")
    listed.add_argument("--pins", metavar="FILE", help="what was agreed to before, as Pins.to_json wrote it")
    listed.add_argument("--wait", type=float, default=10.0, metavar="SECONDS", help="for slow servers (default: 10)")
    listed.add_argument("--json", action="store_true", help="print JSON, with the names of the tools")
    listed.set_defaults(act=_list)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _list(arguments: Namespace) -> None:
    config = read_config(arguments.config)
    found = asyncio.run(_looked_at(config, _pins(arguments.pins), arguments.wait))
    if arguments.json:
        page = {"servers": [asdict(one) for one in found], "faults": list(config.faults)}
        streams.write(json_view.page(page) + "\n")
        return
    rows = [_row(one) for one in found]
    if sys.stdout.isatty():
        terminal.show_table(_HEADINGS, rows)
        terminal.show_lines(config.faults)
        return
    streams.write("".join("\t".join(" ".join(cell.split()) for cell in row) + "\n" for row in (_HEADINGS, *rows)))
    # Beside the table and not in it, so that a program can read the table.
    for fault in config.faults:
        print(fault, file=sys.stderr)


def _pins(path: str | None) -> Pins | None:
    if path is None:
        return None
    try:
        return Pins.from_json(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise DefinitionError(f"{path} cannot be read", hint="Name a file that Pins.to_json wrote.") from error


async def _looked_at(config: McpConfig, pins: Pins | None, seconds: float) -> tuple[ServerView, ...]:
    async with McpServers(config, pins=pins, settle_seconds=seconds) as source:
        return source.servers


def _row(one: ServerView) -> tuple[str, ...]:
    trust = "trusted" if one.trusted else "not trusted"
    return (one.name, one.state, one.era, str(len(one.tools)), trust, "\n".join(one.notices))


COMMAND = Command(
    name="mcp",
    about="See how it stands with the MCP servers of an mcp.json.",
    more="Starts or reaches every server that the file names, side by side, and asks for its tools.\n"
    "Nothing is called. The notices say which server is not there, which tool is not offered\n"
    "and why, and which has another name.",
    examples="  ferrule mcp list\n  ferrule mcp list --config .vscode/mcp.json --json",
    add_options=_add_options,
    run=_run,
)
