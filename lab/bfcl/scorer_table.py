"""Table of how far our BFCL scorer agrees with the official one: `scripts/long bfcl-scorer`."""

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress

from ferrule.bench.bfcl.categories import MODE_NAMES
from ferrule.bench.bfcl.score import NAMES
from ferrule.bench.bfcl_requests import RELEASE
from ferrule.bench.tables import Table, markdown, print_table
from lab.bfcl.agreement import SCORED, Agreement, compare_answers, compare_scorers, load_questions, official
from lab.results_page import publish
from lab.versions import describe_versions
from lab.workers import Worker

_SECTION: Final = "bfcl-scorer"
_COMMAND: Final = "```sh\nscripts/setup-oracles --bfcl\nscripts/long bfcl-scorer\n```"

Rows = Mapping[tuple[str, str], Agreement]
"""Keyed by category, and by the names offered or the run."""


def table_of(rows: Rows, about: str) -> Table:
    return Table(
        "Outputs that both scorers judged",
        f"{about} *Stopped*: the official scorer failed with an error, and ours calls the output wrong. "
        "*Same reason*: of the outputs that both call wrong, and for which the official scorer gives a reason, those "
        "for which ours gives the same reason.",
        ("category", "of", "questions", "outputs", "right", "wrong", "stopped", "disagreed", "same reason"),
        [
            (
                *name,
                *map(str, (one.questions, one.outputs, one.right, one.wrong, one.stopped, len(one.disagreed))),
                f"{one.same_reason} of {one.same_reason + one.other_reason}",
            )
            for name, one in rows.items()
        ],
        text_columns=2,
    )


def _of_outputs(worker: Worker, every: int, progress: Progress) -> Rows:
    rows: dict[tuple[str, str], Agreement] = {}
    for category in SCORED:
        for is_underscored, names in NAMES.items():
            tasks = load_questions(category, is_underscored)[::every]
            task = progress.add_task(f"{category.name}, {names}", total=len(tasks))
            rows[category.name, f"{names} names"] = compare_scorers(tasks, worker, lambda t=task: progress.advance(t))
    return rows


def _of_answers(worker: Worker, folder: Path) -> Rows:
    return {
        (category.name, manner): compare_answers(folder / manner, category, worker)
        for category in SCORED
        for manner in MODE_NAMES.values()
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/long bfcl-scorer", description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every N-th question (default: 1)")
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    parser.add_argument("--answers", type=Path, metavar="DIR", help="use a run's answers in this folder; only prints")
    arguments = parser.parse_args()
    console = Console()
    with official() as worker, Progress(console=console) as progress:
        if arguments.answers:
            rows = _of_answers(worker, arguments.answers)
            about = "Outputs are the answers of a model."
        else:
            rows = _of_outputs(worker, arguments.every, progress)
            ways = len({way for one in rows.values() for way in one.ways})
            about = f"Outputs are BFCL's possible answers, unchanged and with changes, in {ways} variants."
    table = table_of(rows, about)
    print_table(table, console)
    wrong = [message for one in rows.values() for message in one.disagreed]
    if wrong:
        sys.exit("\n".join(wrong[:20]))
    if not arguments.print and not arguments.answers:
        parts = [_COMMAND, describe_versions(RELEASE), markdown(table)]
        publish(_SECTION, "Our BFCL scorer compared with the official one", parts)


if __name__ == "__main__":
    main()
