"""The table of formats as a Markdown page, which is `docs/reference/formats.md`."""

from __future__ import annotations

from ferrule.cli.format_facts import FormatFacts, all_facts

_HEAD = """---
hide:
  - toc
---

# Formats

Generated from the definitions in `src/ferrule/wire/formats` by `ferrule formats --markdown`. A test keeps it up to
date.

| format | family | for | arguments | reasoning | ids |
| --- | --- | --- | --- | --- | --- |
"""


def formats_page() -> str:
    return _HEAD + "".join(map(_row, all_facts()))


def _row(fact: FormatFacts) -> str:
    ids = f"{fact.ids}, in the text" if fact.writes_ids else ""
    cells = (f"`{fact.name}`", fact.family or "", fact.about, fact.arguments, "yes" if fact.reasoning else "", ids)
    return "| " + " | ".join(cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells) + " |\n"
