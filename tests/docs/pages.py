"""Shared by the documentation tests: the pages, and the commands on them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))]
_FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def fences(page: Path, *languages: str) -> Iterator[str]:
    """The blocks of a page in these languages."""
    for match in _FENCE.finditer(page.read_text(encoding="utf-8")):
        if match.group(1) in languages:
            yield match.group(2)


def commands(page: Path) -> Iterator[str]:
    """The commands on a page: `$ ` lines of consoles, every line of shells; continued lines are joined."""
    for block in fences(page, "console"):
        yield from re.findall(r"^\$ (.+)$", _join_continuations(block), re.MULTILINE)
    for block in fences(page, "sh", "bash"):
        yield from filter(None, map(str.strip, _join_continuations(block).splitlines()))


def _join_continuations(block: str) -> str:
    """Join a line that ends in a backslash or a pipe with the next."""
    return re.sub(r"\|\n\s*(?:> )?", "| ", re.sub(r"\\\n\s*(?:> )?", " ", block))
