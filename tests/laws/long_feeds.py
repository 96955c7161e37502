"""Read mutated and very long texts in one feed, in every format: `scripts/long feeds [N]`.

The laws take a few thousand mutated texts and small sizes at every check. This script takes as many as you ask for and
texts of 4 MB, and writes the CPU time of one feed, by size, to docs/reference/results.md.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.wire.format import Format
from lab.environment import describe_environment, measured_environment
from lab.results_page import publish
from lab.saved_parts import SavedParts
from laws.feed_costs import feed_cost
from laws.hard_texts import beginnings, call_with, deep_texts, hard_texts, mutated_text, repeated
from laws.test_mutated_texts import FORMATS, check

SIZES: Final = (16_000, 256_000, 4_000_000)
_RUNS: Final = (5, 2, 1)
_TRIAL: Final = 8_000
_DEPTH: Final = 100_000
_SECTION: Final = "feeds"
_HEADING: Final = "One feed of any size"
_ABOUT: Final = (
    "A text arrives in one piece, as a server without streaming sends it, or as a client's history holds it. It is "
    "read by the parser of the format and by the readers of drifted calls and debris, as in an engine. "
    "Python's garbage collector is off during a run."
)


@dataclass(frozen=True, slots=True)
class Costs:
    """CPU seconds of one feed of a text, for each size, and how the text is made."""

    kind: str
    sizes: list[int]
    seconds: list[float]

    def growth(self, place: int) -> float:
        """How many times more a character costs at this size than at the smallest."""
        return (self.seconds[place] / self.sizes[place]) / (self.seconds[0] / self.sizes[0])


def hostile_texts(form: Format, size: int) -> dict[str, str]:
    """Every hard text of this size: the texts of law 7, and each beginning of a call repeated."""
    texts = hard_texts(form, size)
    texts.pop("a long value")
    return texts | {unit: repeated(unit, size) for unit in beginnings(form, 16)}


def worst_kind(form: Format) -> str:
    """The hostile text whose characters cost most."""
    texts = {kind: text for kind, text in hostile_texts(form, _TRIAL).items() if text}
    return max(texts, key=lambda kind: min(feed_cost(form, texts[kind]) for _ in range(2)) / len(texts[kind]))


def measure(form: Format, kind: str, *, is_large: bool = True) -> Costs:
    """The costs of a text of one kind in all sizes, or all but the largest. "" is a call with a long argument."""
    sizes: list[int] = []
    seconds: list[float] = []
    for size, runs in list(zip(SIZES, _RUNS, strict=True))[: None if is_large else -1]:
        text = hostile_texts(form, size)[kind] if kind else call_with(form, "x = 'y'; " * (size // 9))
        gc.collect()
        sizes.append(len(text))
        seconds.append(min(feed_cost(form, text) for _ in range(runs)))
    return Costs(kind, sizes, seconds)


def check_mutated(name: str, count: int) -> list[str]:
    """Check mutated texts of a format; return those that broke a law, with what they broke."""
    problems: list[str] = []
    form = FORMATS[name]
    for number in range(count):
        key = f"long {name} {number}"
        text = mutated_text(form, key)
        # Everything that a text can cause is a finding; the run continues with the next.
        try:
            check(form, text, key)
        except Exception as error:
            problems.append(f"{key}: {type(error).__name__}: {str(error)[:120]}")
    return problems


def check_large(name: str) -> list[str]:
    """Check a mutated text of 4 MB, and one nested deeper than Python's stack; return what broke a law."""
    form = FORMATS[name]
    deep = list(deep_texts(form, _DEPTH))
    key = f"large {name}"
    texts = {"4 MB": repeated(mutated_text(form, key), SIZES[-1]), "deep": deep[len(name) * 7 % len(deep)]}
    problems: list[str] = []
    for kind, text in texts.items():
        # Everything that a text can cause is a finding; the run continues with the next.
        try:
            check(form, text, key)
        except Exception as error:
            problems.append(f"{key}, {kind}: {type(error).__name__}: {str(error)[:120]}")
    return problems


