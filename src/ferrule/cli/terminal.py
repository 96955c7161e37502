"""What a person sees on a terminal. The only file that knows rich, which is imported when something is shown.

Everything shown may come from a model, so nothing is read as rich's own markup, and control characters, which could
move the cursor or change what was shown before, are spelled out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ferrule.cli.format_facts import FormatFacts, legible
from ferrule.core.call import ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    WireText,
)
from ferrule.core.message import Reasoning, Text
from ferrule.core.reply import Reply, ReplyPart

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Styled

# C0 without tab and newline, DEL, C1, the marks that reorder text, and surrogates, which cannot be printed.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_TITLE, _CALL, _BAD, _ODD, _FAINT = "bold", "bold cyan", "bold red", "yellow", "dim"


def show_formats(formats: list[FormatFacts]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    table.add_column("format\nfamily", no_wrap=True)
    table.add_column("for\nmarks", ratio=1)
    table.add_column("arguments\nids", max_width=13)
    table.add_column("thinks\n", no_wrap=True)
    for facts in formats:
        table.add_row(
            _joined("\n", (facts.name, _CALL), (facts.family or "", _FAINT)),
            _joined("\n", (facts.about, ""), (legible(facts.marks), _FAINT)),
            _joined("\n", (facts.arguments, ""), (facts.ids.replace("_", " "), _FAINT)),
            "yes" if facts.reasoning else "no",
        )
    _console().print(table)


def show_sections(title: str, sections: list[tuple[str, str]]) -> None:
    console = _console()
    console.print(_styled(title, _CALL))
    for heading, body in sections:
        console.print()
        console.print(_styled(heading, _TITLE))
        # Wrapped by the terminal and not by us, so that a copy of it is exact.
        console.print(_styled(body), soft_wrap=True)


def show_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Rows under headings; a first cell that repeats the one above is left out."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    above = ""
    for first, *others in rows:
        table.add_row(_styled("" if first == above else first, _CALL), *map(_styled, others))
        above = first
    _console().print(table)


def show_lines(lines: Iterable[str]) -> None:
    """Sentences, one under the other."""
    console = _console()
    for line in lines:
        console.print(_styled(line))


@contextmanager
def progress(doing: str, total: int) -> Generator[Callable[[str], None]]:
    """A bar on stderr while something takes long, and nothing where that is no terminal; tell it each step's name."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False, emoji=False)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda step: bar.update(task, advance=1, description=seen(step))


def show_reply(reply: Reply) -> None:
    """The parts in their order, then what was odd; a label before each, so that it reads without colours too."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part in reply.parts:
        _add_part(grid, part)
    for diagnostic in reply.diagnostics:
        grid.add_row(_styled("odd", _ODD), _odd(diagnostic))
    grid.add_row(_styled("finish", _FAINT), _styled(reply.finish_reason.value, _FAINT))
    _console().print(grid)


class LiveReply:
    """A reply as it forms: text as it comes, calls with their arguments, and under each call its receipt."""

    def __init__(self) -> None:
        self._console = _console()
        self._is_at_start = True

    def show(self, event: Event) -> None:
        match event:
            case TextDelta(text):
                self._write(text)
            case ReasoningDelta(text):
                self._write(text, _FAINT)
            case CallStart(_, _, name):
                self._line()
                self._write(f"{name} ", _CALL)
            case ArgumentsDelta(_, json):
                self._write(json)
            case CallEnd(_, complete, receipt):
                self._line()
                if not complete:
                    self._write("not handed on\n", _BAD)
                if receipt:
                    self._write(f"  {receipt}\n", _FAINT)
            case Diagnostic():
                self._line()
                self._console.print(_odd(event))
            case Finish() | RuleShown() | WireText():
                pass

    def end(self) -> None:
        self._line()

    def _write(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(_styled(text, style), end="", soft_wrap=True)
            self._is_at_start = text.endswith("\n")

    def _line(self) -> None:
        if not self._is_at_start:
            self._console.print()
            self._is_at_start = True


def show_result(name: str, text: str) -> None:
    _console().print(_joined(" ", (f"{name} gave", _FAINT), (text, "")))


def show_note(words: str) -> None:
    if words:
        _console().print(_styled(words, _ODD))


def prompt(words: str) -> None:
    _console().print(_styled(f"{words} ", _TITLE), end="")


def _add_part(grid: Table, part: ReplyPart) -> None:
    match part:
        case Text(text):
            grid.add_row(_styled("text", _FAINT), _styled(text))
        case Reasoning(text):
            grid.add_row(_styled("reasoning", _FAINT), _styled(text, _FAINT))
        case ToolCall():
            told = "" if part.complete else "cut off: never run it"
            grid.add_row(_styled("call", _CALL), _joined("  ", (part.name, _CALL), (part.id, _FAINT), (told, _BAD)))
            grid.add_row("", _styled(part.function.arguments))


def _odd(diagnostic: Diagnostic) -> Styled:
    about = f"{diagnostic.code}: {diagnostic.message}"
    return _styled(f"{about}\n{diagnostic.text}" if diagnostic.text else about, _ODD)


def _joined(sep: str, *texts: tuple[str, str]) -> Styled:
    """Texts and their styles in one; an empty text is left out."""
    from rich.text import Text as Styled

    return Styled(sep).join(_styled(text, style) for text, style in texts if text)


def _styled(text: str, style: str = "") -> Styled:
    from rich.text import Text as Styled

    return Styled(seen(text), style)


def seen(text: str) -> str:
    """Text with what cannot be seen spelled out."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def _console() -> Console:
    from rich.console import Console

    # rich itself looks at NO_COLOR, TERM and whether the output is a terminal.
    return Console(highlight=False, markup=False, emoji=False)
