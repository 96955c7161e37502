"""The same questions three ways on one engine: left free, held whole, and held with forced text skipped.

`scripts/bench-skip`. Every question goes all three ways before the next one, so that a machine which slows down slows
all of them. What is told are ratios between neighbours, and whether skipping changed a word.
"""

import argparse
import asyncio
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import Progress, TimeRemainingColumn

from ferrule.bench.bfcl_requests import Question, questions
from ferrule.bench.circumstances import circumstances, told
from ferrule.bench.real_engines import ENGINES
from ferrule.bench.results_page import publish
from ferrule.bench.tables import Table, markdown, show
from ferrule.bench.workers import CACHE
from ferrule.core.choice import ToolChoice
from ferrule.core.reply import Reply
from ferrule.engines.text import TextEngine, TextOptions

WAYS: Final[Mapping[str, TextOptions]] = {
    "free": TextOptions(format="hermes", is_constrained=False),
    "whole": TextOptions(format="hermes", skips=False),
    "skip": TextOptions(format="hermes", skips=True),
}
_CHOICES: Final = {"required": ToolChoice.required(), "auto": ToolChoice.auto()}
_SECTION: Final = "skip"
_COMMAND: Final = "```sh\nscripts/setup-llama\nscripts/setup-vllm\nscripts/bench-skip\n```"
_AIM, _FLOOR = 1.5, 0.95
_MAX_TOKENS: Final = 256
_FREE: Final = ToolChoice.auto()


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, one way. `words` is everything that came out, so that two ways can be compared."""

    engine: str
    choice: str
    width: int
    way: str
    question: str
    seconds: float
    generated: int
    skipped: int
    words: str


def words_of(reply: Reply) -> str:
    return json.dumps([reply.text, [[call.name, call.function.arguments] for call in reply.calls]], ensure_ascii=False)


async def asked(engine: TextEngine, question: Question, choice: str) -> tuple[float, int, int, str]:
    # Free, a model cannot be held to a call: it is asked, and may.
    chosen = _CHOICES[choice] if engine.options.is_constrained else _FREE
    started = time.monotonic()
    reply = await engine.generate_with_tools(question.request(chosen, _MAX_TOKENS))
    seconds = time.monotonic() - started
    skipped = max((call.receipt.skipped for call in reply.calls if call.receipt), default=0)
    return seconds, reply.usage.completion_tokens if reply.usage else 0, skipped, words_of(reply)


async def measured(
    name: str, counts: Mapping[str, int], widths: Sequence[int], advance: Callable[[], None]
) -> list[Asked]:
    found: list[Asked] = []
    async with ENGINES[name](WAYS["whole"]) as opened:
        assert isinstance(opened, TextEngine)
        ways = {way: TextEngine(opened.generator, options) for way, options in WAYS.items()}
        for choice, count in counts.items():
            for width in widths:
                found += await _by_width(name, ways, choice, questions(count), width, advance)
    return found


async def _by_width(
    name: str,
    ways: Mapping[str, TextEngine],
    choice: str,
    all_of_them: Sequence[Question],
    width: int,
    advance: Callable[[], None],
) -> list[Asked]:
    found: list[Asked] = []
    for at in range(0, len(all_of_them), width):
        group = all_of_them[at : at + width]
        # Whoever comes first reads the prompt that the others find in the cache, so nobody is first who is counted.
        await asyncio.gather(*(ways["free"].generate_with_tools(question.request(_FREE, 1)) for question in group))
        for way, engine in ways.items():
            answers = await asyncio.gather(*(asked(engine, question, choice) for question in group))
            found += [
                Asked(name, choice, width, way, question.id, *answer)
                for question, answer in zip(group, answers, strict=True)
            ]
        advance()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench-skip", description=__doc__)
    parser.add_argument("--required", type=int, default=200, help="how many questions with a call required")
    parser.add_argument("--auto", type=int, default=100, help="how many with auto")
    parser.add_argument("--width", type=int, action="append", help="how many at once (default: 1 and 8)")
    parser.add_argument("--engine", action="append", choices=tuple(ENGINES))
    parser.add_argument("--print", action="store_true", help="do not write the page of results")
    arguments = parser.parse_args()
    widths = arguments.width or [1, 8]
    counts = {"required": arguments.required, "auto": arguments.auto}
    console = Console()
    with Progress(*Progress.get_default_columns(), TimeRemainingColumn(), console=console) as progress:
        for name in arguments.engine or ENGINES:
            steps = sum(-(-count // width) for count in counts.values() for width in widths)
            task = progress.add_task(name, total=steps)
            rows = asyncio.run(measured(name, counts, widths, lambda t=task: progress.advance(t)))
            kept = _file(name)
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_text(json.dumps([asdict(row) for row in rows]), encoding="utf-8")
    rows = [Asked(**row) for name in ENGINES if _file(name).exists() for row in json.loads(_file(name).read_text())]
    tables = [times_table(rows), words_table(rows)]
    for table in tables:
        show(table, console)
    if not arguments.print:
        publish(_SECTION, "Skip", [_COMMAND, told(circumstances()), *map(markdown, tables)])


def _file(engine: str) -> Path:
    return CACHE / "results" / f"skip-{engine}.json"


def times_table(rows: Sequence[Asked]) -> Table:
    lines: list[tuple[str, ...]] = []
    for key in dict.fromkeys((row.engine, row.choice, row.width) for row in rows):
        same = [row for row in rows if (row.engine, row.choice, row.width) == key]
        by_way = {way: [row for row in same if row.way == way] for way in WAYS}
        ratio = gain(by_way["whole"], by_way["skip"])
        for way, held in by_way.items():
            seconds = sorted(row.seconds for row in held)
            generated, skipped = sum(row.generated for row in held), sum(row.skipped for row in held)
            lines.append(
                (
                    *(key[0], key[1], str(key[2]), way),
                    f"{statistics.median(seconds):.2f}",
                    f"{seconds[int(len(seconds) * 0.9)]:.2f}",
                    str(generated),
                    f"{100 * skipped / (generated + skipped):.0f}%" if generated + skipped else "-",
                    f"{ratio:.2f}" if way == "skip" else "",
                )
            )
    return Table(
        "Three ways to the same call",
        "Seconds for a call, the middle and the ninetieth of a hundred; tokens that the engine generated; the share of "
        "an answer's tokens that was skipped. *faster* is the middle of each question's own ratio, whole to skipped. "
        f"The aim is {_AIM} at one request, and nowhere under {_FLOOR}.",
        ("engine", "choice", "at once", "way", "p50", "p90", "generated", "skipped", "faster"),
        lines,
        words=2,
    )


def gain(whole: Sequence[Asked], skip: Sequence[Asked]) -> float:
    """The middle of the questions' own ratios."""
    taken = {row.question: row.seconds for row in skip}
    return statistics.median(row.seconds / taken[row.question] for row in whole)


def words_table(rows: Sequence[Asked]) -> Table:
    lines: list[tuple[str, ...]] = []
    notes: list[str] = []
    for key in dict.fromkeys((row.engine, row.choice, row.width) for row in rows):
        same = [row for row in rows if (row.engine, row.choice, row.width) == key]
        skipped = {row.question: row.words for row in same if row.way == "skip"}
        pairs = [(row.question, row.words, skipped[row.question]) for row in same if row.way == "whole"]
        other = [pair for pair in pairs if pair[1] != pair[2]]
        share = 100 * (len(pairs) - len(other)) / len(pairs)
        lines.append((*key[:2], str(key[2]), f"{len(pairs) - len(other)} of {len(pairs)}", f"{share:.1f}%"))
        notes += [f"{key[0]}, {key[1]}, {key[2]} at once, {name}: {one} / {two}" for name, one, two in other]
    return Table(
        "The same words, skipped and not",
        "At temperature 0; every difference below, whole first.",
        ("engine", "choice", "at once", "same", "share"),
        lines,
        notes,
        words=2,
    )


if __name__ == "__main__":
    main()
