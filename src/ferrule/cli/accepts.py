"""`ferrule accepts`: whether a rule admits a text, and if not, where it fails."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from ferrule.cli import streams, terminal
from ferrule.cli.command import Command
from ferrule.cli.grammars import add_rule_options, bound_rule
from ferrule.errors import FerruleError
from ferrule.rules.lark import emit_lark
from ferrule.rules.matcher import ByteMatcher

_SHOWN = 72


class _NotAdmittedError(FerruleError):
    """The answer is no; it leaves the command with its exit code and nothing more."""

    code = "not_admitted"
    status = 400


def _run(arguments: Namespace) -> None:
    matcher = ByteMatcher(emit_lark(bound_rule(arguments)))
    text = "".join(streams.pieces(None))
    reach = matcher.reach(text)
    if reach.is_whole:
        streams.write("admitted\n")
        return
    streams.write(_pointed(text, reach.characters))
    line, column = _place(text, reach.characters)
    why = "may not end here" if reach.characters == len(text) else "is not admitted"
    what = "the text" if reach.characters == len(text) else repr(text[reach.characters])
    raise _NotAdmittedError(f"line {line}, column {column}: {what} {why}")


def _place(text: str, at: int) -> tuple[int, int]:
    before = text[:at]
    return before.count("\n") + 1, at - (before.rfind("\n") + 1) + 1


def _pointed(text: str, at: int) -> str:
    """The line of the failure, as much as fits, with a caret under the first character that is not admitted."""
    start = text.rfind("\n", 0, at) + 1
    end = text.find("\n", at)
    line = text[start : len(text) if end < 0 else end]
    column = at - start
    first = max(0, column - _SHOWN // 2)
    before = terminal.seen(line[first:column].replace("\t", " "))
    after = terminal.seen(line[column : first + _SHOWN].replace("\t", " "))
    return f"{before}{after}\n{' ' * len(before)}^\n"


def _add_options(parser: ArgumentParser) -> None:
    add_rule_options(parser)


COMMAND = Command(
    name="accepts",
    about="Read a text on stdin, say whether the rule admits it.",
    more="Exit code 0 if it does. If not, exit code 1 and the place of the first character that\n"
    "a model could not have written under the grammar.",
    examples="  ferrule accepts --format hermes --tools tools.json --choice required < reply.txt",
    add_options=_add_options,
    run=_run,
)
