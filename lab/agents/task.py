"""The task of an agent: edit a file in a scratch repository, then run a command that shows the edited file."""

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

DONE: Final = "The work is done."
_FILE: Final = "settings.txt"
_BEFORE: Final = "# How the lamp is set.\ncolour = red\nlevel = 3\n"
_AFTER: Final = _BEFORE.replace("red", "green")
_SCRIPT: Final = "check.sh"
_SHOWN: Final = "checked.txt"
_TASK: Final = re.compile(
    r"In the file (?P<path>\S+), change (?P<old>\w+) to (?P<new>\w+)\. Then run the command `(?P<command>[^`\n]+)`\."
)


@dataclass(frozen=True, slots=True)
class Task:
    """A task as it stands in a prompt. `end` is where its text ends."""

    path: str
    old: str
    new: str
    command: str
    end: int


@dataclass(frozen=True, slots=True)
class Work:
    """What an agent did in its repository."""

    is_edited: bool
    """Whether the file has the right content."""
    is_run: bool
    """Whether the command was run."""
    is_shown: bool
    """Whether the command was run after the edit."""


def question(folder: Path) -> str:
    return (
        f"In the file {folder / _FILE}, change red to green. Then run the command `sh {folder / _SCRIPT}`. "
        "Then say that the work is done."
    )


def read_task(prompt: str) -> Task | None:
    """The last task in a prompt; None if there is none."""
    matches = [*_TASK.finditer(prompt)]
    if not matches:
        return None
    last = matches[-1]
    return Task(last["path"], last["old"], last["new"], last["command"], last.end())


def make_repository(folder: Path) -> None:
    (folder / _FILE).write_text(_BEFORE, encoding="utf-8")
    # It finds its files by itself, wherever the agent runs it.
    script = f'cd "$(dirname "$0")" || exit\ncp {_FILE} {_SHOWN}\necho checked\n'
    (folder / _SCRIPT).write_text(script, encoding="utf-8")
    author = ("-c", "user.name=scratch", "-c", "user.email=scratch@example.org")
    for words in (("init", "--quiet"), ("add", "."), (*author, "commit", "--quiet", "--message", "Begin")):
        subprocess.run(["git", "-C", str(folder), *words], check=True)


def read_work(folder: Path) -> Work:
    shown = folder / _SHOWN
    return Work(
        is_edited=(folder / _FILE).read_text(encoding="utf-8") == _AFTER,
        is_run=shown.exists(),
        is_shown=shown.exists() and shown.read_text(encoding="utf-8") == _AFTER,
    )
