"""`ferrule`: runs a command, and turns errors into a message on stderr and an exit code.

0: success. 1: an error. 2: wrong usage. 130: interrupted. 141: the reader of the output closed the pipe.
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
    "init",
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
    "tools",
    "worker",
    "capabilities",
    "ledger",
    "approvals",
    "audit",
    "trace",
    "stats",
)
"""Each is a module of this package, imported only if needed: importing all of them takes seconds."""
FAILED, INTERRUPTED, READER_GONE = 1, 130, 141


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit code."""
    streams.prepare()
    try:
        code = _run(argv)
        # Flush here and not at interpreter exit, so that a closed pipe can still be handled.
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
        arguments = command_line(_commands_for(line)).parse_args(line)
        arguments.run(arguments)
    except SystemExit as stop:
        # argparse exits like this after --help, --version and wrong usage, and has printed everything.
        return stop.code if isinstance(stop.code, int) else 0
    except FerruleError as error:
        print(f"error: {error.message}", file=sys.stderr)
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)
        return FAILED
    return 0


def _commands_for(line: Sequence[str]) -> Sequence[str]:
    """The commands whose options are needed to parse a command line. Help and unknown commands need all of them."""
    first = line[0] if line else ""
    if first == "--version":
        return ()
    return (first,) if first in COMMANDS else COMMANDS


def command(name: str) -> Command:
    """Import the command of that name."""
    command_of_module: Command = import_module(f"ferrule.cli.{name}").COMMAND
    return command_of_module


def command_line(names: Sequence[str] = COMMANDS) -> ArgumentParser:
    """Build the argument parser for these commands."""
    parser = ArgumentParser(
        prog="ferrule",
        description="Reliable tool calling for language models.",
        epilog="`ferrule COMMAND --help` explains a command.\n\nexample:\n  ferrule parse --format hermes < reply.txt",
        # argparse sizes the column of names by the metavar below and the indent: `capabilities` needs both.
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, indent_increment=1),
    )
    parser.add_argument("--version", action="version", version=f"ferrule {_version()}")
    subparsers = parser.add_subparsers(title="commands", metavar="COMMAND OPTIONS", required=True)
    for entry in map(command, names):
        subparser = subparsers.add_parser(
            entry.name,
            help=entry.about,
            description=f"{entry.about}\n\n{entry.more}",
            epilog=f"examples:\n{entry.examples}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        entry.add_options(subparser)
        subparser.set_defaults(run=entry.run)
    return parser


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        return "(not installed)"
