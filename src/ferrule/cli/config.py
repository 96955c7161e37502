"""`ferrule config`: what a gateway would serve, what is wrong or unwise about it, and which settings there are."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.config_probe import looked_at
from ferrule.cli.config_view import HEADINGS, effects_of, rows_of
from ferrule.cli.serve_sources import mcp_of, sources_of
from ferrule.cli.settings_page import settings_page
from ferrule.engines.registry import ENGINES, parts_of
from ferrule.errors import DefinitionError
from ferrule.server.addresses import host_of, is_loopback
from ferrule.server.config.config import Config
from ferrule.server.config.loader import load
from ferrule.server.config.validation import unwise
from ferrule.sources.mcp.config import Endpoint

_DATABASES = ("postgresql://", "postgres://")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    checked = actions.add_parser("check", help="tell what would be served, and what is wrong or unwise about it")
    checked.add_argument("file", nargs="?", metavar="FILE", help="(default: ./ferrule.toml, where there is one)")
    checked.add_argument("--online", action="store_true", help="also reach the engines, the MCP servers and the bus")
    checked.set_defaults(act=_check)
    listed = actions.add_parser("settings", help="print every setting with its meaning, as a page of Markdown")
    listed.set_defaults(act=lambda arguments: streams.write(settings_page()))  # pyright: ignore[reportUnknownLambdaType]


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _check(arguments: Namespace) -> None:
    loaded = load(arguments.file, os.environ)
    config = loaded.config
    sources_of(config)
    wrong = list(_absent(config))
    rows = rows_of(loaded)
    if arguments.online and not wrong:
        found, wrong = asyncio.run(looked_at(config))
        rows += found
    _show(rows)
    for words in (*unwise(config, effects_of(config)), *_of_servers(config)):
        print(terminal.seen(f"warning: {words}"), file=sys.stderr)
    if wrong:
        raise DefinitionError("this cannot be served:" + "".join(f"\n  {one}" for one in wrong))
    streams.write("ok\n")


def _show(rows: list[tuple[str, str, str, str]]) -> None:
    if sys.stdout.isatty():
        terminal.show_table(HEADINGS, [(*row,) for row in rows])
        return
    cells = (" ".join(terminal.seen(cell).split()) for row in (HEADINGS, *rows) for cell in row)
    lines = zip(*[cells] * len(HEADINGS), strict=True)
    streams.write("".join("\t".join(line) + "\n" for line in lines))


def _absent(config: Config) -> Iterator[str]:
    """Files that are named and not there."""
    for engine in config.engines:
        parts = parts_of(engine.use)
        entry = ENGINES.get(parts.kind)
        paths = [parts.on] if entry is not None and entry.on == "PATH" else []
        for path in (*paths, parts.options.get("checkpoint", "")):
            if path and not Path(path).exists():
                yield f"the engine {engine.name}: there is no {path}"
    folder = Path(config.ledger).parent
    if config.ledger and not config.ledger.startswith(_DATABASES) and not folder.is_dir():
        yield f"the ledger: there is no folder {folder}"


def _of_servers(config: Config) -> Iterator[str]:
    servers = mcp_of(config.sources)
    yield from (f"{config.sources.mcp_config}: {fault}" for fault in servers.faults)
    for server in servers.servers:
        reach = server.reach
        if isinstance(reach, Endpoint) and reach.url.startswith("http://") and not is_loopback(host_of(reach.url)):
            yield f"the MCP server {server.name} is asked over plain http"


COMMAND = Command(
    name="config",
    about="See what a gateway would serve, and what is wrong with it.",
    more="Reads ferrule.toml and the environment as `ferrule serve` does. `check` exits with 1 where something\n"
    "cannot work, and warns of what is unwise; it starts nothing and, without --online, reaches nobody.",
    examples="  ferrule config check\n  ferrule config check ferrule.toml --online\n  ferrule config settings",
    add_options=_add_options,
    run=_run,
)
