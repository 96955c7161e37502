"""Run a sample of BFCL on SmolLM2 in this process, constrained and unconstrained: `scripts/long bfcl`."""

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl.categories import select_categories
from ferrule.bench.bfcl.client import RunOptions
from ferrule.bench.bfcl.engine_label import label_with_format
from ferrule.bench.bfcl.report import miss_table, result_table, sections
from ferrule.bench.bfcl.run import CHART, RunPlan, chart, run, write
from ferrule.bench.bfcl.summary import RunScore
from ferrule.bench.bfcl.tasks import Task, load_tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.bench.tables import print_table
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE
from lab.results_page import PAGE, publish
from lab.servers import MODEL

_SECTION: Final = "bfcl"
_ENGINE_NAME: Final = "SmolLM2-135M-Instruct in process"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long bfcl {}\n```"
_SLOTS: Final = 4
_CONTEXT: Final = 8192


@dataclass(frozen=True, slots=True)
class _Run:
    score: RunScore
    plan: RunPlan


async def _measure(tasks: list[Task], out: Path, progress: Progress) -> list[_Run]:
    """Run constrained and unconstrained in parallel, each on its own engine with one thread."""

    async def measure(is_constrained: bool) -> _Run:
        options = RunOptions(is_constrained=is_constrained, concurrency=_SLOTS)
        task = progress.add_task(options.name, total=len(tasks))
        backend = LlamaGenerator(MODEL, 1, _SLOTS, _CONTEXT)
        async with TextEngine(backend, TextOptions(is_constrained=is_constrained)) as engine:
            plan = RunPlan(tasks, options, await label_with_format(engine, _ENGINE_NAME))
            return _Run(await run(engine, plan, out, lambda _: progress.advance(task)), plan)

    return list(await asyncio.gather(measure(True), measure(False)))


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long bfcl", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=300, help="how many questions (default: 300)")
    parser.add_argument("--out", type=Path, default=CACHE / "results" / "bfcl", help="folder for the answers")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    console = Console()
    tasks = load_tasks(select_categories(()), arguments.count, data_folder())
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        runs = asyncio.run(_measure(tasks, arguments.out, progress))
    scores = [one.score for one in runs]
    engine_name = runs[0].plan.engine_name
    write(arguments.out, scores, runs[0].plan)
    print_table(result_table(scores, engine_name), console)
    print_table(miss_table(scores), console)
    if not arguments.print:
        _publish(scores, engine_name, arguments.count)


def _publish(scores: list[RunScore], engine_name: str, count: int) -> None:
    images = PAGE.parent / "images"
    images.mkdir(parents=True, exist_ok=True)
    (images / CHART).write_text(chart(scores, engine_name), encoding="utf-8")
    picture = f"![share of correct replies by category](images/{CHART})"
    environment = describe_environment(measured_environment())
    parts = [_COMMAND.format(count), environment, picture, *sections(scores, engine_name)]
    publish(_SECTION, "BFCL with a weak model, constrained and unconstrained", parts)


if __name__ == "__main__":
    main()
