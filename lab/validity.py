"""Count the valid calls by format, constrained and unconstrained: `scripts/long validity`.

`ferrule bench validity` does the same on any engine. This runs the small model in process on several cores, and an
interrupted run resumes.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import CATEGORIES, Question, load_questions
from ferrule.bench.tables import markdown, print_table
from ferrule.bench.validity import (
    FORMATS,
    Row,
    engine_pair,
    measure_row,
    questions_by_format,
    repeat_questions,
    sum_counts,
    table_of,
)
from ferrule.bench.validity_count import ReplyCounts
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.saved_parts import SavedParts
from lab.servers import MODEL

_SECTION: Final = "validity"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long validity {}\n```"
_SLOTS: Final = 4
# At most this many questions are lost when a run is interrupted; the same number of each category.
_PART: Final = 6 * len(CATEGORIES)
_ENGINE_NAME: Final = "SmolLM2-135M-Instruct in process"


async def measure(
    questions: Sequence[Question], free_share: int, cores: int, saved: SavedParts, advance: Callable[[int], None]
) -> list[Row]:
    """Measure each format constrained, and every `free_share`-th of its questions unconstrained."""
    shares = questions_by_format(questions)
    parts = [
        (name, number, shares[name][at : at + _PART])
        for name in FORMATS
        for number, at in enumerate(range(0, len(shares[name]), _PART))
    ]
    rows_by_format: dict[str, list[Row]] = {name: [] for name in FORMATS}

    async def run(mine: Sequence[tuple[str, int, Sequence[Question]]]) -> None:
        async with TextEngine(LlamaGenerator(MODEL, 1, _SLOTS, 4096), TextOptions()) as engine:
            for name, number, part in mine:

                async def both(name: str = name, part: Sequence[Question] = part) -> list[Any]:
                    started = time.monotonic()
                    row = await measure_row(name, *engine_pair(engine, name), part, free_share, lambda: None)
                    row.constrained.seconds = time.monotonic() - started
                    return [asdict(row.constrained), asdict(row.unconstrained)]

                constrained, unconstrained = await saved.part(
                    f"{name} {number} of {len(questions)}, free {free_share}", both
                )
                rows_by_format[name].append(Row(name, ReplyCounts(**constrained), ReplyCounts(**unconstrained)))
                advance(len(part))

    await asyncio.gather(*(run(parts[core::cores]) for core in range(cores)))
    return [
        Row(name, sum_counts([r.constrained for r in rows]), sum_counts([r.unconstrained for r in rows]))
        for name, rows in rows_by_format.items()
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long validity", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2000, help="how many questions (default: 2000)")
    parser.add_argument("--cores", type=int, default=2, help="how many engines run in parallel, one thread each")
    parser.add_argument("--free", type=int, default=4, help="ask every N-th question unconstrained too")
    parser.add_argument("--anew", action="store_true", help="discard the saved results of an earlier run")
    arguments = parser.parse_args()
    console = Console()
    saved = SavedParts("validity")
    if arguments.anew:
        saved.clear()
    # There are 1,054 questions in the four categories; a repeated question uses another format.
    questions = repeat_questions(load_questions(arguments.count), arguments.count)
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("questions", total=len(questions))
        rows = asyncio.run(
            measure(questions, arguments.free, arguments.cores, saved, lambda done: progress.advance(task, done))
        )
    minutes = sum(row.constrained.seconds for row in rows) / 60 / arguments.cores
    table = table_of(rows, len(questions), minutes, _ENGINE_NAME, arguments.free)
    print_table(table, console)
    parts = [_COMMAND.format(arguments.count), describe_environment(measured_environment()), markdown(table)]
    publish(_SECTION, "Valid calls from a weak model", parts)
    saved.clear()


if __name__ == "__main__":
    main()
