"""Write one section of docs/reference/results.md; the rest of the page stays unchanged."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from ferrule.errors import FerruleError
from lab.paths import ROOT

PAGE: Final = ROOT / "docs" / "reference" / "results.md"
_TITLE: Final = "# Results\n"


class PageBrokenError(FerruleError):
    """The page has only one of a section's two markers, so its extent is unknown."""

    code = "bench_page_broken"


def section(name: str, heading: str, parts: Sequence[str]) -> str:
    """A section between its two markers."""
    start, end = _markers(name)
    return "\n\n".join([start, f"## {heading}", *parts, end]) + "\n"


def with_section(page: str, name: str, text: str) -> str:
    """The page with the section of that name replaced, or added at the end."""
    start, end = _markers(name)
    if (start in page) != (end in page):
        raise PageBrokenError(f"the page has only one of {start} and {end}", hint="restore the other, or remove both")
    if start not in page:
        return f"{(page or _TITLE).rstrip()}\n\n{text}"
    before, _, rest = page.partition(start)
    after = rest.partition(end)[2].removeprefix("\n")
    return before + text + after


def publish(name: str, heading: str, parts: Sequence[str]) -> None:
    """Write a section with these parts to the page."""
    write_section(name, section(name, heading, parts))


def write_section(name: str, text: str, page: Path = PAGE) -> None:
    page.parent.mkdir(parents=True, exist_ok=True)
    old = page.read_text(encoding="utf-8") if page.exists() else ""
    page.write_text(with_section(old, name, text), encoding="utf-8")


def _markers(name: str) -> tuple[str, str]:
    return f"<!-- {name}:start -->", f"<!-- {name}:end -->"
