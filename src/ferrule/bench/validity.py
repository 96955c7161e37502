"""How many replies are valid calls, format by format, under the rule and without it: `scripts/long validity`.

The same weights, questions and prompts both ways, in one run: first with a call required and held by the rule, then the
model left to itself. Each format gets its share of the questions, each category through each format. `ferrule bench
validity` does the same on any engine.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import CATEGORIES, Question, questions
from ferrule.bench.circumstances import circumstances, told
from ferrule.bench.results_page import publish
from ferrule.bench.servers import MODEL
from ferrule.bench.sittings import Sittings
from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.validity_count import Tally, tally_engine
from ferrule.core.choice import ToolChoice
from ferrule.engines.engine import Engine
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text import TextEngine, TextOptions

FORMATS: Final = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml")
_SECTION: Final = "validity"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long validity {}\n```"
_SLOTS: Final = 4
# What is lost at most where a run is stopped; as many of each category.
_PART: Final = 6 * len(CATEGORIES)
_WHO: Final = "SmolLM2-135M-Instruct in process"


@dataclass(frozen=True, slots=True)
class Row:
    format: str
    ruled: Tally
    free: Tally


def dealt(asked: Sequence[Question], names: Sequence[str] = FORMATS) -> dict[str, list[Question]]:
    """The questions dealt out over the formats, a category at a time, so that each comes through each of them."""
    width = len(CATEGORIES)
    groups = [asked[at : at + width] for at in range(0, len(asked), width)]
    return {name: [q for group in groups[n :: len(names)] for q in group] for n, name in enumerate(names)}


def both_ways(engine: TextEngine, format: str) -> tuple[TextEngine, TextEngine]:
    """The engine's backend in that format, under the rule and left free."""
    ruled = replace(engine.options, format=format, is_constrained=True)
    return TextEngine(engine.generator, ruled), TextEngine(engine.generator, replace(ruled, is_constrained=False))


async def tallied(
    name: str, ruled: Engine, free: Engine | None, asked: Sequence[Question], every: int, advance: Callable[[], None]
) -> Row:
    """The questions under the rule and, where the engine can be left free, every so many-th of them without one."""
    held = await tally_engine(ruled, asked, ToolChoice.required(), advance=advance)
    left = await tally_engine(free, asked[::every], ToolChoice.auto(), advance=advance) if free else Tally()
    return Row(name, held, left)


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
    return [Row(name, _sum([r.ruled for r in rows]), _sum([r.free for r in rows])) for name, rows in found.items()]


def table_of(rows: Sequence[Row], count: int, minutes: float, who: str, every: int) -> Table:
    together = Row("together", _sum([row.ruled for row in rows]), _sum([row.free for row in rows]))
    return Table(
        f"{count} questions of BFCL v4 ({', '.join(CATEGORIES)})",
        f"{who}, at most 512 tokens. *valid*: replies with a call, all of whose calls name "
        "an offered tool and fit its schema by a validator that is not ours (`jsonschema`), and that were not cut off. "
        f"*without*: the same model with the same prompts and no rule, on one of every {every} questions.",
        ("format", "under the rule, valid", "calls", "invalid", "cut off", "refused", "failed", "without, valid"),
        [
            (
                *(row.format, _share(row.ruled)),
                *map(str, (row.ruled.calls, row.ruled.invalid_calls, row.ruled.cut_off, row.ruled.refused)),
                *(str(row.ruled.errors), _share(row.free)),
            )
            for row in (*rows, together)
        ],
        [f"{minutes:.0f} minutes", *(f"{row.format}: {problem}" for row in rows for problem in row.ruled.problems[:5])],
        words=2,
    )


def _share(tally: Tally) -> str:
    return f"{tally.valid} of {tally.replies} ({tally.share})" if tally.replies else "-"


def _sum(tallies: Sequence[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        for name in (
            "replies",
            "valid",
            "calls",
            "invalid_calls",
            "cut_off",
            "refused",
            "errors",
            "seconds",
            "problems",
        ):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def repeated(once: Sequence[Question], count: int) -> list[Question]:
    """So many questions, from the first again where there are fewer."""
    return [once[number % len(once)] for number in range(count)] if once else []


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
