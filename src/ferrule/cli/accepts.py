"""`ferrule accepts`: checks whether a rule accepts a text, and if not, where it fails."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.grammars import add_rule_options, rule_from_options
from ferrule.errors import FerruleError
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher

_WIDTH = 72


class _NotAdmittedError(FerruleError):
    """The rule does not accept the text. It only sets the exit code."""

    code = "not_admitted"
    status = 400


def _run(arguments: Namespace) -> None:
    matcher = ByteMatcher(emit_lark(rule_from_options(arguments)))
    text = "".join(streams.pieces(None))
    match = matcher.match(text)
    if match.is_complete:
        streams.write("accepted\n")
        return
    streams.write(_point_at(text, match.characters))
    line, column = _place(text, match.characters)
    problem = "may not end here" if match.characters == len(text) else "is not accepted"
    subject = "the text" if match.characters == len(text) else repr(text[match.characters])
    raise _NotAdmittedError(f"line {line}, column {column}: {subject} {problem}")


def _place(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def _point_at(text: str, at: int) -> str:
    """The failing line, as much as fits, with a caret under the first character that is not accepted."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end]
    column = at - start
    first = max(0, column - _WIDTH // 2)
    before = terminal.printable(line[first:column].replace("\t", " "))
    after = terminal.printable(line[column : first + _WIDTH].replace("\t", " "))
    return f"{before}{after}\n{' ' * len(before)}^\n"


def _add_options(parser: ArgumentParser) -> None:
    add_rule_options(parser)


COMMAND = Command(
    name="accepts",
    about="Check whether a rule accepts the text on stdin.",
    more="Exits with 0 if it does. If not, exits with 1 and prints the position of the first character\n"
    "that the grammar does not allow.",
    examples="  ferrule accepts --format hermes --tools tools.json --choice required < reply.txt",
    add_options=_add_options,
    run=_run,
)
