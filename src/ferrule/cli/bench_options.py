"""What the measurements of `ferrule bench` share: options, and a table of results on a terminal or in a pipe."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, ArgumentTypeError
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.cli import streams, terminal

if TYPE_CHECKING:
    from ferrule.bench.tables import Table


def add_engine(parser: ArgumentParser) -> None:
    parser.add_argument("-e", "--engine", required=True, help="such as llama:MODEL.gguf, vllm:URL or openai:MODEL")


def add_data(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="BFCL's data: the folder that the official wheel was unpacked to"
    )


def at_least_one(given: str) -> int:
    if not given.isdecimal() or int(given) < 1:
        raise ArgumentTypeError(f"{given!r} is not a number from 1 on")
    return int(given)


def show(tables: Sequence[Table]) -> None:
    """For a person with what the numbers are; for a program the rows alone, an empty line between tables.

    What the numbers are goes to stderr then.
    """
    for number, table in enumerate(tables):
        about = [table.title, table.about.replace("*", "").replace("`", "")]
        if sys.stdout.isatty():
            terminal.show_lines(about)
            terminal.show_table(tuple(table.columns), [(*row,) for row in table.rows])
            terminal.show_lines(table.notes)
            continue
        lines = ("\t".join(terminal.seen(cell) for cell in row) for row in (table.columns, *table.rows))
        streams.write("\n" * bool(number) + "\n".join(lines) + "\n")
        print("\n".join(map(terminal.seen, [*about, *table.notes])), file=sys.stderr)
