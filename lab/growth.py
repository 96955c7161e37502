"""How costs grow with the number of streams, workers, callers and tools: `scripts/long growth`.

Four sizes each. CPU is what the kernel counted, so a busy machine changes little. The ledger's curves are drawn by
`scripts/bench-ledger`.
"""

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.request import ToolChoice
from ferrule.rules.lark import emit_lark
from ferrule.wire.registry import get_format
from ferrule.wire.rule_builder import bind
from lab.bus_costs import pairs
from lab.bus_scale import measure_looks
from lab.environment import describe_environment, measured_environment
from lab.gateway_costs import hold_streams
from lab.gateway_peers import ferrule_chat, upstream
from lab.growth_plot import Panel, plot
from lab.process_cost import cost_of
from lab.results_page import PAGE, publish
from lab.rule_compiles import clear_tool_caches, time_of
from lab.rule_tools import sample_tools

_STREAMS: Final = (250, 500, 1_000, 2_000)
_EVENTS: Final = 40
_PACE: Final = 500
_CALLERS: Final = (1, 4, 16, 64)
_WORKERS: Final = (1, 4, 16, 64)
_TOOLS: Final = (1, 10, 100, 1_000)
_PICTURE: Final = Path("images/growth.svg")
Points = list[tuple[float, float]]


def measure_gateway() -> dict[str, Points]:
    """CPU of an event that comes alone, and memory, by the number of open streams."""
    events: Points = []
    memory: Points = []
    for streams in _STREAMS:
        with upstream() as (url, _), ferrule_chat(url, _PACE) as peer:
            idle = cost_of(peer.pid).resident
            held = asyncio.run(hold_streams(peer, streams, _EVENTS))
            assert not held.failed, held
            events.append((streams, 1e6 * held.cpu / held.events))
            memory.append((streams, (max(held.resident) - idle) / streams / 1e3))
    return {"gateway: µs per event, by streams": events, "gateway: kB per stream, by streams": memory}


def measure_bus() -> dict[str, Points]:
    """CPU of a call, by callers, and bytes of a look that finds nothing new, by workers."""
    calls: Points = []
    for callers in _CALLERS:
        runs = [ours for ours, _ in asyncio.run(pairs("source", 2_000, callers, 3))]
        calls.append((callers, min(run.caller + run.server + run.worker for run in runs)))
    looks = [(float(workers), asyncio.run(measure_looks(100, workers, 2))[1] / 1.0) for workers in _WORKERS]
    return {"bus: µs per call, by callers": calls, "bus: bytes of a look, by workers": looks}


def measure_rules() -> dict[str, Points]:
    """CPU to make a grammar of tools that are new, and its length, by the number of tools."""
    format = get_format("hermes")
    seconds: Points = []
    lengths: Points = []
    for count in _TOOLS:
        tools = sample_tools(count)
        spent: list[float] = []
        lark = ""
        for _ in range(3):
            clear_tool_caches()
            taken, lark = time_of(lambda tools=tools: emit_lark(bind(format, tools, ToolChoice.auto())))
            spent.append(taken)
        seconds.append((count, 1e3 * min(spent)))
        lengths.append((count, len(lark) / 1e3))
    return {"rules: ms per grammar, by tools": seconds, "rules: kB of grammar, by tools": lengths}


PARTS: Final[dict[str, Callable[[], dict[str, Points]]]] = {
    "gateway": measure_gateway,
    "bus": measure_bus,
    "rules": measure_rules,
}


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long growth", description=__doc__)
    parser.add_argument("--part", action="append", choices=tuple(PARTS), help="only this part, and no page")
    arguments = parser.parse_args()
    console, curves = Console(width=140), dict[str, Points]()
    for name in arguments.part or PARTS:
        curves |= PARTS[name]()
        console.print(f"{name}: measured")
    table = _table(curves)
    print_table(table, console)
    if not arguments.part:
        panels = [Panel(title, {"measured": points}) for title, points in curves.items()]
        picture = plot("How costs grow", "size", "Cost", panels)
        (PAGE.parent / _PICTURE).write_text(picture, encoding="utf-8")
        environment = describe_environment(measured_environment())
        image = f"![Costs of the gateway, the bus and the rules, by size]({_PICTURE})"
        publish("growth", "How costs grow", ["```sh\nscripts/long growth\n```", environment, markdown(table), image])


def _table(curves: dict[str, Points]) -> Table:
    rows = [(title, *(f"{cost:,.3g} at {size:,.0f}" for size, cost in points)) for title, points in curves.items()]
    return Table(
        "Four sizes",
        f"Gateway: streams of {_EVENTS} events, two a second each, chat API. Bus: CPU of caller, server and worker "
        "together; a look at 100 capabilities. Rules: Hermes under auto, nothing cached.",
        ("cost", "smallest", "", "", "largest"),
        rows,
    )


if __name__ == "__main__":
    main()
