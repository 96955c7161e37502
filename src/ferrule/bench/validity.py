"""How many replies are valid calls, format by format, under the rule and without it: `scripts/long validity`.

The same weights, questions and prompts both ways, in one run: first with a call required and held by the rule, then the
model left to itself. Each format gets its share of the questions, each category through each format.
"""

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import CATEGORIES, Question, questions
from ferrule.bench.circumstances import circumstances, told
from ferrule.bench.results_page import publish
from ferrule.bench.servers import MODEL
from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.validity_count import Tally, tally_engine
from ferrule.core.choice import ToolChoice
from ferrule.engines.llama import LlamaGenerator
from ferrule.engines.text import TextEngine, TextOptions

FORMATS: Final = ("hermes", "qwen_xml", "llama3", "mistral_v13", "pythonic", "generic_xml")
_SECTION: Final = "validity"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-oracles --bfcl\nscripts/long validity {}\n```"
_SLOTS: Final = 4


@dataclass(frozen=True, slots=True)
class Row:
    format: str
    ruled: Tally
    free: Tally


def dealt(asked: Sequence[Question]) -> dict[str, list[Question]]:
    """The questions dealt out over the formats, a category at a time, so that each comes through each of them."""
    width = len(CATEGORIES)
    groups = [asked[at : at + width] for at in range(0, len(asked), width)]
    return {name: [q for group in groups[n :: len(FORMATS)] for q in group] for n, name in enumerate(FORMATS)}


async def measured(asked: Sequence[Question], free_share: int, cores: int, advance: Callable[[], None]) -> list[Row]:
    """Each format under the rule, and every `free_share`-th of its questions without one."""
    shares = dealt(asked)
    rows: dict[str, Row] = {}

    async def run(names: Sequence[str]) -> None:
        backend = LlamaGenerator(MODEL, 1, _SLOTS, 4096)
        for name in names:
            ruled = TextEngine(backend, TextOptions(format=name))
            free = TextEngine(backend, TextOptions(format=name, is_constrained=False))
            held = await tally_engine(ruled, shares[name], ToolChoice.required(), advance=advance)
            left = await tally_engine(free, shares[name][::free_share], ToolChoice.auto(), advance=advance)
            rows[name] = Row(name, held, left)
        await backend.close()

    await asyncio.gather(*(run(FORMATS[core::cores]) for core in range(cores)))
    return [rows[name] for name in FORMATS]


def table_of(rows: Sequence[Row], count: int, minutes: float) -> Table:
    every = Row("together", _sum([row.ruled for row in rows]), _sum([row.free for row in rows]))
    return Table(
        f"{count} questions of BFCL v4 ({', '.join(CATEGORIES)}), six formats",
        "SmolLM2-135M-Instruct in process, at most 512 tokens. *valid*: replies with a call, all of whose calls name "
        "an offered tool and fit its schema by a validator that is not ours (`jsonschema`), and that were not cut off. "
        "*without*: the same model with the same prompts and no rule, on every fourth question.",
        ("format", "under the rule, valid", "calls", "invalid", "cut off", "refused", "without, valid"),
        [
            (
                *(row.format, f"{row.ruled.valid} of {row.ruled.replies} ({row.ruled.share})"),
                *map(str, (row.ruled.calls, row.ruled.invalid_calls, row.ruled.cut_off, row.ruled.refused)),
                f"{row.free.valid} of {row.free.replies} ({row.free.share})",
            )
            for row in (*rows, every)
        ],
        [f"{minutes:.0f} minutes", *(f"{row.format}: {problem}" for row in rows for problem in row.ruled.problems[:5])],
        words=2,
    )


def _sum(tallies: Sequence[Tally]) -> Tally:
    whole = Tally()
    for tally in tallies:
        for name in ("replies", "valid", "calls", "invalid_calls", "cut_off", "refused"):
            setattr(whole, name, getattr(whole, name) + getattr(tally, name))
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long validity", description=__doc__)
    parser.add_argument("count", nargs="?", type=int, default=2000, help="how many questions (default: 2000)")
    parser.add_argument("--cores", type=int, default=2, help="how many engines run side by side, a thread each")
    parser.add_argument("--free", type=int, default=4, help="every how many-th question is also asked without a rule")
    arguments = parser.parse_args()
    console = Console()
    # There are 1,054 in the four categories; asked again, a question goes through another format.
    once = questions(arguments.count)
    asked = [once[number % len(once)] for number in range(arguments.count)]
    started = time.monotonic()
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        task = progress.add_task("questions", total=len(asked) + len(asked) // arguments.free)
        rows = asyncio.run(measured(asked, arguments.free, arguments.cores, lambda: progress.advance(task)))
    table = table_of(rows, len(asked), (time.monotonic() - started) / 60)
    show(table, console)
    parts = [_COMMAND.format(arguments.count), told(circumstances()), markdown(table)]
    publish(_SECTION, "Valid calls from a weak model", parts)


if __name__ == "__main__":
    main()
