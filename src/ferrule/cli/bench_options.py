"""Shared by the measurements of `ferrule bench`: options, and the output of result tables."""

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
    parser.add_argument(
        "-e", "--engine", required=True, help="such as hf:OWNER/NAME, llama:MODEL.gguf, vllm:URL or openai:MODEL"
    )


def add_data(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="BFCL's data: the directory where you unpacked the official wheel"
    )


def at_least_one(value: str) -> int:
    if not value.isdecimal() or int(value) < 1:
        raise ArgumentTypeError(f"{value!r} is not a number of 1 or more")
    return int(value)


def show(tables: Sequence[Table]) -> None:
    """Print tables with their explanations on a terminal.

    In a pipe stdout gets only the rows, with an empty line between tables, and stderr the explanations.
    """
    for number, table in enumerate(tables):
        about = [table.title, table.about.replace("*", "").replace("`", "")]
        if sys.stdout.isatty():
            terminal.show_lines(about)
            terminal.show_table(tuple(table.columns), [(*row,) for row in table.rows])
            terminal.show_lines(table.notes)
            continue
        lines = ("\t".join(terminal.printable(cell) for cell in row) for row in (table.columns, *table.rows))
        streams.write("\n" * bool(number) + "\n".join(lines) + "\n")
        print("\n".join(map(terminal.printable, [*about, *table.notes])), file=sys.stderr)
