"""`ferrule capabilities`: lists what the workers on a NATS bus serve."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections import Counter
from typing import Any

from ferrule.cli import json_view, streams, terminal
from ferrule.cli.bus_option import add_bus_options, bus_of
from ferrule.cli.command import Command
from ferrule.core.tool import ToolDefinition
from ferrule.sources.bus.subject import Capability

_HEADINGS = ("capability\ntool", "effects", "workers", "calls", "errors", "description")


def _add_options(parser: ArgumentParser) -> None:
    add_bus_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with schemas")


def _run(arguments: Namespace) -> None:
    rows = asyncio.run(_rows(arguments))
    if arguments.json:
        streams.write(json_view.page(rows) + "\n")
    elif rows:
        terminal.show_table(_HEADINGS, [_cells(row) for row in rows])
    else:
        streams.write("no worker serves anything\n")


async def _rows(arguments: Namespace) -> list[dict[str, Any]]:
    async with bus_of(arguments) as bus:
        discovered, counts, definitions = await asyncio.gather(bus.discover(), bus.counts(), bus.definitions())
        workers = Counter(entry.capability for entry in discovered)
        return [
            _row(capability, tool, workers[capability], counts, arguments.tenant)
            for capability, tool in sorted(definitions.items())
        ]


def _row(
    capability: Capability, tool: ToolDefinition, workers: int, counts: Counter[tuple[str, str]], tenant: str
) -> dict[str, Any]:
    subject = capability.subject(tenant)
    return {
        "capability": str(capability),
        "tool": tool.name,
        "description": tool.description,
        "side_effects": tool.side_effects,
        "workers": workers,
        "requests": counts["requests", subject],
        "errors": counts["errors", subject],
        "subject": subject,
        "def_hash": tool.fingerprint,
        "parameters": tool.parameters,
    }


def _cells(row: dict[str, Any]) -> tuple[str, ...]:
    numbers = (str(row[name]) for name in ("workers", "requests", "errors"))
    return (f"{row['capability']}\n{row['tool']}", "yes" if row["side_effects"] else "no", *numbers, row["description"])


COMMAND = Command(
    name="capabilities",
    about="List what the workers on a NATS bus serve.",
    more="Asks every worker of the tenant and lists those that answer within about a second.",
    examples="  ferrule capabilities\n  ferrule capabilities --nats nats://bus:4222 --tenant acme --json",
    add_options=_add_options,
    run=_run,
)
