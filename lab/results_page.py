"""Writes one section of docs/reference/results.md and leaves the rest of the page alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ferrule.errors import FerruleError
from lab.paths import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "results.md"
_TITLE: Final = "# Results\n"


class PageBroken(FerruleError):
    """The page has only one of a section's two marks, so that its end is not known."""

    code = "bench_page_broken"


def section(name: str, heading: str, parts: Sequence[str]) -> str:
    """A section between its two marks."""
    start, end = _marks(name)
    return "\n\n".join([start, f"## {heading}", *parts, end]) + "\n"


def with_section(page: str, name: str, text: str) -> str:
    """The page with the section of that name replaced, or added at the end."""
    start, end = _marks(name)
    if (start in page) != (end in page):
        raise PageBroken(f"only one of {start} and {end} is there", hint="put the other back, or remove both")
    if start not in page:
        return f"{(page or _TITLE).rstrip()}\n\n{text}"
    before, _, rest = page.partition(start)
    after = rest.partition(end)[2].removeprefix("\n")
    return before + text + after


def publish(name: str, heading: str, parts: Sequence[str]) -> None:
    """A section of these parts, on the page."""
    write_section(name, section(name, heading, parts))


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(with_section(old, name, text), encoding="utf-8")


def _marks(name: str) -> tuple[str, str]:
    return f"<!-- {name}:start -->", f"<!-- {name}:end -->"
