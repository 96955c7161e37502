"""`ferrule capabilities`: what the workers on a NATS bus serve."""

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

_HEADINGS = ("capability\ntool", "effects", "workers", "calls", "errors", "what for")


def _add_options(parser: ArgumentParser) -> None:
    add_bus_options(parser)
    parser.add_argument("--json", action="store_true", help="print JSON, with schemas")


def _run(arguments: Namespace) -> None:
    rows = asyncio.run(_looked(arguments))
    if arguments.json:
        streams.write(json_view.page(rows) + "\n")
    elif rows:
        terminal.show_table(_HEADINGS, [_cells(row) for row in rows])
    else:
        streams.write("nobody serves anything here\n")


async def _looked(arguments: Namespace) -> list[dict[str, Any]]:
    async with bus_of(arguments) as bus:
        found, counts, served = await asyncio.gather(bus.discovered(), bus.counts(), bus.served())
        workers = Counter(one.capability for one in found)
        return [
            _row(capability, tool, workers[capability], counts, arguments.tenant)
            for capability, tool in sorted(served.items())
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
    more="Every worker of the tenant is asked; what answers within a moment is listed.",
    examples="  ferrule capabilities\n  ferrule capabilities --nats nats://bus:4222 --tenant acme --json",
    add_options=_add_options,
    run=_run,
)
