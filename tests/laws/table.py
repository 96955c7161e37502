"""`scripts/laws`: every two-way split of a two-call reply, for every format, as a table."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import track
from rich.table import Table

from ferrule.core.reply import fold
from ferrule.wire.parser import Parser
from ferrule.wire.registry import families_of_formats
from laws.cuts import essence, two_call_text
from laws.replies import TOOLS


def main() -> int:
    started = time.process_time()
    table = Table(
        "family", "format", "characters", "splits", "mismatches", title="Every two-way split of a two-call reply"
    )
    splits = mismatches = 0
    families = families_of_formats()
    for family, members in track(families.items(), "splitting", console=Console(stderr=True)):
        for form in members:
            text = two_call_text(form)
            outcomes = []
            for at in range(len(text) + 1):
                parser = Parser(form, TOOLS)
                events = [*parser.feed(text[:at]), *parser.feed(text[at:]), *parser.close()]
                outcomes.append(essence(fold(events)))
            wrong = sum(outcome != outcomes[0] for outcome in outcomes)
            splits += len(outcomes)
            mismatches += wrong
            table.add_row(family, form.name, str(len(text)), str(len(outcomes)), str(wrong))
    table.add_section()
    count = sum(map(len, families.values()))
    table.add_row(f"{len(families)} families", f"{count} formats", "", str(splits), str(mismatches))
    Console().print(table, f"{time.process_time() - started:.1f} s of CPU")
    return int(mismatches > 0)


if __name__ == "__main__":
    sys.exit(main())
