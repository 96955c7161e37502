"""A table of results, for the terminal and for a page. Knows nothing of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Table:
    """A title, what the numbers are, and rows of texts. So many columns are words and stand left; the others, right."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    words: int = 1


def show(table: Table, console: Console) -> None:
    drawn = TerminalTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        drawn.add_column(column, justify="left" if number < table.words else "right", no_wrap=not number)
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    console.print(drawn)
    for note in table.notes:
        console.print(Text(f"  {note}"))


def markdown(table: Table) -> str:
    head = [_line(table.columns), "|---" * table.words + "|---:" * (len(table.columns) - table.words) + "|"]
    parts = [f"### {table.title}", table.about, "\n".join([*head, *(_line(row) for row in table.rows)])]
    if table.notes:
        parts.append("\n".join(f"- {escaped(note)}" for note in table.notes))
    return "\n\n".join(part for part in parts if part)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escaped(cell) for cell in cells) + " |"


def escaped(text: str) -> str:
    """Text that Markdown shows as it is, in a cell of a table too."""
    for mark in "\\|<>*_`[]":
        text = text.replace(mark, f"\\{mark}")
    return text.replace("\n", " ")
