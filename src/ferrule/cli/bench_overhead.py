"""`ferrule bench overhead`: tokens per second with the rule, compared to the same engine without it."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from collections.abc import Callable

from ferrule.bench.bfcl.engine_label import engine_label
from ferrule.cli import terminal
from ferrule.cli.bench_options import add_engine, at_least_one, show
from ferrule.engines.registry import load_engine
from ferrule.engines.text.engine import TextEngine
from ferrule.errors import UnsupportedError


def add_options(parser: ArgumentParser) -> None:
    add_engine(parser)
    parser.add_argument(
        "--rounds", type=at_least_one, default=7, metavar="N", help="pairs of runs (default: %(default)s)"
    )


def run(arguments: Namespace) -> None:
    from ferrule.bench.engine_costs import table_of

    engine = load_engine(arguments.engine)
    if not isinstance(engine, TextEngine):
        raise UnsupportedError(
            f"{engine.traits.name} cannot run without Ferrule: its provider renders the prompt and parses the calls",
            hint="Measure an engine that Ferrule constrains with a rule: llama, llama-server, sglang or vllm.",
        )
    with terminal.progress("running", arguments.rounds + 1) as advance:
        row = asyncio.run(_row(engine, engine_label(arguments.engine), arguments.rounds, lambda: advance("running")))
    show([table_of([row])])


async def _row(engine: TextEngine, name: str, rounds: int, advance: Callable[[], None]) -> tuple[str, ...]:
    from ferrule.bench.engine_costs import measure, row_of

    async with engine:
        return row_of(name, await measure(engine, rounds, advance))
