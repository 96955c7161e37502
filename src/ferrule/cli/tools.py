"""`ferrule tools`: finds tools by what they do, and shows how they are used."""

from __future__ import annotations

import asyncio
import os
import time
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.bus_option import URL_VARIABLE
from ferrule.cli.chat_gateway import GATEWAY_KEY
from ferrule.cli.command import Command
from ferrule.cli.ledger_option import on_ledger
from ferrule.cli.serve_sources import sources_of
from ferrule.cli.tools_file import read_tools
from ferrule.core.tool import ToolDefinition
from ferrule.dialects.field import Field
from ferrule.engines.http import HttpClient
from ferrule.errors import DefinitionError
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.tool_usage import ToolSummary, UsageQuery, summarize_tools
from ferrule.server.apis.stats import MAX_TOOLS
from ferrule.server.config.config import OpenApiConfig, SourcesConfig
from ferrule.sources.bus.connection import DEFAULT_URL
from ferrule.sources.combined_sources import CombinedSources
from ferrule.sources.search.tool_index import ToolIndex, ToolMatch

_HEADINGS = ("tool", "source", "score", "effects", "description")
_STATS = ("tool", "loaded", "called", "failed", "denied", "p50 (s)", "tokens")
_STATS_FIELDS: Mapping[str, Callable[[Field], Any]] = {
    "tool": Field.string,
    **dict.fromkeys(("loaded", "called", "failed", "denied"), Field.integer),
    "seconds_p50": lambda field: field.optional(Field.number),
    "definition_tokens": lambda field: field.optional(Field.integer),
}
_STATS_LEGEND = (
    "loaded: replies that could have called it. called: calls that were handed on.",
    "failed: their result was an error or is unknown. denied: a person refused them.",
    "p50: the median time of the newest calls. tokens: of its definition, estimated; only a gateway knows it.",
)
_FILE = "file"
_NOWHERE = "http://127.0.0.1"
"""The server of a document whose tools are only searched; many documents name none."""
_MAX_DESCRIPTION = 200


def _add_options(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", metavar="ACTION", required=True)
    search = actions.add_parser("search", help="find the tools that fit a text, the best first")
    search.add_argument("text", help="what you want to do, in your own words")
    search.add_argument("--limit", type=_count, default=5, metavar="N", help="how many tools to show (default: 5)")
    search.add_argument("--json", action="store_true", help="print JSON, with schemas")
    sources = search.add_argument_group("sources", "at least one; the tools of all of them are searched")
    sources.add_argument("--file", type=read_tools, default=(), metavar="FILE", help="a JSON file of tools")
    sources.add_argument(
        "--tools",
        action="append",
        default=[],
        metavar="MODULE:NAME",
        help="Python functions; may be given several times",
    )
    sources.add_argument(
        "--openapi", action="append", default=[], metavar="FILE", help="the operations of an OpenAPI document"
    )
    sources.add_argument("--mcp-config", default="", metavar="FILE", help="the MCP servers of an mcp.json")
    sources.add_argument(
        "--nats",
        nargs="?",
        default="",
        const=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help="the workers on a NATS bus",
    )
    search.set_defaults(act=_search)
    _add_stats(actions.add_parser("stats", help="show how often each tool was loaded, called and failed"))


def _add_stats(stats: ArgumentParser) -> None:
    places = stats.add_mutually_exclusive_group(required=True)
    places.add_argument(
        "--ledger",
        action="append",
        metavar="PATH_OR_DSN",
        help="a SQLite file, or postgresql://user@host/database; give all, in their order, if there are several",
    )
    places.add_argument(
        "--gateway",
        metavar="URL",
        help=f"a running gateway, such as http://127.0.0.1:8000; its key is read from ${GATEWAY_KEY}",
    )
    stats.add_argument("--tool", default="", metavar="NAME", help="only this tool")
    stats.add_argument("--days", type=_count, default=30, metavar="N", help="of how many days (default: 30)")
    stats.add_argument("--tenant", metavar="NAME", help="only this tenant; a gateway shows that of the key")
    stats.add_argument("--json", action="store_true", help="print JSON")
    stats.set_defaults(act=_stats)


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and 1 <= len(text) < 7 and int(text)):
        raise ArgumentTypeError(f"{text!r} is not a number of 1 or more")
    return int(text)


def _run(arguments: Namespace) -> None:
    arguments.act(arguments)


