"""Command: what each file of this room hands to `main`, and the options that several commands share."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable
from dataclasses import dataclass

from ferrule.cli.tools_file import read_tools
from ferrule.wire.format import Format
from ferrule.wire.registry import get_format, preset


@dataclass(frozen=True, slots=True)
class Command:
    """`about` is one line in the list of commands, `more` and `examples` stand in the command's own help."""

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
        type=chosen_format,
        metavar="NAME",
        help="the wire format (see `ferrule formats`); of several joined by commas, all are read, the first is written",
    )


def add_tools_option(parser: ArgumentParser) -> None:
    parser.add_argument(
        "-t",
        "--tools",
        type=read_tools,
        metavar="FILE",
        help="a JSON file of the tools on offer: their schemas type what the wire leaves untyped",
    )


def chosen_format(names: str) -> Format:
    """The format of that name, or a preset of several names joined by commas, the earlier before the later."""
    wanted = list(dict.fromkeys(name.strip() for name in names.split(",")))
    if not all(wanted):
        raise ArgumentTypeError(f"a name is missing in {names!r}")
    return preset(",".join(wanted), wanted) if len(wanted) > 1 else get_format(wanted[0])
