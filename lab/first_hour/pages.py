"""What a newcomer reads of a page: its commands, what is printed below them, and the files to save."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from ferrule.errors import FerruleError
from lab.paths import ROOT

_CONSOLE: Final = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE: Final = re.compile(
    r"Save (?:this|it)\s+as\s+`([^`]+)`(?:(?!^```).)*?^```\w[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


class PageChangedError(FerruleError):
    """A page does not have what the run follows."""

    code = "bench_page_broken"


@dataclass(frozen=True)
class Page:
    """A page of the documentation, or one section of it. `name` is its path below the repository."""

    name: str
    text: str

    @cached_property
    def commands(self) -> Mapping[str, str]:
        """The commands in the order of the page, each with what the page shows below it."""
        shown: dict[str, str] = {}
        for block in _CONSOLE.findall(self.text):
            for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
                command, _, output = part.partition("\n")
                # A command may be on the page twice, with another output after something has changed.
                shown[command] = shown.get(command, "") + output
        return shown

    @cached_property
    def files(self) -> Mapping[str, str]:
        """The files that the page says to save, by their names."""
        return dict(_FILE.findall(self.text))

    def command(self, beginning: str) -> str:
        """The command of the page that begins so."""
        matching = [command for command in self.commands if command.startswith(beginning)]
        if len(matching) != 1:
            raise PageChangedError(f"{self.name} has {len(matching)} commands that begin with {beginning!r}")
        return matching[0]

    def check_has(self, text: str) -> None:
        """Raise if the page does not have the text. Line breaks count as spaces."""
        if _words(text) not in _words(self.text):
            raise PageChangedError(f"{self.name} does not have {text!r}")


def read_page(name: str, heading: str = "") -> Page:
    """A page by its path, or the section below a heading that begins so."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if heading:
        _, found, text = text.partition(f"\n## {heading}")
        if not found:
            raise PageChangedError(f"{name} has no heading that begins with {heading!r}")
        text = text.partition("\n## ")[0]
    return Page(name, text)


def _words(text: str) -> str:
    return " ".join(text.split())
