"""The little Markdown that pages which are made from the code need. Must not know what any page is about."""

from __future__ import annotations

from collections.abc import Iterable


def table(headings: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; a bar in a cell and a bracket that would open a tag are written so that they show."""
    titles = list(headings)
    lines = [titles, ["---"] * len(titles), *([cell(text) for text in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def cell(text: str) -> str:
    """One line, with nothing in it that ends the cell or opens a tag, but for the line breaks of `lines`."""
    result = " ".join(text.split()).replace("|", "\\|")
    # Inside of backticks a bracket is shown as it is; an entity there would show as an entity.
    parts = result.split("`")
    return "`".join(part if number % 2 else part.replace("<", "&lt;") for number, part in enumerate(parts)).replace(
        "&lt;br>", "<br>"
    )


def lines(parts: Iterable[str]) -> str:
    """Several lines in one cell."""
    return "<br>".join(parts)


def code(text: str) -> str:
    return f"`{text}`" if text else ""
