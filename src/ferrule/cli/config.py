"""`ferrule config`: validates a gateway's configuration, shows what it would serve, and documents the settings."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.config_probe import probe_config
from ferrule.cli.config_view import HEADINGS, config_rows, effects_of
from ferrule.cli.serve_sources import mcp_of, sources_of
from ferrule.cli.settings_page import settings_page
from ferrule.engines.registry import ENGINES, parse_engine_spec
from ferrule.errors import DefinitionError
from ferrule.server.addresses import host_of, is_loopback
from ferrule.server.config.config import Config
from ferrule.server.config.loader import load_config
from ferrule.server.config.validation import find_warnings
from ferrule.sources.mcp.config import HttpTransport

_DATABASES = ("postgresql://", "postgres://")


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    check_parser = actions.add_parser("check", help="show what would be served, with errors and warnings")
    check_parser.add_argument("file", nargs="?", metavar="FILE", help="(default: ./ferrule.toml, if it exists)")
    check_parser.add_argument(
        "--online", action="store_true", help="also connect to the engines, the MCP servers and NATS"
    )
    check_parser.set_defaults(act=_check)
    settings_parser = actions.add_parser("settings", help="print every setting with its description, as Markdown")
    settings_parser.set_defaults(act=lambda arguments: streams.write(settings_page()))  # pyright: ignore[reportUnknownLambdaType]


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _check(arguments: Namespace) -> None:
    loaded = load_config(arguments.file, os.environ)
    config = loaded.config
    sources_of(config)
    problems = list(_missing_files(config))
    rows = config_rows(loaded)
    if arguments.online and not problems:
        probed, problems = asyncio.run(probe_config(config))
        rows += probed
    _show(rows)
    for warning in (*find_warnings(config, effects_of(config)), *_server_warnings(config)):
        print(terminal.printable(f"warning: {warning}"), file=sys.stderr)
    if problems:
        raise DefinitionError("the configuration is invalid:" + "".join(f"\n  {problem}" for problem in problems))
    streams.write("ok\n")


def _show(rows: list[tuple[str, str, str, str]]) -> None:
    if sys.stdout.isatty():
        terminal.show_table(HEADINGS, [(*row,) for row in rows])
        return
    cells = (" ".join(terminal.printable(cell).split()) for row in (HEADINGS, *rows) for cell in row)
    lines = zip(*[cells] * len(HEADINGS), strict=True)
    streams.write("".join("\t".join(line) + "\n" for line in lines))


def _missing_files(config: Config) -> Iterator[str]:
    """Errors for files that the configuration names and that do not exist."""
    for engine in config.engines:
        parts = parse_engine_spec(engine.use)
        entry = ENGINES.get(parts.kind)
        paths = [parts.argument] if entry is not None and entry.argument == "PATH" else []
        for path in (*paths, parts.options.get("checkpoint", "")):
            if path and not Path(path).exists():
                yield f"engine {engine.name}: file not found: {path}"
    folder = Path(config.ledger).parent
    if config.ledger and not config.ledger.startswith(_DATABASES) and not folder.is_dir():
        yield f"ledger: directory not found: {folder}"


def _server_warnings(config: Config) -> Iterator[str]:
    servers = mcp_of(config.sources)
    yield from (f"{config.sources.mcp_config}: {fault}" for fault in servers.faults)
    for server in servers.servers:
        transport = server.transport
        if (
            isinstance(transport, HttpTransport)
            and transport.url.startswith("http://")
            and not is_loopback(host_of(transport.url))
        ):
            yield f"the MCP server {server.name} is reached over unencrypted http"


COMMAND = Command(
    name="config",
    about="Validate a gateway configuration and show it.",
    more="Reads ferrule.toml and the environment as `ferrule serve` does. `check` exits with 1 if the configuration\n"
    "is invalid, and warns about risky settings. It starts nothing and, without --online, connects to nothing.",
    examples="  ferrule config check\n  ferrule config check ferrule.toml --online\n  ferrule config settings",
    add_options=_add_options,
    run=_run,
)
