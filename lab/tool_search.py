"""Measure the search among tools: what it finds for BFCL's questions, and its cost. `scripts/long tool-search`.

A question counts as found if the tool that its answer calls is among the first k. BFCL has tools that share a name and
differ a little; such variants count as one tool in the second row, because a question fits each of them equally.
"""

import argparse
import random
import resource
import statistics
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, cast

from rich.console import Console

from ferrule.bench.bfcl_requests import data_folder, read_entries
from ferrule.bench.bfcl_tools import distinct_documents, function_documents, normalize_types
from ferrule.bench.tables import Table, markdown, print_table
from ferrule.core.tool import ToolDefinition
from ferrule.core.tool_use import ToolUse
from ferrule.sources.search.tool_index import ToolIndex
from ferrule.sources.search.tool_text import searchable_text
from ferrule.sources.search.usage_prior import HIGHEST, LOWEST, usage_prior
from lab.environment import describe_environment, measured_environment
from lab.growth_plot import Panel, plot
from lab.results_page import PAGE, publish

_SECTION: Final = "tool-search"
_HEADING: Final = "Search among tools"
_PICTURE: Final = Path("images/tool-search.svg")
_COMMAND: Final = "```sh\nscripts/setup-oracles --bfcl\nscripts/long tool-search\n```"
_FOUND_ABOUT: Final = (
    "The share of questions of BFCL v4 whose right tool is among the first k: those of `simple_python` against the "
    "tools of it and of `multiple`, then those of both against all distinct tools of BFCL. In the second row tools of "
    "one name count as one."
)
_COST_ABOUT: Final = (
    "Copies of the tools under other names, 200 questions at each size, milliseconds. *Build*: seconds of CPU for the "
    "whole index. *One changed*: milliseconds of CPU for an update in which one tool differs. *Memory*: growth of "
    "a process for each size, at its largest: the index and what building it takes."
)
_USAGE_ABOUT: Final = (
    "The first row of *Found* again, with a prior from usage: searches of earlier questions load five tools each, and "
    "the right one among them is called. *Alike*: every tool is loaded and called as often as any other. *Drawn*: "
    "4,000 earlier questions, each equally likely. *Zipf*: 2,000 earlier ones and the counted ones come from one "
    "distribution, in which the second most frequent question is half as frequent as the first. *Wrong*: every factor "
    "is one of the two bounds, by chance: the worst that usage can do. Means over ten seeds; the two rows of Zipf "
    "compare."
)
SIZES: Final = (100, 1_000, 10_000, 100_000)
_RANKS: Final = (1, 3, 5, 10)
_SEEDS: Final = 10

Question = tuple[str, str]


def tool_of(function: Mapping[str, Any], name: str = "") -> ToolDefinition:
    parameters = normalize_types(function["parameters"])[0]
    return ToolDefinition(name or function["name"], function.get("description", ""), parameters)


def questions_of(category: str, data: Path) -> tuple[list[Question], dict[str, ToolDefinition]]:
    """The questions with the name of the right tool, and all tools of a category."""
    questions: list[Question] = []
    tools: dict[str, ToolDefinition] = {}
    answers = {one["id"]: one["ground_truth"] for one in read_entries(category, data, "possible_answer/")}
    for entry in read_entries(category, data):
        for function in entry["function"]:
            tools.setdefault(function["name"], tool_of(function))
        turns = cast("list[list[Mapping[str, str]]]", entry["question"])
        questions.append((turns[0][-1]["content"], next(iter(answers[entry["id"]][0]))))
    return questions, tools


def recall(index: ToolIndex, questions: Sequence[Question], name_of: Mapping[str, str]) -> list[float]:
    ranks: list[int] = []
    for text, right in questions:
        found = dict.fromkeys(name_of[match.tool.name] for match in index.search(text, 4 * max(_RANKS)))
        ranks.append(list(found).index(right) if right in found else max(_RANKS))
    return [sum(rank < k for rank in ranks) / len(ranks) for k in _RANKS]


def found_table(data: Path) -> Table:
    simple, simple_tools = questions_of("simple_python", data)
    multiple, multiple_tools = questions_of("multiple", data)
    small = {**multiple_tools, **simple_tools}
    # Names must be unique in an index: variants get a number, which no question contains.
    variants = {
        f"{document.name}.tool_{number}"[-128:]: document
        for number, document in enumerate(distinct_documents(function_documents(data)))
    }
    unique = [ToolDefinition(name, one.description, one.parameters) for name, one in variants.items()]
    name_of = {name: one.name for name, one in variants.items()}
    rows = [
        _found_row("the tools of two files", ToolIndex(small.values()), simple, {name: name for name in small}),
        _found_row("all distinct tools", ToolIndex(unique), [*simple, *multiple], name_of),
    ]
    return Table("Found", _FOUND_ABOUT, ("tools", "number", "questions", *(f"among {k}" for k in _RANKS)), tuple(rows))


def _found_row(
    label: str, index: ToolIndex, questions: Sequence[Question], name_of: Mapping[str, str]
) -> tuple[str, ...]:
    shares = (f"{share:.3f}" for share in recall(index, questions, name_of))
    return label, f"{len(index):,}", f"{len(questions):,}", *shares


