"""`ferrule bench validity`: the share of valid calls, with and without the rule, judged by another validator."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ferrule.bench.bfcl.engine_label import engine_label
from ferrule.bench.bfcl_requests import Question, data_folder, load_questions
from ferrule.cli import terminal
from ferrule.cli.bench_options import add_data, add_engine, at_least_one, show
from ferrule.engines.engine import Engine
from ferrule.engines.registry import load_engine
from ferrule.engines.text.engine import TextEngine
from ferrule.errors import UnsupportedError

if TYPE_CHECKING:
    from ferrule.bench.validity import Row

_VALIDATOR = "jsonschema"


def add_options(parser: ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument("--count", type=at_least_one, default=100, metavar="N", help="questions (default: %(default)s)")
    parser.add_argument(
        "--format",
        action="append",
        default=[],
        metavar="NAME",
        help="the wire format, for engines that take one; may be given several times (default: the model's own)",
    )
    parser.add_argument(
        "--free",
        type=at_least_one,
        default=4,
        metavar="N",
        help="also ask every N-th question without a rule (default: 4)",
    )
    add_data(parser)


def run(arguments: Namespace) -> None:
    if find_spec(_VALIDATOR) is None:
        raise UnsupportedError(
            "the validator package jsonschema is not installed",
            code="missing_package",
            hint="pip install jsonschema",
        )
    from ferrule.bench.validity import repeat_questions, table_of

    questions = repeat_questions(load_questions(arguments.count, data=data_folder(arguments.data)), arguments.count)
    engine = load_engine(arguments.engine)
    started = time.monotonic()
    free = -(-len(questions) // arguments.free) if isinstance(engine, TextEngine) else 0
    with terminal.progress("asking", len(questions) + free) as advance:
        rows = asyncio.run(_rows(engine, questions, arguments.format, arguments.free, lambda: advance("asking")))
    minutes = (time.monotonic() - started) / 60
    show([table_of(rows, len(questions), minutes, engine_label(arguments.engine), arguments.free)])


async def _rows(
    engine: Engine, questions: list[Question], formats: list[str], every: int, advance: Callable[[], None]
) -> list[Row]:
    from ferrule.bench.validity import engine_pair, measure_row, questions_by_format

    async with engine:
        if not isinstance(engine, TextEngine):
            if formats:
                raise UnsupportedError(f"{engine.traits.name} has a wire format of its own", hint="Remove --format.")
            return [await measure_row("its own", engine, None, questions, every, advance)]
        names = formats or [(await engine.format()).name]
        shares = questions_by_format(questions, names)
        return [await measure_row(name, *engine_pair(engine, name), shares[name], every, advance) for name in names]
