"""Take many random walks under the real mask, in every format, choice and vocabulary: `scripts/long walks [N]`.

Law 4 takes a few such walks in single bytes at every check. This script takes as many as you ask for, with real
vocabularies too, and writes the results to docs/reference/results.md. A seed identifies each walk, so that any
violation can be reproduced.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from typing import Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from ferrule.bench.tables import Table, markdown, print_table
from ferrule.formats import parse
from lab.results_page import publish
from lab.versions import describe_versions
from laws.replies import TOOLS
from laws.test_rule_protects import CHOICES, FORMATS, matcher_of, violation
from rules.walks import walk

VOCABULARIES: Final = ("bytes", "llama3", "tekken")
_SECTION: Final = "walks"
_HEADING: Final = "Walks under the mask"
_ABOUT: Final = (
    "A walk chooses randomly among the tokens that llguidance allows under our grammar, with a preference for closing "
    "characters, for at most 400 tokens. Our parser reads the finished text, and an independent validator "
    "(`jsonschema`) checks every call against the schema of its tool. There is no model: the walk writes nonsense "
    "wherever the mask allows it. The tools are those of the laws, whose schemas have types, lists, alternatives and "
    "optional arguments, but no `enum`, `pattern` or bounds."
)


@dataclass(frozen=True, slots=True)
class Step:
    """One walk to take."""

    vocabulary: str
    format: str
    choice: str
    number: int

    @property
    def seed(self) -> str:
        return f"{self.vocabulary} {self.format} {self.choice} {self.number}"


@dataclass(slots=True)
class Tally:
    """The results of the walks in one vocabulary."""

    walks: int = 0
    finished: int = 0
    calls: int = 0
    excused: int = 0
    violations: list[str] = field(default_factory=list)

    @property
    def row(self) -> tuple[str, ...]:
        numbers = (self.walks, self.finished, self.walks - self.finished, self.calls, self.excused)
        return (*map(str, numbers), str(len(self.violations)))


def steps() -> Iterator[Step]:
    """Every format, choice and vocabulary once, then again, so that all get nearly the same number of walks."""
    for number in count():
        for name in FORMATS:
            for choice in CHOICES:
                for vocabulary in VOCABULARIES:
                    yield Step(vocabulary, name, choice, number)


def take(step: Step, tally: Tally) -> None:
    vocabulary, matcher = matcher_of(step.format, step.choice, step.vocabulary)
    result = walk(vocabulary, matcher, random.Random(step.seed))
    tally.walks += 1
    if result.problem:
        tally.violations.append(f"{step.seed}: {result.problem}")
    if not result.is_finished:
        return
    tally.finished += 1
    form = FORMATS[step.format]
    reply = parse(form, result.text, TOOLS)
    tally.calls += len(reply.calls)
    problem = violation(form, step.choice, reply)
    if problem:
        tally.violations.append(f"{step.seed}: {problem}: {result.text!r}")
    elif reply.incomplete:
        tally.excused += 1


def table(tallies: dict[str, Tally]) -> Table:
    total = Tally()
    for tally in tallies.values():
        total.walks += tally.walks
        total.finished += tally.finished
        total.calls += tally.calls
        total.excused += tally.excused
        total.violations += tally.violations
    return Table(
        f"{total.walks} walks",
        f"{len(FORMATS)} formats, each with {len(CHOICES)} choices ({', '.join(CHOICES)}). *Unfinished*: 400 tokens "
        "were not enough; such a text is not judged. *Key twice*: an object has a key twice that its schema does not "
        "list, which no target's grammar can forbid; the parser reports the call as incomplete. *Violations*: a walk "
        "that could not continue, a call that is incomplete, not allowed or invalid, or no call where one is required.",
        ("vocabulary", "walks", "finished", "unfinished", "calls", "key twice", "violations"),
        [(name, *tally.row) for name, tally in {**tallies, "total": total}.items()],
        total.violations[:20],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long walks", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("walks", nargs="?", type=int, default=20_000, help="the number of walks (default: 20000)")
    reader.add_argument("--minutes", type=float, help="stop after this many minutes and publish the results so far")
    options = reader.parse_args(arguments)
    until = None if options.minutes is None else time.monotonic() + 60 * options.minutes
    tallies = {name: Tally() for name in VOCABULARIES}
    console = Console()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("", total=options.walks)
        for step in islice(steps(), options.walks):
            if until is not None and time.monotonic() > until:
                break
            take(step, tallies[step.vocabulary])
            violations = sum(len(tally.violations) for tally in tallies.values())
            progress.update(task, advance=1, description=f"{violations} violations, {step.format}")
    results = table(tallies)
    print_table(results, console)
    count = sum(tally.walks for tally in tallies.values())
    command = f"```sh\nscripts/long walks {count}\n```"
    publish(_SECTION, _HEADING, [command, _ABOUT, describe_versions(), markdown(results)])


if __name__ == "__main__":
    main()
