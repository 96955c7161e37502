"""`ferrule bench bfcl`: BFCL v4's single-turn questions to an engine, its calls scored as the official scorer does."""

from __future__ import annotations

import asyncio
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.bench.bfcl.categories import CATEGORIES, chosen
from ferrule.bench.bfcl.client import Manner
from ferrule.bench.bfcl.engine_label import described, named
from ferrule.bench.bfcl.tasks import Task, tasks
from ferrule.bench.bfcl_requests import data_folder
from ferrule.cli import terminal
from ferrule.cli.bench_options import add_data, add_engine, at_least_one, show
from ferrule.engines.engine import Engine
from ferrule.engines.registry import ENGINES, load_engine, parts_of
from ferrule.errors import DefinitionError

if TYPE_CHECKING:
    from ferrule.bench.bfcl.run import Asked
    from ferrule.bench.bfcl.summary import Scored

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
    parser.add_argument("--count", type=at_least_one, metavar="N", help="a sample of N over the categories")
    parser.add_argument("--unconstrained", action="store_true", help="leave the model free: no rule, choice auto")
    parser.add_argument("--max-tokens", type=at_least_one, default=512, metavar="N", help="(default: %(default)s)")
    parser.add_argument("--width", type=at_least_one, default=4, metavar="N", help="questions at once (default: 4)")
    parser.add_argument(
        "--underscores", action="store_true", help="offer names with _ for each dot, for APIs that take no dots"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("bfcl-results"), metavar="DIR", help="answers, results (default: %(default)s)"
    )
    add_data(parser)


def run(arguments: Namespace) -> None:
    # Not before it is needed: tables bring rich along.
    from ferrule.bench.bfcl.report import miss_table, result_table
    from ferrule.bench.bfcl.run import kept, write

    data, is_underscored = data_folder(arguments.data), arguments.underscores
    questions = tasks(chosen(arguments.category), arguments.count, data, is_underscored=is_underscored)
    manner = Manner(not arguments.unconstrained, arguments.max_tokens, arguments.width)
    engine = _engine(arguments.engine, manner)
    with terminal.progress("asking", len(questions)) as advance:
        asked, found = asyncio.run(_measured(arguments, engine, questions, manner, advance))
    other = replace(asked, manner=replace(manner, is_constrained=not manner.is_constrained))
    runs = [one for one in (found, kept(other, arguments.out)) if one is not None]
    runs.sort(key=lambda one: not one.is_constrained)
    write(arguments.out, runs, asked)
    show([result_table(runs, asked.who), miss_table(runs)])
    print(f"Kept in {arguments.out}: the answers, results.json, results.md and bfcl.svg", file=sys.stderr)


def _engine(name: str, manner: Manner) -> Engine:
    kind = parts_of(name).kind
    if manner.is_constrained:
        return load_engine(name)
    entry = ENGINES.get(kind)
    if entry is not None and _FREE not in entry.known:
        free = ", ".join(sorted(one for one, held in ENGINES.items() if _FREE in held.known))
        raise DefinitionError(
            f"{kind} is not held by a rule of ours, so there is nothing to leave out",
            hint=f"--unconstrained is for {free}.",
        )
    return load_engine(name, **{_FREE: False})


async def _measured(
    arguments: Namespace, engine: Engine, questions: list[Task], manner: Manner, advance: Callable[[str], None]
) -> tuple[Asked, Scored]:
    from ferrule.bench.bfcl.run import Asked, run

    async with engine:
        who = await described(engine, named(arguments.engine))
        asked = Asked(questions, manner, who, arguments.underscores)
        return asked, await run(engine, asked, arguments.out, advance)
