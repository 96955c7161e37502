"""Compare the costs of the specification with their targets, with an older checkout and with llguidance alone.

Two processes, one for each checkout, are asked by turns, so that both have the same share of a busy machine. The tables
go to the terminal and to docs/reference/results.md. `scripts/bench-targets`.
"""

import argparse
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any, Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.errors import FerruleError
from lab.environment import describe_environment, measured_environment
from lab.paths import CACHE, ROOT
from lab.results_page import publish
from lab.workers import Worker

Answer = dict[str, Any]
Request = Mapping[str, Any]

_SECTION: Final = "cost-targets"
_HEADING: Final = "The specification's cost targets"
_COMMAND: Final = """```sh
scripts/setup-oracles --bfcl
scripts/setup-llama
git worktree add ../before 6b1a517
scripts/bench-targets --before ../before
```"""
RATIO: Final = 1.3
"""Where llguidance alone takes longer than a target, what may be added to it is the target."""
FORMATS: Final = ("hermes", "qwen_xml")
MASK_FORMATS: Final = ("hermes", "qwen_xml", "llama3", "pythonic")
SETS: Final = {"sample": "generated", "bfcl": "BFCL's", "hard": "with hard keywords"}
SIZES: Final = (1, 100)
_ROUNDS: Final = 7
_ABOUT: Final = (
    "Each figure is the smallest of {rounds} rounds, with the two checkouts asked by turns. *before* is commit "
    "{before}. *llguidance alone* compiles the grammar that Ferrule emitted, or computes the bits of the same mask. "
    "*ratio* is *after* over *llguidance alone*. Where that alone exceeds a target, a ratio of {ratio} is the target. "
    "Compilation and parsing are in CPU time. *cold*: tools to a compiled grammar, for a vocabulary of 49,152 tokens, "
    "with all caches empty and `auto`. A mask is the function that programs call (`RequestState.mask`), in wall time, "
    "on an array of 32-bit floats: the median over the tokens of a rendered reply of two calls, in four formats, of "
    "each token's smallest time. *with llguidance's own helper*: its bits, applied by `llguidance.numpy`."
)
_NOTES: Final = (
    "Ferrule itself lowers the arguments of qwen_xml, node by node in Python, which takes longer than llguidance's "
    "compilation of the result. JSON arguments are one line for llguidance's own schema compiler.",
    "A schema with hard keywords (pattern, oneOf, patternProperties, references) is compiled once by itself before the "
    "grammar, to find what has to be relaxed: a millisecond or more of llguidance for each tool. Simple schemas, as "
    "nearly all of BFCL's are, need no such check.",
    "A mask has to write the logit of every forbidden token. To fill the array is the largest part of what is added to "
    "llguidance's bits.",
)
_MEMORY_ABOUT: Final = (
    "The line through the sizes for 1 and 100 generated tools. *text*: the grammar that is cached. *kept*: what "
    "Python keeps of it, with the fragment of each tool that a later set finds in the cache."
)


class CheckoutMissingError(FerruleError):
    """The path of the older checkout has no sources."""

    code = "bench_checkout_missing"


@dataclass(frozen=True, slots=True)
class Cost:
    """One row: what is asked, the target in seconds, and how its figures are written."""

    name: str
    request: Request
    target: float
    figure: str = "ours"
    includes_llguidance: bool = True
    """Whether the figure includes what llguidance takes alone, so that a ratio can be its target."""


def costs() -> list[Cost]:
    cold = [
        Cost(f"{count} tools cold, {SETS[kind]}, {format}", _cold(kind, count, format), target)
        for count, target, kinds in ((10, 10e-3, SETS), (500, 300e-3, ("sample", "bfcl")))
        for kind in kinds
        for format in FORMATS
    ]
    added = [
        Cost(f"one tool added to 500, {format}", {**_cold("sample", 500, format), "added": 1}, 300e-3)
        for format in FORMATS
    ]
    return [
        *(
            Cost(
                f"schema of a tool to its grammar, {SETS[kind]}",
                {"measure": "schema", "tools": kind, "count": count},
                1e-3,
                includes_llguidance=False,
            )
            for kind, count in (("sample", 50), ("hard", 12))
        ),
        *cold,
        *added,
        Cost("500 tools in the cache, key known", {"measure": "warm", "count": 500}, 20e-6),
        Cost("the key of 500 tools", {"measure": "warm", "count": 500}, 1e-3, "key"),
        *(Cost(f"parse of one call, {format}", {"measure": "parse", "format": format}, 1e-3) for format in FORMATS),
    ]


def _cold(kind: str, count: int, format: str) -> Request:
    return {"measure": "cold", "tools": kind, "count": count, "format": format, "choice": "auto"}


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/bench-targets", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("--before", type=Path, required=True, help="an older checkout of this repository")
    reader.add_argument("--rounds", type=int, default=_ROUNDS)
    parsed = reader.parse_args(arguments)
    before: Path = parsed.before.resolve()
    if not (before / "src" / "ferrule").is_dir():
        raise CheckoutMissingError(f"{before} has no src/ferrule", hint="git worktree add ../before COMMIT")
    console = Console(width=None if Console().is_terminal else 170)
    load = os.getloadavg()[0]
    with ExitStack() as stack:
        interpreter = ROOT / ".venv" / "bin" / "python"
        workers = [
            stack.enter_context(Worker(interpreter, "lab.cost_worker", "run scripts/setup", checkout / "src"))
            for checkout in (before, ROOT)
        ]
        tables = [_table(workers, parsed.rounds, console, _commit(before)), _memory_table(workers)]
    for table in tables:
        print_table(table, console)
    environment = describe_environment({**measured_environment(CACHE / "none")})
    where = f"{environment[:-1]}; llguidance {version('llguidance')}; load average {load:.1f} at the start."
    publish(_SECTION, _HEADING, [_COMMAND, where, *map(markdown, tables)])


