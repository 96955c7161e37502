"""How many replies are valid calls, format by format, under the rule and without it: `scripts/long validity`.

`ferrule bench validity` does the same on any engine; here it is the small model in process, on several cores, and a run
that was stopped continues where it was.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import CATEGORIES, Question, questions
from ferrule.bench.tables import markdown, show
from ferrule.bench.validity import FORMATS, Row, both_ways, dealt, repeated, summed, table_of, tallied
from ferrule.bench.validity_count import Tally
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text.engine import TextEngine, TextOptions
from lab.environment import circumstances, told
from lab.results_page import publish
from lab.saved_parts import Sittings
from lab.servers import MODEL

_SECTION: Final = "validity"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long validity {}\n```"
_SLOTS: Final = 4
# What is lost at most where a run is stopped; as many of each category.
_PART: Final = 6 * len(CATEGORIES)
_WHO: Final = "SmolLM2-135M-Instruct in process"


async def measured(
    asked: Sequence[Question], free_share: int, cores: int, kept: Sittings, advance: Callable[[int], None]
) -> list[Row]:
    """Each format under the rule, and every `free_share`-th of its questions without one."""
    shares = dealt(asked)
    parts = [
        (name, number, shares[name][at : at + _PART])
        for name in FORMATS
        for number, at in enumerate(range(0, len(shares[name]), _PART))
    ]
    found: dict[str, list[Row]] = {name: [] for name in FORMATS}

    async def run(mine: Sequence[tuple[str, int, Sequence[Question]]]) -> None:
        async with TextEngine(LlamaGenerator(MODEL, 1, _SLOTS, 4096), TextOptions()) as engine:
            for name, number, part in mine:

                async def both(name: str = name, part: Sequence[Question] = part) -> list[Any]:
                    started = time.monotonic()
                    row = await tallied(name, *both_ways(engine, name), part, free_share, lambda: None)
                    row.ruled.seconds = time.monotonic() - started
                    return [asdict(row.ruled), asdict(row.free)]

                ruled, free = await kept.part(f"{name} {number} of {len(asked)}, free {free_share}", both)
                found[name].append(Row(name, Tally(**ruled), Tally(**free)))
                advance(len(part))

    await asyncio.gather(*(run(parts[core::cores]) for core in range(cores)))
    return [Row(name, summed([r.ruled for r in rows]), summed([r.free for r in rows])) for name, rows in found.items()]


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long validity", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2000, help="how many questions (default: 2000)")
    parser.add_argument("--cores", type=int, default=2, help="how many engines run side by side, a thread each")
    parser.add_argument("--free", type=int, default=4, help="every how many-th question is also asked without a rule")
    parser.add_argument("--anew", action="store_true", help="measure again what an earlier run has measured")
    arguments = parser.parse_args()
    console = Console()
    kept = Sittings("validity")
    if arguments.anew:
        kept.forget()
    # There are 1,054 in the four categories; asked again, a question goes through another format.
    asked = repeated(questions(arguments.count), arguments.count)
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("questions", total=len(asked))
        rows = asyncio.run(
            measured(asked, arguments.free, arguments.cores, kept, lambda done: progress.advance(task, done))
        )
    minutes = sum(row.ruled.seconds for row in rows) / 60 / arguments.cores
    table = table_of(rows, len(asked), minutes, _WHO, arguments.free)
    show(table, console)
    parts = [_COMMAND.format(arguments.count), told(circumstances()), markdown(table)]
    publish(_SECTION, "Valid calls from a weak model", parts)
    kept.forget()


if __name__ == "__main__":
    main()