def usage_table(data: Path) -> Table:
    questions, simple_tools = questions_of("simple_python", data)
    index = ToolIndex({**questions_of("multiple", data)[1], **simple_tools}.values())
    loads = {text: [match.tool.name for match in index.search(text)] for text, _ in questions}
    alike = usage_prior([ToolUse(match, 0.0, 50, 10) for match in {right for _, right in questions}], 0.0)
    shares: dict[str, list[list[float]]] = {}
    for seed in range(_SEEDS):
        chance = random.Random(seed)
        order = chance.sample(questions, len(questions))
        zipf = [1 / (place + 1) for place in range(len(order))]
        even = [1.0] * len(order)
        wrong = {match: chance.choice((LOWEST, HIGHEST)) for _, match in sorted(questions)}
        cases: dict[str, tuple[Mapping[str, float], list[float]]] = {
            "none": ({}, even),
            "alike": (alike, even),
            "drawn": (_prior_of(chance.choices(order, k=4_000), loads), even),
            "wrong": (wrong, even),
            "Zipf, none": ({}, zipf),
            "Zipf": (_prior_of(chance.choices(order, zipf, k=2_000), loads), zipf),
        }
        for label, (prior, weights) in cases.items():
            shares.setdefault(label, []).append(_weighted_recall(index, order, weights, prior))
    rows = [
        (label, *(f"{statistics.mean(share):.3f}" for share in zip(*seeds, strict=True)))
        for label, seeds in shares.items()
    ]
    return Table("Usage", _USAGE_ABOUT, ("usage", *(f"among {k}" for k in _RANKS)), tuple(rows))


def _prior_of(earlier: Sequence[Question], loads: Mapping[str, Sequence[str]]) -> dict[str, float]:
    loaded = Counter(name for text, _ in earlier for name in loads[text])
    called = Counter(right for text, right in earlier if right in loads[text])
    return usage_prior([ToolUse(name, 0.0, count, called[name]) for name, count in loaded.items()], 0.0)


def _weighted_recall(
    index: ToolIndex, questions: Sequence[Question], weights: Sequence[float], prior: Mapping[str, float]
) -> list[float]:
    found = {text: [match.tool.name for match in index.search(text, max(_RANKS), prior=prior)] for text, _ in questions}
    counted = list(zip(questions, weights, strict=True))
    return [sum(weight for (text, right), weight in counted if right in found[text][:k]) / sum(weights) for k in _RANKS]


@dataclass(frozen=True, slots=True)
class SearchCost:
    """What the index of so many tools costs: searches and changes in milliseconds, memory in MB."""

    size: int
    p50: float
    p95: float
    build_seconds: float
    change: float
    memory: float
    characters: int

    @property
    def row(self) -> tuple[str, ...]:
        figures = (self.p50, self.p95, self.build_seconds, self.change, self.memory)
        return f"{self.size:,}", *(f"{figure:.2f}" for figure in figures), f"{self.characters:,}"


def costs_of(data: Path, sizes: Iterable[int]) -> list[SearchCost]:
    """Measure each size in a process of its own, because memory that was freed counts as used."""
    costs: list[SearchCost] = []
    for size in sizes:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process:
            costs.append(process.submit(cost_of, data, size).result())
    return costs


def cost_table(costs: Iterable[SearchCost]) -> Table:
    columns = ("tools", "search p50", "search p95", "build (s)", "one changed", "memory (MB)", "characters read")
    return Table("Cost", _COST_ABOUT, columns, tuple(cost.row for cost in costs))


def cost_picture(costs: Sequence[SearchCost]) -> str:
    panels = [
        Panel(
            "search, ms",
            {"p50": [(cost.size, cost.p50) for cost in costs], "p95": [(cost.size, cost.p95) for cost in costs]},
        ),
        Panel("build, s of CPU", {"index": [(cost.size, cost.build_seconds) for cost in costs]}),
        Panel("memory, MB", {"index": [(cost.size, max(cost.memory, 0.1)) for cost in costs]}),
    ]
    return plot("Search among tools", "number of tools", "Cost of the index", panels)


def cost_of(data: Path, size: int) -> SearchCost:
    questions, by_name = questions_of("simple_python", data)
    originals = list(by_name.values())
    tools = [
        ToolDefinition(f"{one.name}_v{number // len(originals)}", one.description, one.parameters)
        for number in range(size)
        for one in (originals[number % len(originals)],)
    ]
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    started = time.process_time()
    index = ToolIndex(tools)
    build = time.process_time() - started
    times: list[float] = []
    for text, _ in questions[:200]:
        started = time.perf_counter()
        index.search(text)
        times.append((time.perf_counter() - started) * 1e3)
    changes: list[float] = []
    for number in range(10):
        tools[number] = ToolDefinition(tools[number].name, f"changed {number}", tools[number].parameters)
        started = time.process_time()
        index.update(tools)
        changes.append((time.process_time() - started) * 1e3)
    memory = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return SearchCost(
        size=size,
        p50=statistics.median(times),
        p95=statistics.quantiles(times, n=20)[-1],
        build_seconds=build,
        change=statistics.median(changes),
        memory=memory,
        characters=sum(len(text.main) + len(text.values) for text in map(searchable_text, tools)),
    )


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long tool-search")
    parser.add_argument("--print", action="store_true", help="print only; the page stays unchanged")
    arguments = parser.parse_args()
    data = data_folder()
    console = Console(width=140)
    tables = [found_table(data)]
    print_table(tables[0], console)
    tables.append(usage_table(data))
    print_table(tables[-1], console)
    costs = costs_of(data, SIZES)
    tables.append(cost_table(costs))
    print_table(tables[-1], console)
    if not arguments.print:
        (PAGE.parent / _PICTURE).write_text(cost_picture(costs), encoding="utf-8")
        picture = f"![Milliseconds of a search, and what the index takes, by the number of tools]({_PICTURE})"
        parts = [_COMMAND, describe_environment(measured_environment()), *map(markdown, tables), picture]
        publish(_SECTION, _HEADING, parts)


if __name__ == "__main__":
    main()
