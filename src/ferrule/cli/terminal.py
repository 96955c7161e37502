"""Output on a terminal. This is the only module that uses rich, which is imported when something is shown.

Any text may come from a model. So rich's markup is disabled, and hidden characters are escaped (`core.visible_text`):
in names and arguments all of them, in prose those that it does not need.
"""

from __future__ import annotations

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
from ferrule.core.visible_text import visible, visible_prose

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text as Styled

_TITLE, _CALL, _BAD, _ODD, _FAINT = "bold", "bold cyan", "bold red", "yellow", "dim"


def show_formats(formats: list[FormatFacts]) -> None:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    table.add_column("format\nfamily", no_wrap=True)
    table.add_column("for\nmarkers", ratio=1)
    table.add_column("arguments\nids", max_width=13)
    table.add_column("thinks\n", no_wrap=True)
    for facts in formats:
        table.add_row(
            _join("\n", (facts.name, _CALL), (facts.family or "", _FAINT)),
            _join("\n", (facts.about, ""), (legible(facts.markers), _FAINT)),
            _join("\n", (facts.arguments, ""), (facts.ids.replace("_", " "), _FAINT)),
            "yes" if facts.reasoning else "no",
        )
    _console().print(table)


def show_sections(title: str, sections: list[tuple[str, str]]) -> None:
    console = _console()
    console.print(_style(title, _CALL))
    for heading, body in sections:
        console.print()
        console.print(_style(heading, _TITLE))
        # The terminal wraps it, so that copied text is exact.
        console.print(_style(body), soft_wrap=True)


def show_table(headings: tuple[str, ...], rows: list[tuple[str, ...]]) -> None:
    """Print a table. A first cell that repeats the one above is left empty."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 1, 0), pad_edge=False, header_style=_TITLE)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    above = ""
    for first, *others in rows:
        table.add_row(_style("" if first == above else first, _CALL), *map(_style, others))
        above = first
    _console().print(table)


def show_lines(lines: Iterable[str]) -> None:
    """Print lines of text."""
    console = _console()
    for line in lines:
        console.print(_style(line))


@contextmanager
def progress(doing: str, total: int) -> Generator[Callable[[str], None]]:
    """A progress bar on stderr, if that is a terminal. Call the function that it yields with each step's name."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True, markup=False, emoji=False)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(doing, total=total)
        yield lambda step: bar.update(task, advance=1, description=printable(step))


def show_reply(reply: Reply) -> None:
    """Print the parts in their order, then the diagnostics. Each has a label, to be readable without colours."""
    from rich.table import Table

    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True)
    grid.add_column()
    for part in reply.parts:
        _add_part(grid, part)
    for diagnostic in reply.diagnostics:
        grid.add_row(_style("diagnostic", _ODD), _diagnostic_text(diagnostic))
    grid.add_row(_style("finish", _FAINT), _style(reply.finish_reason.value, _FAINT))
    _console().print(grid)


class LiveReply:
    """Prints a reply as it streams: text, calls with their arguments, and the receipt under each call."""

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
                self._write(f"{visible(name)} ", _CALL)
            case ArgumentsDelta(_, json):
                self._write(visible(json))
            case CallEnd(_, complete, receipt):
                self._line()
                if not complete:
                    self._write("rejected\n", _BAD)
                if receipt:
                    self._write(f"  {receipt}\n", _FAINT)
            case Diagnostic():
                self._line()
                self._console.print(_diagnostic_text(event))
            case Finish() | RuleShown() | WireText():
                pass

    def end(self) -> None:
        self._line()

    def _write(self, text: str, style: str = "") -> None:
        if text:
            self._console.print(_style(text, style), end="", soft_wrap=True)
            self._is_at_start = text.endswith("\n")

    def _line(self) -> None:
        if not self._is_at_start:
            self._console.print()
            self._is_at_start = True


def show_result(name: str, text: str) -> None:
    _console().print(_join(" ", (f"{visible(name)} returned", _FAINT), (text, "")))


def show_note(words: str) -> None:
    if words:
        _console().print(_style(words, _ODD))


def prompt(words: str) -> None:
    _console().print(_style(f"{words} ", _TITLE), end="")


def _add_part(grid: Table, part: ReplyPart) -> None:
    match part:
        case Text(text):
            grid.add_row(_style("text", _FAINT), _style(text))
        case Reasoning(text):
            grid.add_row(_style("reasoning", _FAINT), _style(text, _FAINT))
        case ToolCall():
            warning = "" if part.complete else "incomplete: never run it"
            grid.add_row(
                _style("call", _CALL),
                _join("  ", (visible(part.name), _CALL), (visible(part.id), _FAINT), (warning, _BAD)),
            )
            grid.add_row("", _style(visible(part.function.arguments)))


def _diagnostic_text(diagnostic: Diagnostic) -> Styled:
    about = f"{diagnostic.code}: {diagnostic.message}"
    return _style(f"{about}\n{diagnostic.text}" if diagnostic.text else about, _ODD)


def _join(sep: str, *texts: tuple[str, str]) -> Styled:
    """Join styled texts. Empty texts are left out."""
    from rich.text import Text as Styled

    return Styled(sep).join(_style(text, style) for text, style in texts if text)


def _style(text: str, style: str = "") -> Styled:
    from rich.text import Text as Styled

    return Styled(printable(text), style)


def printable(text: str) -> str:
    """Escape the characters that cannot be seen, except line breaks and what else prose needs."""
    return visible_prose(text)


def _console() -> Console:
    from rich.console import Console

    # rich itself looks at NO_COLOR, TERM and whether the output is a terminal.
    return Console(highlight=False, markup=False, emoji=False)
