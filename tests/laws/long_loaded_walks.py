"""Law 12 over many walks: conversations in which a tool is added before each reply. `scripts/long loaded-walks [N]`."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from itertools import count
from typing import Final

from rich.console import Console

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.formats import all_formats
from lab.results_page import publish
from lab.versions import describe_versions
from laws.growing_walks import CHOICES, WalkTally, all_tools, converse

VOCABULARIES: Final = ("bytes", "llama3")
_TURNS: Final = 5
_SECTION: Final = "loaded-walks"
_HEADING: Final = "Only loaded tools are called"
_ABOUT: Final = (
    f"A conversation has {_TURNS} replies, and one or two tools are added before each but the first. The rule of each "
    "reply covers the tools that are loaded by then, and the reply is a random walk under its mask, for at most 400 "
    f"tokens. {len(all_tools())} tools can be loaded; some names begin with another one. The parser is given all of "
    "them, so a call of a tool that was not loaded would be read as a call. An independent validator (`jsonschema`) "
    "checks the arguments."
)


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long loaded-walks", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("walks", nargs="?", type=int, default=5_000, help="the number of walks (default: 5000)")
    reader.add_argument("--minutes", type=float, help="stop after this many minutes and publish the results so far")
    reader.add_argument("--print", action="store_true", help="do not write the table to the results page")
    options = reader.parse_args(arguments)
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    tallies = {name: WalkTally() for name in VOCABULARIES}
    for number in count():
        total = sum(tally.walks for tally in tallies.values())
        if total >= options.walks or (until is not None and time.monotonic() > until):
            break
        for name, format in all_formats().items():
            for choice in CHOICES:
                for vocabulary, tally in tallies.items():
                    if sum(one.walks for one in tallies.values()) < options.walks:
                        converse(format, choice, vocabulary, f"{vocabulary} {name} {choice} {number}", tally, _TURNS)
    table = _table(tallies)
    print_table(table, Console())
    if not options.print:
        command = f"```sh\nscripts/long loaded-walks {sum(tally.walks for tally in tallies.values())}\n```"
        publish(_SECTION, _HEADING, [command, _ABOUT, describe_versions(), markdown(table)])


def _table(tallies: dict[str, WalkTally]) -> Table:
    rows = [
        (name, *map(str, (one.walks, one.finished, one.calls, one.late, one.excused, len(one.violations))))
        for name, one in tallies.items()
    ]
    total = tuple(str(sum(int(row[at]) for row in rows)) for at in range(1, 7))
    violations = [violation for tally in tallies.values() for violation in tally.violations]
    return Table(
        f"{total[0]} walks in conversations that load tools",
        f"{len(all_formats())} formats, each with {' and '.join(CHOICES)}. *Late*: calls of a tool that was added "
        "later. *Key twice*: an object has a key twice that its schema does not list, which no target's "
        "grammar can forbid; the parser reports the call as incomplete. *Violations*: a call of a tool that is not "
        "loaded, a walk that could not continue, a call that is incomplete or invalid, or none where one is required.",
        ("vocabulary", "walks", "finished", "calls", "late", "key twice", "violations"),
        [*rows, ("total", *total)],
        violations[:20],
    )


if __name__ == "__main__":
    main()