def _search(arguments: Namespace) -> None:
    owners = asyncio.run(_tools_of(arguments))
    index = ToolIndex(tool for tool, _ in owners.values())
    matches = index.search(arguments.text, arguments.limit)
    if arguments.json:
        streams.write(json_view.page([_view(match, owners[match.tool.name][1]) for match in matches]) + "\n")
    elif matches:
        terminal.show_table(_HEADINGS, [_cells(match, owners[match.tool.name][1]) for match in matches])
    else:
        streams.write(f"none of {len(index)} tools has a word of this text\n")


def _stats(arguments: Namespace) -> None:
    since = time.time() - arguments.days * 86_400
    if arguments.gateway:
        if arguments.tenant is not None:
            raise DefinitionError("--tenant is for a ledger", hint="A gateway shows the tenant of the key.")
        rows = asyncio.run(_stats_of_gateway(arguments.gateway, since, arguments.tool))
    else:
        query = UsageQuery(tenant=arguments.tenant, since=since, tool=arguments.tool)

        async def read(ledger: Ledger) -> tuple[ToolSummary, ...]:
            return summarize_tools(await ledger.usage_report(query), await ledger.call_seconds(query))

        summaries = on_ledger(arguments.ledger, read)
        rows = [{**one.as_dict(), "definition_tokens": None} for one in summaries]
    if arguments.json:
        streams.write(json_view.page(rows) + "\n")
    elif rows:
        terminal.show_table(_STATS, [_stats_cells(row) for row in rows])
        terminal.show_lines(_STATS_LEGEND)
    else:
        streams.write("no tools have been offered to a model\n")


async def _stats_of_gateway(url: str, since: float, tool: str) -> list[dict[str, Any]]:
    key = os.environ.get(GATEWAY_KEY, "")
    client = HttpClient(url.rstrip("/"), {"authorization": f"Bearer {key}"} if key else {})
    try:
        query = urlencode({"limit": MAX_TOOLS, "since": round(since), "tool": tool})
        page = Field(await client.get(f"/v1/stats/tools?{query}"))
        return [{name: read(one[name]) for name, read in _STATS_FIELDS.items()} for one in page["data"].items()]
    finally:
        await client.close()


def _stats_cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    counts = (str(row[name]) for name in ("loaded", "called", "failed", "denied"))
    seconds, tokens = row["seconds_p50"], row["definition_tokens"]
    return row["tool"], *counts, "" if seconds is None else f"{seconds:.3g}", "" if tokens is None else f"{tokens:,}"


async def _tools_of(arguments: Namespace) -> dict[str, tuple[ToolDefinition, str]]:
    """Return all tools with their source, by name."""
    settings = SourcesConfig(functions=tuple(arguments.tools), mcp_config=arguments.mcp_config, nats=arguments.nats)
    documents = [OpenApiConfig(name=Path(path).stem, document=path, server=_NOWHERE) for path in arguments.openapi]
    sources = sources_of(settings, documents)
    if not sources and not arguments.file:
        raise DefinitionError(
            "there are no tools to search", hint="Name a source: --file, --tools, --openapi, --mcp-config or --nats."
        )
    async with CombinedSources(sources) as combined:
        found = {tool.name: (tool, combined.owner_of(tool.name)) for tool in await combined.tools()}
    return found | {tool.name: (tool, _FILE) for tool in arguments.file}


def _view(match: ToolMatch, source: str) -> dict[str, object]:
    tool = match.tool
    return {
        "name": tool.name,
        "source": source,
        "score": round(match.score, 3),
        "side_effects": tool.side_effects,
        "description": tool.description,
        "parameters": tool.parameters,
    }


def _cells(match: ToolMatch, source: str) -> tuple[str, ...]:
    description = " ".join(match.tool.description.split())[:_MAX_DESCRIPTION]
    effects = "yes" if match.tool.side_effects else "no"
    return match.tool.name, source, f"{match.score:.1f}", effects, description


COMMAND = Command(
    name="tools",
    about="Find tools by what they do, and show how they are used.",
    more="A search reads names, descriptions, parameters and allowed values, by BM25. Figures on usage come from\n"
    "a ledger or a running gateway. No tool is called.",
    examples='  ferrule tools search "will it rain" --tools my_tools.py\n'
    '  ferrule tools search "open issues" --mcp-config mcp.json --json\n'
    "  ferrule tools stats --ledger ledger.db --days 7\n"
    "  ferrule tools stats --gateway http://127.0.0.1:8000",
    add_options=_add_options,
    run=_run,
)
