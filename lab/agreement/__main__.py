"""`python -m lab.agreement`: compare with every oracle and print the verdicts. Exit status 1 on any disagreement."""

from __future__ import annotations

import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from lab.agreement.by_template import templates_without_format
from lab.agreement.everything import all_rows
from lab.agreement.rows import AgreementRow, AgreementVerdict


def main() -> int:
    rows = list(all_rows())
    console = Console()
    console.print(_summary(rows))
    for row in rows:
        if row.verdict is not AgreementVerdict.AGREED:
            style = "red" if row.verdict is AgreementVerdict.DISAGREED else "yellow"
            console.print(f"[{style}]{row.verdict}[/] {row.source} ({row.format}), {row.question}: ", end="")
            console.print(row.why, markup=False, highlight=False)
    for name, reason in templates_without_format():
        console.print(f"[dim]not compared[/] {name}: {reason}", highlight=False)
    return int(any(row.verdict is AgreementVerdict.DISAGREED for row in rows))


def _summary(rows: list[AgreementRow]) -> Table:
    table = Table("oracle", "source", *AgreementVerdict, title="Our renderer and parser compared with the vendors'")
    counts: dict[tuple[str, str], Counter[AgreementVerdict]] = {}
    for row in rows:
        counts.setdefault((row.oracle, row.source), Counter())[row.verdict] += 1
    for (oracle, source), count in counts.items():
        table.add_row(oracle, source, *(str(count[verdict]) for verdict in AgreementVerdict))
    total = Counter(row.verdict for row in rows)
    table.add_section()
    table.add_row("all", "", *(str(total[verdict]) for verdict in AgreementVerdict))
    return table


if __name__ == "__main__":
    sys.exit(main())
