"""A sample of BFCL on SmolLM2 in this process, under the rule and without: `scripts/long bfcl`."""

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl.categories import chosen
from ferrule.bench.bfcl.client import Manner
from ferrule.bench.bfcl.engine_label import described
from ferrule.bench.bfcl.report import miss_table, result_table, sections
from ferrule.bench.bfcl.run import CHART, Asked, chart, run, write
from ferrule.bench.bfcl.summary import Scored
from ferrule.bench.bfcl.tasks import Task, tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.bench.tables import show
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import circumstances, told
from lab.paths import CACHE
from lab.results_page import PAGE, publish
from lab.servers import MODEL

_SECTION: Final = "bfcl"
_WHO: Final = "SmolLM2-135M-Instruct in process"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long bfcl {}\n```"
_SLOTS: Final = 4
_CONTEXT: Final = 8192


@dataclass(frozen=True, slots=True)
class _Run:
    scored: Scored
    asked: Asked


async def _measured(asked: list[Task], out: Path, progress: Progress) -> list[_Run]:
    """Both manners side by side, each on an engine of its own with one thread."""

    async def measure(is_constrained: bool) -> _Run:
        manner = Manner(is_constrained=is_constrained, width=_SLOTS)
        task = progress.add_task(manner.name, total=len(asked))
        backend = LlamaGenerator(MODEL, 1, _SLOTS, _CONTEXT)
        async with TextEngine(backend, TextOptions(is_constrained=is_constrained)) as engine:
            one = Asked(asked, manner, await described(engine, _WHO))
            return _Run(await run(engine, one, out, lambda _: progress.advance(task)), one)

    return list(await asyncio.gather(measure(True), measure(False)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long bfcl", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=300, help="how many questions (default: 300)")
    parser.add_argument("--out", type=Path, default=CACHE / "results" / "bfcl", help="where the answers are kept")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    console = Console()
    asked = tasks(chosen(()), arguments.count, data_folder())
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        found = asyncio.run(_measured(asked, arguments.out, progress))
    runs = [one.scored for one in found]
    who = found[0].asked.who
    write(arguments.out, runs, found[0].asked)
    show(result_table(runs, who), console)
    show(miss_table(runs), console)
    if not arguments.print:
        _publish(runs, who, arguments.count)


def _publish(runs: list[Scored], who: str, count: int) -> None:
    images = PAGE.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    (images / CHART).write_text(chart(runs, who), encoding="utf-8")
    picture = f"![share of right replies by category](images/{CHART})"
    parts = [_COMMAND.format(count), told(circumstances()), picture, *sections(runs, who)]
    publish(_SECTION, "BFCL with a weak model, under the rule and without", parts)


if __name__ == "__main__":
    main()
