"""`ferrule`: picks the command, and turns what can go wrong into words on stderr and an exit code.

0: done. 1: an error of Ferrule's. 2: wrong usage. 130: interrupted. 141: the reader of the output went away.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ferrule.cli import (
    accepts,
    approvals,
    audit,
    bench,
    capabilities,
    chat,
    config,
    doctor,
    explain,
    formats,
    inspect,
    keys,
    mcp,
    parse,
    render,
    rule,
    serve,
    stats,
    streams,
    trace,
    worker,
)
from ferrule.cli.command import Command
from ferrule.errors import FerruleError

COMMANDS: tuple[Command, ...] = (
    formats.COMMAND,
    parse.COMMAND,
    render.COMMAND,
    explain.COMMAND,
    rule.COMMAND,
    accepts.COMMAND,
    inspect.COMMAND,
    doctor.COMMAND,
    bench.COMMAND,
    chat.COMMAND,
    serve.COMMAND,
    config.COMMAND,
    keys.COMMAND,
    mcp.COMMAND,
    worker.COMMAND,
    capabilities.COMMAND,
    approvals.COMMAND,
    audit.COMMAND,
    trace.COMMAND,
    stats.COMMAND,
)
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
        arguments = command_line().parse_args(argv)
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


def command_line() -> ArgumentParser:
    """Every command with its options."""
    parser = ArgumentParser(
        prog="ferrule",
        description="Ferrule binds language models to tools.",
        epilog="`ferrule COMMAND --help` explains a command.\n\nexample:\n  ferrule parse --format hermes < reply.txt",
        # argparse makes room for names by the length of the metavar below and the indent: `capabilities` needs both.
        formatter_class=lambda prog: RawDescriptionHelpFormatter(prog, indent_increment=1),
    )
    parser.add_argument("--version", action="version", version=f"ferrule {_version()}")
    listed = parser.add_subparsers(title="commands", metavar="COMMAND OPTIONS", required=True)
    for command in COMMANDS:
        added = listed.add_parser(
            command.name,
            help=command.about,
            description=f"{command.about}\n\n{command.more}",
            epilog=f"examples:\n{command.examples}",
            formatter_class=RawDescriptionHelpFormatter,
        )
        command.add_options(added)
        added.set_defaults(run=command.run)
    return parser


def _version() -> str:
    try:
        return version("ferrule")
    except PackageNotFoundError:
        return "(not installed)"
