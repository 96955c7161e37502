"""Many random walks under the real mask, in every format, choice and vocabulary: `scripts/long walks [N]`.

Law 4 takes a few such walks in single bytes at every check; this takes as many as one has time for, with real
vocabularies too, and writes what came of them to docs/reference/results.md. A walk is told by its seed, so that any
violation can be walked again.
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

from ferrule import parse
from ferrule.bench.tables import Table, markdown, show
from lab.results_page import publish
from lab.versions import counted_with
from laws.replies import TOOLS
from laws.test_rule_protects import CHOICES, FORMATS, matcher_of, violation
from rules.walks import walk

VOCABULARIES: Final = ("bytes", "llama3", "tekken")
_SECTION: Final = "walks"
_HEADING: Final = "Walks under the mask"
_ABOUT: Final = (
    "A walk chooses among the tokens that llguidance allows under our grammar, at random and with a pull towards "
    "closing characters, for at most 400 tokens. What it wrote, once it may end, is read by our parser, and every call "
    "is checked by a validator that is not ours (`jsonschema`) against the schema of the tool that it names. There is "
    "no model: this writes nonsense wherever the mask leaves it free. The tools are those of the laws, whose schemas "
    "have types, lists, alternatives and optional arguments, but no `enum`, `pattern` or bounds."
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
    """What came of the walks of one vocabulary."""

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
    """Every format, choice and vocabulary once, then again: wherever this is cut off, all had nearly the same share."""
    for number in count():
        for name in FORMATS:
            for choice in CHOICES:
                for vocabulary in VOCABULARIES:
                    yield Step(vocabulary, name, choice, number)


def take(step: Step, tally: Tally) -> None:
    words, matcher = matcher_of(step.format, step.choice, step.vocabulary)
    walked = walk(words, matcher, random.Random(step.seed))
    tally.walks += 1
    if walked.problem:
        tally.violations.append(f"{step.seed}: {walked.problem}")
    if not walked.is_finished:
        return
    tally.finished += 1
    form = FORMATS[step.format]
    reply = parse(form, walked.text, TOOLS)
    tally.calls += len(reply.calls)
    wrong = violation(form, step.choice, reply)
    if wrong:
        tally.violations.append(f"{step.seed}: {wrong}: {walked.text!r}")
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
        "name, which no grammar of the targets can forbid; the parser reports the call as incomplete. *Violations*: a "
        "walk that could not go on, a call that is not complete, not allowed or not valid, or no call where one is "
        "required.",
        ("vocabulary", "walks", "finished", "unfinished", "calls", "key twice", "violations"),
        [(name, *tally.row) for name, tally in {**tallies, "total": total}.items()],
        total.violations[:20],
    )


def main(arguments: Sequence[str] | None = None) -> None:
    reader = argparse.ArgumentParser(prog="scripts/long walks", description=(__doc__ or "").partition("\n")[0])
    reader.add_argument("walks", nargs="?", type=int, default=20_000, help="how many walks in all (default: 20000)")
    reader.add_argument("--minutes", type=float, help="stop after so many minutes, with the walks taken by then")
    asked = reader.parse_args(arguments)
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    tallies = {name: Tally() for name in VOCABULARIES}
    console = Console()
    columns = (BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.description}"), console=console) as progress:
        task = progress.add_task("", total=asked.walks)
        for step in islice(steps(), asked.walks):
            if until is not None and time.monotonic() > until:
                break
            take(step, tallies[step.vocabulary])
            wrong = sum(len(tally.violations) for tally in tallies.values())
            progress.update(task, advance=1, description=f"{wrong} violations, {step.format}")
    counted = table(tallies)
    show(counted, console)
    taken = sum(tally.walks for tally in tallies.values())
    command = f"```sh\nscripts/long walks {taken}\n```"
    publish(_SECTION, _HEADING, [command, _ABOUT, counted_with(), markdown(counted)])


if __name__ == "__main__":
    main()
