"""Each row of the table of threats has a test file and an entry in the README."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = set(range(1, 30))


def test_every_row_is_tested() -> None:
    rows = {int(path.name[5:7]) for path in HERE.glob("test_[0-9][0-9]_*.py")}
    assert rows == ROWS


def test_every_file_starts_with_the_number_of_its_row() -> None:
    for path in HERE.glob("test_[0-9][0-9]_*.py"):
        number = int(path.name[5:7])
        assert path.read_text(encoding="utf-8").startswith(f'"""Row {number}: '), path.name


def test_the_page_names_every_row_once() -> None:
    page = (HERE / "README.md").read_text(encoding="utf-8")
    rows = [int(match) for match in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert rows == sorted(ROWS)
    exempt = {int(match) for match in re.findall(r"^- Row (\d+),", page, re.MULTILINE)}
    assert exempt <= ROWS
