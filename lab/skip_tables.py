"""The tables and the picture of `scripts/bench-skip`: times, and whether outputs are equal. Measures nothing itself."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ferrule.bench.bfcl.run import Bar, Group, render_chart
from ferrule.bench.tables import Table

MODES: Final = ("free", "whole", "skip")
_AIM, _FLOOR = 1.5, 0.95


@dataclass(frozen=True, slots=True)
class SkipRow:
    """One question in one mode. `output` is the whole reply, so that two modes can be compared.

    `pieces` are the texts of its tokens, stored only for pairs that differ.
    """

    engine: str
    choice: str
    concurrency: int
    mode: str
    question: str
    seconds: float
    generated: int
    skipped: int
    output: str
    pieces: Sequence[str] = ()


def times_table(rows: Sequence[SkipRow]) -> Table:
    lines: list[tuple[str, ...]] = []
    for key in dict.fromkeys((row.engine, row.choice, row.concurrency) for row in rows):
        same = [row for row in rows if (row.engine, row.choice, row.concurrency) == key]
        by_mode = {mode: [row for row in same if row.mode == mode] for mode in MODES}
        ratio = gain(by_mode["whole"], by_mode["skip"])
        for mode, mode_rows in by_mode.items():
            seconds = sorted(row.seconds for row in mode_rows)
            generated, skipped = sum(row.generated for row in mode_rows), sum(row.skipped for row in mode_rows)
            lines.append(
                (
                    *(key[0], key[1], str(key[2]), str(len(mode_rows)), mode),
                    f"{statistics.median(seconds):.2f}",
                    f"{seconds[int(len(seconds) * 0.9)]:.2f}",
                    str(generated),
                    f"{100 * skipped / (generated + skipped):.0f}%" if generated + skipped else "-",
                    f"{ratio:.2f}" if mode == "skip" else "",
                )
            )
    return Table(
        "The same calls in three modes",
        "*free* is unconstrained, *whole* is constrained, *skip* is constrained with forced text skipped. Seconds per "
        "call, median and p90; tokens that the engine generated; the share of an answer's tokens that was skipped. "
        "*faster* is the median of each question's own ratio, whole to skip. "
        f"The target is {_AIM} at one request, and nowhere under {_FLOOR}.",
        ("engine", "choice", "at once", "asked", "mode", "p50", "p90", "generated", "skipped", "faster"),
        lines,
        text_columns=2,
    )


def gain(whole: Sequence[SkipRow], skip: Sequence[SkipRow]) -> float:
    """The median of the questions' own ratios."""
    seconds_by_question = {row.question: row.seconds for row in skip}
    return statistics.median(row.seconds / seconds_by_question[row.question] for row in whole)


def words_table(rows: Sequence[SkipRow]) -> Table:
    lines: list[tuple[str, ...]] = []
    notes: list[str] = []
    for engine in dict.fromkeys(row.engine for row in rows):
        for choice, width in dict.fromkeys((row.choice, row.concurrency) for row in rows if row.engine == engine):
            pairs = _pairs(
                [row for row in rows if (row.engine, row.choice, row.concurrency) == (engine, choice, width)]
            )
            other = [pair for pair in pairs if pair[0].output != pair[1].output]
            lines.append((engine, choice, str(width), *_count_and_share(len(pairs) - len(other), len(pairs))))
            notes += [
                f"{engine}, {choice}, {width} at once, {one.question}: {describe_difference(one, two)}"
                for one, two in other
            ]
        every = _pairs([row for row in rows if row.engine == engine])
        same = sum(one.output == two.output for one, two in every)
        lines.append((engine, "total", "", *_count_and_share(same, len(every))))
    return Table(
        "Equal outputs with and without skipping",
        "At temperature 0. Every difference is listed below, by its tokens from the first that differs, without "
        "skipping first.",
        ("engine", "choice", "at once", "same", "share"),
        lines,
        notes,
        text_columns=2,
    )


def _pairs(rows: Sequence[SkipRow]) -> list[tuple[SkipRow, SkipRow]]:
    """Each question's rows without and with skipping."""
    skipped = {(row.choice, row.concurrency, row.question): row for row in rows if row.mode == "skip"}
    return [(row, skipped[row.choice, row.concurrency, row.question]) for row in rows if row.mode == "whole"]


def _count_and_share(same: int, of: int) -> tuple[str, str]:
    return f"{same} of {of}", f"{100 * same / of:.1f}%" if of else "-"


def describe_difference(one: SkipRow, two: SkipRow, max_tokens: int = 6) -> str:
    """Describe where two answers begin to differ, by their tokens."""
    texts = ["".join(row.pieces) or row.output for row in (one, two)]
    pairs = zip(*texts, strict=False)
    at = next((at for at, (before, right) in enumerate(pairs) if before != right), min(map(len, texts)))
    continuations = [_from(row.pieces or (text,), at, max_tokens) for row, text in zip((one, two), texts, strict=True)]
    return f"after {texts[0][max(at - 30, 0) : at]!r}: {continuations[0]} / {continuations[1]}"


def _from(pieces: Sequence[str], at: int, max_tokens: int) -> str:
    """The tokens from the one that contains that character."""
    place = 0
    for number, piece in enumerate(pieces):
        if place + len(piece) > at:
            return " ".join(map(repr, pieces[number : number + max_tokens]))
        place += len(piece)
    return "the end"


def picture(rows: Sequence[SkipRow]) -> str:
    """A chart of the time and the generated tokens with skipping, relative to without."""
    groups: list[Group] = []
    for key in dict.fromkeys((row.engine, row.choice, row.concurrency) for row in rows):
        same = [row for row in rows if (row.engine, row.choice, row.concurrency) == key]
        whole, skip = ([row for row in same if row.mode == mode] for mode in ("whole", "skip"))
        ratio = gain(whole, skip)
        tokens = sum(row.generated for row in skip) / max(sum(row.generated for row in whole), 1)
        bars = (_bar(1 / ratio, f"1 / {ratio:.2f}"), _bar(tokens, f"{100 * tokens:.0f}%"))
        groups.append(Group(f"{key[0]}, {key[1]}, {key[2]}", bars))
    subtitle = "100% is without skipping; engine, choice, concurrent requests"
    return render_chart("With skipping, relative to without", subtitle, ("time", "tokens generated"), groups)


def _bar(share: float, words: str) -> Bar:
    # A slower run is drawn as a longer bar, as far as there is space beside the scale.
    drawn = min(share, 1.1)
    return Bar(drawn, drawn, drawn, words)
