"""Every `ferrule` command that the documentation prints is one that the command line takes."""

from __future__ import annotations

import shlex
from argparse import ArgumentParser
from collections.abc import Iterator
from functools import cache

import pytest

from docs.pages import PAGES, ROOT, commands
from ferrule.cli.main import COMMANDS, command, command_line
from lab.pages.options import take_any_file

_ENDS = ("|", "||", "&&", ";", "&", ">", ">>", "<", "2>", "<<<")


def typed() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in commands(page):
            yield str(page.relative_to(ROOT)), line
    for one in map(command, COMMANDS):
        for line in one.examples.replace("|\n", "| ").splitlines():
            yield f"ferrule {one.name} --help", line.strip()


def calls(line: str) -> Iterator[list[str]]:
    """The arguments of each `ferrule` in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] | None = None
    begins = True
    for word in lexer:
        if word in _ENDS or set(word) <= set("|&;<>"):
            if words is not None:
                yield words
            words, begins = None, word not in ("<", ">", ">>", "2>", "<<<")
        elif words is not None:
            words.append(word)
        elif begins and word == "ferrule":
            words = []
        # `NAME=value ferrule ...` and `time ferrule ...` are calls of it too.
        elif "=" not in word and word not in ("time", "exec", "sudo"):
            begins = False
    if words is not None:
        yield words


@cache
def parser() -> ArgumentParser:
    every = command_line()
    take_any_file(every)
    return every


def is_taken(call: list[str]) -> bool:
    try:
        parser().parse_args(call)
    except SystemExit as stop:
        return stop.code == 0
    return True


CALLS = [(place, call) for place, command in typed() if "ferrule" in command for call in calls(command)]


@pytest.mark.parametrize("place, call", [pytest.param(*one, id=f"{one[0]}: {shlex.join(one[1])}") for one in CALLS])
def test_a_printed_command_is_one_that_is_taken(
    place: str, call: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert is_taken(call), f"{place}: {capsys.readouterr().err}"


def test_a_wrong_flag_would_be_noticed() -> None:
    assert is_taken(["parse", "--format", "hermes"])
    assert not is_taken(["parse", "--fromat", "hermes"])
    assert not is_taken(["parse"])


def test_asking_for_help_is_taken() -> None:
    assert is_taken(["parse", "--help"])


@pytest.mark.parametrize(
    "command, found",
    [
        ("ferrule formats", [["formats"]]),
        ("echo 'ferrule x' | ferrule parse -f a > out.txt", [["parse", "-f", "a"]]),
        ("KEY=1 ferrule keys new a && ferrule serve &", [["keys", "new", "a"], ["serve"]]),
        ("pip install ferrule", []),
        ("ferrule parse -f a < ferrule", [["parse", "-f", "a"]]),
    ],
)
def test_commands_are_found_in_a_line_of_shell(command: str, found: list[list[str]]) -> None:
    assert list(calls(command)) == found
