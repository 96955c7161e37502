"""`ferrule bench validity`: how many replies are valid calls, under the rule and without it, by another validator."""

from __future__ import annotations

import asyncio
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Callable
from importlib.util import find_spec
from typing import TYPE_CHECKING

from ferrule.bench.bfcl.engine_label import named
from ferrule.bench.bfcl_requests import Question, data_folder, questions
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
        help="a wire format to speak, for engines that take one; may be given several times (default: the model's own)",
    )
    parser.add_argument(
        "--free", type=at_least_one, default=4, metavar="N", help="every N-th question without a rule too (default: 4)"
    )
    add_data(parser)


def run(arguments: Namespace) -> None:
    if find_spec(_VALIDATOR) is None:
        raise UnsupportedError(
            "the validator that judges the calls is not installed",
            code="missing_package",
            hint="pip install jsonschema",
        )
    from ferrule.bench.validity import repeated, table_of

    asked = repeated(questions(arguments.count, data=data_folder(arguments.data)), arguments.count)
    engine = load_engine(arguments.engine)
    started = time.monotonic()
    free = -(-len(asked) // arguments.free) if isinstance(engine, TextEngine) else 0
    with terminal.progress("asking", len(asked) + free) as advance:
        rows = asyncio.run(_rows(engine, asked, arguments.format, arguments.free, lambda: advance("asking")))
    minutes = (time.monotonic() - started) / 60
    show([table_of(rows, len(asked), minutes, named(arguments.engine), arguments.free)])


async def _rows(
    engine: Engine, asked: list[Question], formats: list[str], every: int, advance: Callable[[], None]
) -> list[Row]:
    from ferrule.bench.validity import both_ways, dealt, tallied

    async with engine:
        if not isinstance(engine, TextEngine):
            if formats:
                raise UnsupportedError(f"{engine.traits.name} has a wire format of its own", hint="Leave --format out.")
            return [await tallied("its own", engine, None, asked, every, advance)]
        names = formats or [(await engine.format()).name]
        shares = dealt(asked, names)
        return [await tallied(name, *both_ways(engine, name), shares[name], every, advance) for name in names]
