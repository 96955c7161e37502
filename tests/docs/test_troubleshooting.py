"""The page about troubleshooting says for each symptom what to do, and has every code of an error."""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS

PAGE = (DOCS / "how-to" / "troubleshooting.md").read_text(encoding="utf-8")
SYMPTOMS, CODES = PAGE.split("\n## By error code\n")
ENTRIES = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##|\Z)", SYMPTOMS, re.MULTILINE | re.DOTALL))
# The rows of both tables on the page of errors: a code and its status.
STATED = re.compile(r"`([a-z_]+)` \| (?:`\w+` \| )?\d{3} \|")


@pytest.mark.parametrize("symptom", ENTRIES)
def test_a_symptom_has_what_you_see_why_a_command_and_what_to_change(symptom: str) -> None:
    entry = ENTRIES[symptom]
    assert entry.strip().startswith("You see ")
    table = "| status | code | why | what to change |" in entry
    assert table or all(f"- **{part}**: " in entry or f"- **{part}**:\n" in entry for part in ("Why", "Look", "Change"))
    assert re.search(r"\bferrule [a-z]|\bcurl\b", entry), "name a command that shows it"
    assert "](" in entry, "link to the page that explains it"


def test_every_code_of_an_error_is_there_once() -> None:
    errors = (DOCS / "reference" / "errors.md").read_text(encoding="utf-8")
    named = re.findall(r"`([a-z_]+)`", " ".join(row.split(" | ")[0] for row in CODES.splitlines() if row[:3] == "| `"))
    assert sorted(named) == sorted(set(STATED.findall(errors)))
