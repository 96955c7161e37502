"""How far our scorer of BFCL agrees with the official one, as a table: `scripts/long bfcl-scorer`."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl.categories import MANNERS
from ferrule.bench.bfcl.score import NAMES
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.bench.tables import Table, markdown, show
from lab.bfcl.agreement import SCORED, Agreement, answered, compared, official, questions
from lab.results_page import publish
from lab.versions import counted_with
from lab.workers import Worker

_SECTION: Final = "bfcl-scorer"
_COMMAND: Final = "```sh\nscripts/setup-oracles --bfcl\nscripts/long bfcl-scorer\n```"

Rows = Mapping[tuple[str, str], Agreement]
"""By category, and by what was offered or answered."""


def table_of(found: Rows, about: str) -> Table:
    return Table(
        "Outputs that both scorers judged",
        f"{about} *Stopped*: the official scorer ended with an error of its own, and ours calls the output wrong. "
        "*Same reason*: of the outputs that are wrong to both, and for which the official scorer names what is wrong "
        "with a call, those where ours names the same.",
        ("category", "of", "questions", "outputs", "right", "wrong", "stopped", "disagreed", "same reason"),
        [
            (
                *name,
                *map(str, (one.questions, one.outputs, one.right, one.wrong, one.stopped, len(one.disagreed))),
                f"{one.same_reason} of {one.same_reason + one.other_reason}",
            )
            for name, one in found.items()
        ],
        words=2,
    )


def _of_outputs(worker: Worker, every: int, progress: Progress) -> Rows:
    rows: dict[tuple[str, str], Agreement] = {}
    for category in SCORED:
        for is_underscored, names in NAMES.items():
            asked = questions(category, is_underscored)[::every]
            task = progress.add_task(f"{category.name}, {names}", total=len(asked))
            rows[category.name, f"{names} names"] = compared(asked, worker, lambda t=task: progress.advance(t))
    return rows


def _of_answers(worker: Worker, folder: Path) -> Rows:
    return {
        (category.name, manner): answered(folder / manner, category, worker)
        for category in SCORED
        for manner in MANNERS.values()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long bfcl-scorer", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th question (default: 1)")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    parser.add_argument("--answers", type=Path, metavar="DIR", help="judge what a bfcl run kept there; only printed")
    arguments = parser.parse_args()
    console = Console()
    with official() as worker, Progress(console=console) as progress:
        if arguments.answers:
            rows = _of_answers(worker, arguments.answers)
            about = "Outputs are the answers of a model."
        else:
            rows = _of_outputs(worker, arguments.every, progress)
            ways = len({way for one in rows.values() for way in one.ways})
            about = f"Outputs are made of BFCL's possible answers in {ways} ways: as they are, and spoiled."
    table = table_of(rows, about)
    show(table, console)
    wrong = [told for one in rows.values() for told in one.disagreed]
    if wrong:
        sys.exit("\n".join(wrong[:20]))
    if not arguments.print and not arguments.answers:
        parts = [_COMMAND, counted_with(RELEASE), markdown(table)]
        publish(_SECTION, "Our scorer of BFCL beside the official one", parts)


if __name__ == "__main__":
    main()
