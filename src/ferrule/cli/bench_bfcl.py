"""`ferrule bench bfcl`: sends BFCL v4's single-turn questions to an engine and scores its calls."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.bench.bfcl.categories import CATEGORIES, select_categories
from ferrule.bench.bfcl.client import RunOptions
from ferrule.bench.bfcl.engine_label import engine_label, label_with_format
from ferrule.bench.bfcl.tasks import Task, load_tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.cli import terminal
from ferrule.cli.bench_options import add_data, add_engine, at_least_one, show
from ferrule.engines.engine import Engine
from ferrule.engines.registry import ENGINES, load_engine, parse_engine_spec
from ferrule.errors import DefinitionError

if TYPE_CHECKING:
    from ferrule.bench.bfcl.run import RunPlan
    from ferrule.bench.bfcl.summary import RunScore

_FREE = "is_constrained"


def add_options(parser: ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--category",
        action="append",
        default=[],
        metavar="NAME",
        help=f"one of {', '.join(CATEGORIES)}; may be given several times (default: all)",
    )
    parser.add_argument("--count", type=at_least_one, metavar="N", help="a sample of N questions over the categories")
    parser.add_argument("--unconstrained", action="store_true", help="no rule, and tool_choice auto")
    parser.add_argument("--max-tokens", type=at_least_one, default=512, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--width", type=at_least_one, default=4, metavar="N", help="concurrent questions (default: 4)")
    parser.add_argument(
        "--underscores", action="store_true", help="replace dots in tool names by _, for APIs that refuse dots"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("bfcl-results"),
        metavar="DIR",
        help="where to save answers and results (default: %(default)s)",
    )
    add_data(parser)


def run(arguments: Namespace) -> None:
    # Imported late: tables import rich.
    from ferrule.bench.bfcl.report import miss_table, result_table
    from ferrule.bench.bfcl.run import load_previous, write

    data, is_underscored = data_folder(arguments.data), arguments.underscores
    questions = load_tasks(select_categories(arguments.category), arguments.count, data, is_underscored=is_underscored)
    options = RunOptions(not arguments.unconstrained, arguments.max_tokens, arguments.width)
    engine = _engine(arguments.engine, options)
    with terminal.progress("asking", len(questions)) as advance:
        plan, score = asyncio.run(_measure(arguments, engine, questions, options, advance))
    other = replace(plan, options=replace(options, is_constrained=not options.is_constrained))
    runs = [entry for entry in (score, load_previous(other, arguments.out)) if entry is not None]
    runs.sort(key=lambda entry: not entry.is_constrained)
    write(arguments.out, runs, plan)
    show([result_table(runs, plan.engine_name), miss_table(runs)])
    print(f"Saved in {arguments.out}: the answers, results.json, results.md and bfcl.svg", file=sys.stderr)


def _engine(name: str, options: RunOptions) -> Engine:
    kind = parse_engine_spec(name).kind
    if options.is_constrained:
        return load_engine(name)
    entry = ENGINES.get(kind)
    if entry is not None and _FREE not in entry.all_parsers:
        free = ", ".join(
            sorted(kind_of_engine for kind_of_engine, engine in ENGINES.items() if _FREE in engine.all_parsers)
        )
        raise DefinitionError(
            f"{kind} does not use a rule, so --unconstrained has no effect",
            hint=f"--unconstrained is for {free}.",
        )
    return load_engine(name, **{_FREE: False})


async def _measure(
    arguments: Namespace, engine: Engine, questions: list[Task], options: RunOptions, advance: Callable[[str], None]
) -> tuple[RunPlan, RunScore]:
    from ferrule.bench.bfcl.run import RunPlan, run

    async with engine:
        label = await label_with_format(engine, engine_label(arguments.engine))
        plan = RunPlan(questions, options, label, arguments.underscores)
        return plan, await run(engine, plan, arguments.out, advance)
