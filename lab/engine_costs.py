"""Measure what the grammar constraint costs on the engines of this machine: `scripts/bench-engine`."""

import argparse
import asyncio
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.engine_costs import measure, row_of, table_of
from ferrule.bench.tables import markdown, print_table
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import describe_environment, measured_environment
from lab.real_engines import ENGINES
from lab.results_page import publish

_SECTION: Final = "engine-costs"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/bench-engine\n```"


async def _rows(names: list[str], rounds: int, progress: Progress) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in names:
        task = progress.add_task(name, total=rounds + 1)
        async with ENGINES[name](TextOptions(format="hermes")) as engine:
            assert isinstance(engine, TextEngine)
            rows.append(row_of(name, await measure(engine, rounds, lambda t=task: progress.advance(t))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = table_of(asyncio.run(_rows(arguments.engine or list(ENGINES), arguments.rounds, progress)))
    print_table(table, console)
    if not arguments.engine:
        parts = [_COMMAND, describe_environment(measured_environment()), markdown(table)]
        publish(_SECTION, "What the guarantee costs on a real engine", parts)


if __name__ == "__main__":
    main()
