"""`python -m lab.agreement`: ask every oracle, print agreed, disagreed and why. Status 1 if any disagreed."""

from __future__ import annotations

import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from lab.agreement.by_template import uncovered
from lab.agreement.everything import all_rows
from lab.agreement.rows import Row, Verdict


def main() -> int:
    rows = list(all_rows())
    console = Console()
    console.print(_summary(rows))
    for row in rows:
        if row.verdict is not Verdict.AGREED:
            style = "red" if row.verdict is Verdict.DISAGREED else "yellow"
            console.print(f"[{style}]{row.verdict}[/] {row.source} ({row.format}), {row.question}: ", end="")
            console.print(row.why, markup=False, highlight=False)
    for name, reason in uncovered():
        console.print(f"[dim]not compared[/] {name}: {reason}", highlight=False)
    return int(any(row.verdict is Verdict.DISAGREED for row in rows))


def _summary(rows: list[Row]) -> Table:
    table = Table("oracle", "source", *Verdict, title="Our renderer and parser beside their owners'")
    counts: dict[tuple[str, str], Counter[Verdict]] = {}
    for row in rows:
        counts.setdefault((row.oracle, row.source), Counter())[row.verdict] += 1
    for (oracle, source), count in counts.items():
        table.add_row(oracle, source, *(str(count[verdict]) for verdict in Verdict))
    total = Counter(row.verdict for row in rows)
    table.add_section()
    table.add_row("all", "", *(str(total[verdict]) for verdict in Verdict))
    return table


if __name__ == "__main__":
    sys.exit(main())
