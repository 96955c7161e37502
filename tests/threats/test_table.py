"""Each row of the table of threats has a test, and the page that explains them says so."""

from __future__ import annotations

import re
from pathlib import Path

HERE = Path(__file__).parent
ROWS = set(range(1, 23))


def test_every_row_is_tested() -> None:
    tested = {int(path.name[5:7]) for path in HERE.glob("test_[0-9][0-9]_*.py")}
    assert tested == ROWS


def test_every_file_says_which_row_it_is() -> None:
    for path in HERE.glob("test_[0-9][0-9]_*.py"):
        number = int(path.name[5:7])
        assert path.read_text(encoding="utf-8").startswith(f'"""Row {number}: '), path.name


def test_the_page_names_every_row_once() -> None:
    page = (HERE / "README.md").read_text(encoding="utf-8")
    named = [int(found) for found in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)]
    assert named == sorted(ROWS)
    excused = {int(found) for found in re.findall(r"^- Row (\d+),", page, re.MULTILINE)}
    assert excused <= ROWS