def cost_table(title: str, about: str, costs: dict[str, Costs], *, shows_kind: bool) -> Table:
    rows: list[tuple[str, ...]] = []
    for name, cost in costs.items():
        seconds = [f"{value:.4f}" for value in cost.seconds]
        growths = [f"{cost.growth(place):.2f}" for place in range(1, len(cost.seconds))]
        gap = ["-"] * (len(SIZES) - len(seconds))
        rows.append((name, *([_shown(cost.kind)] if shows_kind else []), *seconds, *gap, *growths, *gap))
    worst = [max(c.growth(at) for c in costs.values() if at < len(c.seconds)) for at in range(1, len(SIZES))]
    rows.append(("largest", *[""] * (len(SIZES) + shows_kind), *(f"{value:.2f}" for value in worst)))
    columns = ("16 kB", "256 kB", "4 MB", "growth to 256 kB", "growth to 4 MB")
    heads = ("format", "text", *columns) if shows_kind else ("format", *columns)
    return Table(title, about, heads, rows, text_columns=1 + shows_kind)


def _shown(kind: str) -> str:
    shown = repr(kind)[1:-1]
    return shown if len(shown) <= 40 else f"...{shown[-37:]}"


def spread(count: int) -> set[str]:
    """The names of this many formats, at equal distances in the list of all."""
    names = list(FORMATS)
    return {names[place * len(names) // count] for place in range(count)}


async def run(count: int, large: set[str], parts: SavedParts) -> tuple[list[Table], int]:
    """Measure and check everything that is not stored yet; return the tables and how many texts broke a law."""
    each = -(-count // len(FORMATS))
    benign: dict[str, Costs] = {}
    hostile: dict[str, Costs] = {}
    mutated: list[str] = []
    huge: list[str] = []

    async def part(name: str, value: Callable[[], Any]) -> Any:
        async def evaluate() -> Any:
            return value()

        return await parts.part(name, evaluate)

    for name, form in FORMATS.items():
        is_large = name in large

        def hostile_costs(form: Format = form, is_large: bool = is_large) -> Any:
            return asdict(measure(form, worst_kind(form), is_large=is_large))

        benign[name] = Costs(**await part(f"benign {name}", lambda form=form: asdict(measure(form, ""))))
        hostile[name] = Costs(**await part(f"hostile {name} {is_large}", hostile_costs))
        mutated += await part(f"mutated {name} {each}", lambda name=name: check_mutated(name, each))
        if is_large:
            huge += await part(f"large {name}", lambda name=name: check_large(name))
        print(name, hostile[name].seconds, len(mutated) + len(huge), file=sys.stderr, flush=True)
    growth = "*Growth*: CPU time per character, over that at 16 kB; 1 is linear, 250 at 4 MB is quadratic."
    tables = [
        Table(
            "Mutated texts",
            "Replies with calls in which markers, pieces and nestings were added, doubled or removed; read in one feed "
            "and in random pieces. *Problems*: an exception, a difference between the two, a character that is lost or "
            "doubled, or a complete call whose arguments are no JSON object.",
            ("texts", "formats", "read", "problems"),
            [
                ("mutated", str(len(FORMATS)), str(each * len(FORMATS)), str(len(mutated))),
                (f"mutated, of 4 MB; {_DEPTH:,} levels deep", str(len(large)), str(2 * len(large)), str(len(huge))),
            ],
            [*mutated[:20], *huge[:20]],
        ),
        cost_table(
            "A long argument", f"CPU seconds for one call with one long string. {growth}", benign, shows_kind=False
        ),
        cost_table(
            "The worst hostile text",
            "CPU seconds for the text that costs most per character, of all texts of law 7 and sixteen beginnings of a "
            f"call, repeated: the name of the text, or the end of what is repeated. {growth}",
            hostile,
            shows_kind=True,
        ),
    ]
    return tables, len(mutated) + len(huge)


def main(arguments: Sequence[str] | None = None) -> int:
    reader = argparse.ArgumentParser(prog="scripts/long feeds", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("texts", nargs="?", type=int, default=100_000, help="mutated texts (default: 100000)")
    reader.add_argument(
        "--large",
        type=int,
        default=len(FORMATS),
        help="formats whose hostile texts are also read at 4 MB (default: all)",
    )
    reader.add_argument("--print", action="store_true", help="print the tables and do not write them to the page")
    options = reader.parse_args(arguments)
    parts = SavedParts("feeds")
    tables, problems = asyncio.run(run(options.texts, spread(options.large), parts))
    console = Console()
    for table in tables:
        print_table(table, console)
    if not options.print:
        command = f"```sh\nscripts/long feeds {options.texts} --large {options.large}\n```"
        environment = describe_environment(measured_environment())
        publish(_SECTION, _HEADING, [command, _ABOUT, f"Measured {environment}", *map(markdown, tables)])
        parts.clear()
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
