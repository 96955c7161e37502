"""Command: what each command module exports to `main`, and the options that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from ferrule.cli.tools_file import read_tools
from ferrule.wire.format import Format
from ferrule.wire.registry import get_format, preset


@dataclass(frozen=True, slots=True)
class Command:
    """One command. `about` is its line in the list of commands; `more` and `examples` appear in its own help."""

    name: str
    about: str
    more: str
    examples: str
    add_options: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], None]


def add_format_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--format",
        required=True,
        type=parse_format,
        metavar="NAME",
        help="the wire format (see `ferrule formats`); with several, separated by commas, all are parsed and the first "
        "is rendered",
    )


def add_tools_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-t",
        "--tools",
        type=read_tools,
        metavar="FILE",
        help="a JSON file of the tools; their schemas give types to values that the format writes without one",
    )


def parse_format(names: str) -> Format:
    """Look up a format by name, or build a preset from several names separated by commas, in that order."""
    formats = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if not all(formats):
        raise ArgumentTypeError(f"a name is missing in {names!r}")
    return preset(",".join(formats), formats) if len(formats) > 1 else get_format(formats[0])
