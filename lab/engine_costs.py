"""What the guarantee costs on the engines that run on this machine: `scripts/bench-engine`."""

import argparse
import asyncio
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.engine_costs import measured, row_of, table_of
from ferrule.bench.tables import markdown, show
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import circumstances, told
from lab.real_engines import ENGINES
from lab.results_page import publish

_SECTION: Final = "engine-costs"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/bench-engine\n```"


async def _rows(names: list[str], rounds: int, progress: Progress) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for name in names:
        task = progress.add_task(name, total=rounds + 1)
        async with ENGINES[name](TextOptions(format="hermes")) as opened:
            assert isinstance(opened, TextEngine)
            rows.append(row_of(name, await measured(opened, rounds, lambda t=task: progress.advance(t))))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    arguments = parser.parse_args()
    console = Console()
    with Progress(console=console) as progress:
        table = table_of(asyncio.run(_rows(arguments.engine or list(ENGINES), arguments.rounds, progress)))
    show(table, console)
    if not arguments.engine:
        parts = [_COMMAND, told(circumstances()), markdown(table)]
        publish(_SECTION, "What the guarantee costs on a real engine", parts)


if __name__ == "__main__":
    main()
