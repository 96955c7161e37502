"""Generate the page of commands, `docs/reference/cli.md`."""

from __future__ import annotations

import textwrap
from argparse import ArgumentParser
from collections.abc import Iterator

from ferrule.cli.command import Command
from ferrule.cli.main import COMMANDS, command, command_line
from lab.pages.markdown import code, table
from lab.pages.options import Option, commands_of, options_of

_HEAD = """# Commands

Generated from the parsers in `src/ferrule/cli` by `scripts/docs --pages`; a test checks that it is current.
`ferrule COMMAND --help` prints the same.

Exit codes: 0 success; 1 an error, reported on stderr with a hint; 2 wrong usage; 130 interrupted; 141 the reader of the
output closed it.

"""


def commands_page() -> str:
    parsers = {name: inner for name, (_, inner) in commands_of(command_line()).items()}
    listing = table(("command", "what it does"), ((_link(one), one.about) for one in map(command, COMMANDS)))
    return _HEAD + listing + "".join(_section(command(name), parsers[name]) for name in COMMANDS)


def _link(command: Command) -> str:
    return f"[{code(f'ferrule {command.name}')}](#ferrule-{command.name})"


def _section(command: Command, parser: ArgumentParser) -> str:
    parts = [f"\n## ferrule {command.name}\n", f"{command.about}\n"]
    if more := " ".join(command.more.split()):
        parts.append(f"{textwrap.fill(more, 118, break_on_hyphens=False, break_long_words=False)}\n")
    parts += _usage(parser, 3)
    return "\n".join([*parts, f"```sh\n{textwrap.dedent(command.examples).strip()}\n```\n"])


def _usage(parser: ArgumentParser, level: int) -> Iterator[str]:
    options, below = options_of(parser), commands_of(parser)
    if not below:
        yield f"```text\n{_line(parser, options)}\n```\n"
    if options:
        yield table(("option", "", "what it is"), map(_row, options))
    for name, (about, inner) in below.items():
        yield f"{'#' * level} {parser.prog} {name}\n"
        yield f"{about[:1].upper()}{about[1:]}.\n"
        yield from _usage(inner, level + 1)


def _line(parser: ArgumentParser, options: list[Option]) -> str:
    """The usage line: required options and arguments, and [OPTIONS] if there are more."""
    needed = [" ".join(filter(None, (one.names[-1], one.value))) for one in options if one.names and one.is_required]
    placed = [one.value for one in options if not one.names]
    others = ["[OPTIONS]"] if any(one.names and not one.is_required for one in options) else []
    return " ".join([parser.prog, *needed, *others, *placed])


def _row(option: Option) -> tuple[str, ...]:
    names = ", ".join(map(code, option.names)) or code(option.value)
    value = code(option.value) if option.names else ""
    return names, f"{value} (needed)" if option.names and option.is_required else value, option.help
