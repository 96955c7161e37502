"""A table of results, for the terminal and for Markdown. Independent of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as TerminalTable
from rich.text import Text


@dataclass(frozen=True, slots=True)
class Table:
    """A title, an explanation and rows of text. The first `text_columns` columns are aligned left, the others right."""

    title: str
    about: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    text_columns: int = 1


def print_table(table: Table, console: Console) -> None:
    terminal_table = TerminalTable(title=table.title, box=box.SIMPLE_HEAD, title_justify="left", title_style="bold")
    for number, column in enumerate(table.columns):
        terminal_table.add_column(
            column, justify="left" if number < table.text_columns else "right", no_wrap=not number
        )
    for row in table.rows:
        terminal_table.add_row(*(Text(cell) for cell in row))
    console.print(terminal_table)
    for note in table.notes:
        console.print(Text(f"  {note}"))


def markdown(table: Table) -> str:
    head = [
        _line(table.columns),
        "|---" * table.text_columns + "|---:" * (len(table.columns) - table.text_columns) + "|",
    ]
    parts = [f"### {table.title}", table.about, "\n".join([*head, *(_line(row) for row in table.rows)])]
    if table.notes:
        parts.append("\n".join(f"- {escape_markdown(note)}" for note in table.notes))
    return "\n\n".join(part for part in parts if part)


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(escape_markdown(cell) for cell in cells) + " |"


def escape_markdown(text: str) -> str:
    """Escape text so that Markdown shows it unchanged, also in a table cell."""
    for character in "\\|<>*_`[]":
        text = text.replace(character, f"\\{character}")
    return text.replace("\n", " ")
