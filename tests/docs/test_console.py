"""The command line accepts every `ferrule` command in the documentation and in `--help`."""

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


def typed_commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for line in commands(page):
            yield str(page.relative_to(ROOT)), line
    for one in map(command, COMMANDS):
        for line in one.examples.replace("|\n", "| ").splitlines():
            yield f"ferrule {one.name} --help", line.strip()


def ferrule_calls(line: str) -> Iterator[list[str]]:
    """Yield the arguments of each `ferrule` call in a line of shell."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] | None = None
    expects_command = True
    for word in lexer:
        if word in _ENDS or set(word) <= set("|&;<>"):
            if words is not None:
                yield words
            words, expects_command = None, word not in ("<", ">", ">>", "2>", "<<<")
        elif words is not None:
            words.append(word)
        elif expects_command and word == "ferrule":
            words = []
        # `NAME=value ferrule ...` and `time ferrule ...` are calls too.
        elif "=" not in word and word not in ("time", "exec", "sudo"):
            expects_command = False
    if words is not None:
        yield words


@cache
def parser() -> ArgumentParser:
    root = command_line()
    take_any_file(root)
    return root


def is_accepted(call: list[str]) -> bool:
    try:
        parser().parse_args(call)
    except SystemExit as error:
        return error.code == 0
    return True


CALLS = [
    (place, call) for place, command in typed_commands() if "ferrule" in command for call in ferrule_calls(command)
]


@pytest.mark.parametrize("place, call", [pytest.param(*one, id=f"{one[0]}: {shlex.join(one[1])}") for one in CALLS])
def test_a_printed_command_is_accepted(place: str, call: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert is_accepted(call), f"{place}: {capsys.readouterr().err}"


def test_a_wrong_flag_is_rejected() -> None:
    assert is_accepted(["parse", "--format", "hermes"])
    assert not is_accepted(["parse", "--fromat", "hermes"])
    assert not is_accepted(["parse"])


def test_help_is_accepted() -> None:
    assert is_accepted(["parse", "--help"])


@pytest.mark.parametrize(
    "command, commands",
    [
        ("ferrule formats", [["formats"]]),
        ("echo 'ferrule x' | ferrule parse -f a > out.txt", [["parse", "-f", "a"]]),
        ("KEY=1 ferrule keys new a && ferrule serve &", [["keys", "new", "a"], ["serve"]]),
        ("pip install ferrule", []),
        ("ferrule parse -f a < ferrule", [["parse", "-f", "a"]]),
    ],
)
def test_commands_are_found_in_a_line_of_shell(command: str, commands: list[list[str]]) -> None:
    assert list(ferrule_calls(command)) == commands
