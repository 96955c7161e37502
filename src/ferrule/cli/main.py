"""`ferrule`: picks the command, and turns what can go wrong into words on stderr and an exit code.

0: done. 1: an error of Ferrule's. 2: wrong usage. 130: interrupted. 141: the reader of the output went away.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version

from ferrule.cli import streams
from ferrule.cli.command import Command
from ferrule.errors import FerruleError

COMMANDS = (
    "formats",
    "parse",
    "render",
    "explain",
    "rule",
    "accepts",
    "inspect",
    "doctor",
    "bench",
    "chat",
    "serve",
    "config",
    "keys",
    "mcp",
    "worker",
    "capabilities",
    "approvals",
    "audit",
    "trace",
    "stats",
)
"""Each is a module of this room, read only where the line needs it: all of them together take seconds to import."""
FAILED, INTERRUPTED, READER_GONE = 1, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    streams.prepare()
    try:
        code = _run(argv)
        # Here and not when the interpreter ends: a reader that went away is noticed while it can be handled.
        sys.stdout.flush()
    except BrokenPipeError:
        streams.abandon_output()
        return READER_GONE
    except KeyboardInterrupt:
        return INTERRUPTED
    return code


def _run(argv: Sequence[str] | None) -> int:
    try:
        line = sys.argv[1:] if argv is None else argv
        arguments = command_line(_needed(line)).parse_args(line)
        arguments.run(arguments)
    except SystemExit as stop:
        # argparse leaves in this way after --help, --version and wrong usage; it has said everything.
        return stop.code if isinstance(stop.code, int) else 0
    except FerruleError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return FAILED
    return 0


def _needed(line: Sequence[str]) -> Sequence[str]:
    """The commands whose options must be known to read a line: help and a misspelt command need them all."""
    first = line[0] if line else ""
    if first == "--version":
        return ()
    return (first,) if first in COMMANDS else COMMANDS


def command(name: str) -> Command:
    """What the module of that name hands over."""
    found: Command = import_module(f"ferrule.cli.{name}").COMMAND
    return found


def command_line(names: Sequence[str] = COMMANDS) -> ArgumentParser:
    """These commands with their options."""
    parser = ArgumentParser(
        prog="ferrule",
        description="Ferrule binds language models to tools.",
        epilog="`ferrule COMMAND --help` explains a command.\n\nexample:\n  ferrule parse --format hermes < reply.txt",
        # argparse makes room for names by the length of the metavar below and the indent: `capabilities` needs both.
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, indent_increment=1),
    )
    parser.add_argument("--version", action="version", version=f"ferrule {_version()}")
    listed = parser.add_subparsers(title="commands", metavar="COMMAND OPTIONS", required=True)
    for one in map(command, names):
        added = listed.add_parser(
            one.name,
            help=one.about,
            description=f"{one.about}\n\n{one.more}",
            epilog=f"examples:\n{one.examples}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        one.add_options(added)
        added.set_defaults(run=one.run)
    return parser


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        return "(not installed)"