def _commit(checkout: Path) -> str:
    """The commit of a checkout: its HEAD, which a worktree keeps beside the repository."""
    folder = checkout / ".git"
    if folder.is_file():
        folder = Path(folder.read_text(encoding="utf-8").removeprefix("gitdir: ").strip())
    return (folder / "HEAD").read_text(encoding="utf-8").strip()[:7]


def _table(workers: Sequence[Worker], rounds: int, console: Console, commit: str) -> Table:
    rows: list[list[str]] = []
    measured: dict[str, tuple[float, float]] = {}
    for cost in costs():
        console.print(f"targets: {cost.name}", markup=False, highlight=False)
        old, new = _smallest(workers, cost.request, rounds)
        alone = new.get("bare") if cost.figure == "ours" else None
        measured[cost.name] = (old[cost.figure], new[cost.figure])
        rows.append(row(cost.name, cost.target, old[cost.figure], new[cost.figure], alone, cost.includes_llguidance))
    for name in ("49k", "128k"):
        for line in _mask_rows(workers, name, rounds, console, measured):
            rows.append(line)
    total = [f"10 tools cold, {SETS['sample']}, hermes", "mask p50, 128,092 tokens", "parse of one call, hermes"]
    old_sum, new_sum = (sum(measured[name][at] for name in total) for at in (0, 1))
    rows.append(row("in all: 10 tools cold, a mask and a call, hermes", 10e-3, old_sum, new_sum, None))
    columns = ("cost", "target", "before", "after", "llguidance alone", "ratio", "")
    return Table("Targets", _ABOUT.format(rounds=rounds, before=commit, ratio=RATIO), columns, rows, _NOTES)


def _smallest(workers: Sequence[Worker], request: Request, rounds: int) -> list[Answer]:
    """The smallest of each figure, for each worker; the workers take turns."""
    answers: list[list[Answer]] = [[] for _ in workers]
    for _ in range(rounds):
        for worker, asked in zip(workers, answers, strict=True):
            asked.append(worker.ask(request))
    return [{key: min(answer[key] for answer in asked) for key in asked[0]} for asked in answers]


def _mask_rows(
    workers: Sequence[Worker], vocabulary: str, rounds: int, console: Console, measured: dict[str, tuple[float, float]]
) -> Iterator[list[str]]:
    steps: list[dict[str, list[float]]] = [{"ours": [], "bare": [], "helper": []} for _ in workers]
    size = 0
    for format in MASK_FORMATS:
        console.print(f"targets: masks of {vocabulary}, {format}", markup=False, highlight=False)
        request = {"measure": "mask", "vocabulary": vocabulary, "format": format, "choice": "auto"}
        answers: list[list[Answer]] = [[] for _ in workers]
        for _ in range(rounds):
            for worker, asked in zip(workers, answers, strict=True):
                asked.append(worker.ask(request))
        size = answers[0][0]["size"]
        for asked, found in zip(answers, steps, strict=True):
            for kind, times in found.items():
                times.extend(map(min, zip(*(answer[kind] for answer in asked), strict=True)))
    p50 = [{kind: median(times) / 1e6 for kind, times in found.items()} for found in steps]
    name = f"mask p50, {size:,} tokens"
    measured[name] = (p50[0]["ours"], p50[1]["ours"])
    yield row(name, 100e-6, p50[0]["ours"], p50[1]["ours"], p50[1]["bare"])
    yield ["with llguidance's own helper", "", "", duration(p50[1]["helper"]), duration(p50[1]["bare"]), "", ""]


def row(
    name: str, target: float, before: float, after: float, alone: float | None, may_use_ratio: bool = True
) -> list[str]:
    ratio = None if alone is None else after / alone
    figures = [duration(target), duration(before), duration(after)]
    compared = ["-", "-"] if alone is None or ratio is None else [duration(alone), f"{ratio:.2f}"]
    return [name, *figures, *compared, verdict(target, after, alone if may_use_ratio else None)]


def verdict(target: float, after: float, alone: float | None) -> str:
    if after < target:
        return "met"
    is_within = alone is not None and alone >= target / RATIO and after <= RATIO * alone
    return "met by ratio" if is_within else "missed"


def duration(seconds: float) -> str:
    unit, scale = ("µs", 1e6) if seconds < 1e-3 else ("ms", 1e3)
    figure = seconds * scale
    return f"{figure:,.0f} {unit}" if figure >= 100 else f"{figure:.3g} {unit}"


def _memory_table(workers: Sequence[Worker]) -> Table:
    rows: list[list[str]] = []
    for format in FORMATS:
        sizes = [
            [worker.ask({"measure": "memory", "format": format, "count": count}) for count in SIZES]
            for worker in workers
        ]
        for kind, label in (("ours", "text"), ("kept", "kept")):
            lines = [line([(n, one[kind]) for n, one in zip(SIZES, each, strict=True)]) for each in sizes]
            rows.append([f"{label}, {format}", *(f"{start / 1e3:.1f} + {slope / 1e3:.2f}" for start, slope in lines)])
    return Table("Memory, kB for a set + kB for each tool", _MEMORY_ABOUT, ("size", "before", "after"), rows)


def line(points: Sequence[tuple[int, float]]) -> tuple[float, float]:
    """The start and the slope of the line through the first and the last point."""
    (first, low), (last, high) = points[0], points[-1]
    slope = (high - low) / (last - first)
    return low - slope * first, slope


if __name__ == "__main__":
    main()
