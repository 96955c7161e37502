"""CPU of a gateway's request, by how many tools the gateway itself has: `scripts/long own-tools`.

Each request offers the model few tools or none; the gateway has 10, 1,000 or 10,000. What a request costs must not
depend on the tools that it does not offer.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from lab.environment import describe_environment, measured_environment
from lab.gateway_walk import many_tools, scripted_text_engine
from lab.paths import ROOT
from lab.results_page import publish

SIZES: Final = (10, 1_000, 10_000)
_ROUNDS: Final = 3
_CALL: Final = '<tool_call>\n{"name": "lookup_7", "arguments": {"key": "Paris"}}\n</tool_call>'
_NAMES: Final = [f"lookup_{number}" for number in range(5, 10)]
_QUESTION: Final = [{"role": "user", "content": "weather in Paris?"}]
_PARAMETERS: Final = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION: Final = {"name": "weather", "description": "The weather in a city.", "parameters": _PARAMETERS}
_SECTION: Final = "own-tools"
_HEADING: Final = "What tools cost that a request does not offer"
_ABOUT: Final = (
    "CPU milliseconds of one streamed request, in the process of the gateway, with a scripted generator and a ledger "
    "in SQLite; the least of three rounds. The columns are the number of the gateway's own tools, of which a request "
    "offers none (it brings a tool of its own, or asks for none) or five by name. The aim is that the last column is "
    "at most twice the first."
)


@dataclass(frozen=True, slots=True)
class Case:
    label: str
    path: str
    body: Mapping[str, Any]
    answers: Sequence[str] = ("It is sunny.",)


CASES: Final = {
    "none": Case(
        "chat, no tools asked for",
        "/v1/chat/completions",
        {"model": "m", "messages": _QUESTION, "stream": True, "ferrule": {"tools": "none"}},
    ),
    "client": Case(
        "chat, the client's own tool",
        "/v1/chat/completions",
        {
            "model": "m",
            "messages": _QUESTION,
            "stream": True,
            "tools": [{"type": "function", "function": _FUNCTION}],
        },
    ),
    "messages": Case(
        "Messages, the client's own tool",
        "/v1/messages",
        {
            "model": "m",
            "messages": _QUESTION,
            "stream": True,
            "max_tokens": 100,
            "tools": [{"name": "weather", "description": "The weather in a city.", "input_schema": _PARAMETERS}],
        },
    ),
    "responses": Case(
        "Responses, the client's own tool",
        "/v1/responses",
        {"model": "m", "input": "weather in Paris?", "stream": True, "tools": [{"type": "function", **_FUNCTION}]},
    ),
    "responses_named": Case(
        "Responses, five of the gateway's tools",
        "/v1/responses",
        {
            "model": "m",
            "input": "weather in Paris?",
            "stream": True,
            "tools": [
                {
                    "type": "mcp",
                    "server_label": "ferrule",
                    "allowed_tools": _NAMES,
                    "require_approval": "never",
                }
            ],
        },
    ),
    "named": Case(
        "chat, five of the gateway's tools",
        "/v1/chat/completions",
        {"model": "m", "messages": _QUESTION, "stream": True, "ferrule": {"tools": _NAMES}},
    ),
    "round": Case(
        "chat, five of them, one called",
        "/v1/chat/completions",
        {"model": "m", "messages": _QUESTION, "stream": True, "ferrule": {"tools": _NAMES}},
        (_CALL, "It is sunny."),
    ),
    "direct": Case("one tool called over REST", "/v1/tools/call", {"name": "lookup_7", "arguments": {"key": "Paris"}}),
}


async def measure(size: int, count: int, names: Sequence[str]) -> dict[str, float]:
    """CPU milliseconds of each case's request, with this many tools of the gateway's own."""
    from ferrule.sources.functions import Functions
    from server.client import gateway_of

    figures: dict[str, float] = {}
    tools = many_tools(size)
    for name in names:
        case = CASES[name]
        engine = scripted_text_engine([*case.answers] * (count + 3))
        async with gateway_of(engine, sources=[Functions(tools)]) as client:
            for _ in range(3):
                response = await client.post(case.path, dict(case.body))
                assert response.status == 200, response.body
            started = time.process_time()
            for _ in range(count):
                await client.post(case.path, dict(case.body))
            figures[name] = (time.process_time() - started) / count * 1e3
    return figures


def _measured(checkout: Path, size: int, count: int) -> dict[str, float]:
    """Measure a checkout in a process of its own. The code of this module measures both."""
    path = os.pathsep.join(map(str, (checkout / "src", ROOT, checkout / "tests")))
    command = [sys.executable, __file__, "--json", str(size), "--count", str(count)]
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, env=environment, cwd=checkout, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def _table(title: str, checkouts: Mapping[str, Path], count: int) -> Table:
    best: dict[tuple[str, str, int], float] = {}
    for _ in range(_ROUNDS):
        for label, checkout in checkouts.items():
            for size in SIZES:
                for name, spent in _measured(checkout, size, count).items():
                    key = (label, name, size)
                    best[key] = min(spent, best.get(key, spent))
    rows: list[tuple[str, ...]] = []
    for label in checkouts:
        for name, case in CASES.items():
            figures = [best[label, name, size] for size in SIZES]
            row = (case.label, *(f"{one:.2f}" for one in figures), f"{figures[-1] / figures[0]:.1f}")
            rows.append((label, *row) if len(checkouts) > 1 else row)
    columns = ("request", *(f"{size:,} tools" for size in SIZES), "last to first")
    both = len(checkouts) > 1
    return Table(title, _ABOUT, ("code", *columns) if both else columns, rows, text_columns=2 if both else 1)


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long own-tools", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--count", type=int, default=30, help="requests per figure (default: 30)")
    reader.add_argument("--before", type=Path, help="another checkout to measure in turn with this one")
    reader.add_argument("--print", action="store_true", help="do not write the table to the results page")
    reader.add_argument("--json", type=int, help="measure one size with the code on the path, and print JSON")
    options = reader.parse_args(arguments)
    if options.json:
        print(json.dumps(asyncio.run(measure(options.json, options.count, [*CASES]))))
        return
    checkouts = {"before": options.before.resolve()} if options.before else {}
    table = _table(_HEADING, {**checkouts, "now": ROOT}, options.count)
    print_table(table, Console())
    if not options.print:
        command = "```sh\nscripts/long own-tools --before ../other-checkout\n```"
        publish(_SECTION, _HEADING, [command, describe_environment(measured_environment()), markdown(table)])


if __name__ == "__main__":
    main()
