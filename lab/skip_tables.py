"""What `scripts/bench-skip` tells of its rows: times, words, a picture. Must not know how they were measured."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ferrule.bench.bfcl.chart import Bar, Group, svg
from ferrule.bench.tables import Table

WAYS: Final = ("free", "whole", "skip")
_AIM, _FLOOR = 1.5, 0.95


@dataclass(frozen=True, slots=True)
class Asked:
    """One question, one way. `words` is everything that came out, so that two ways can be compared.

    `pieces` are the texts of its tokens as they came, of a pair that differs.
    """

    engine: str
    choice: str
    width: int
    way: str
    question: str
    seconds: float
    generated: int
    skipped: int
    words: str
    pieces: Sequence[str] = ()


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
                    *(key[0], key[1], str(key[2]), str(len(held)), way),
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
        ("engine", "choice", "at once", "asked", "way", "p50", "p90", "generated", "skipped", "faster"),
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
    for engine in dict.fromkeys(row.engine for row in rows):
        for choice, width in dict.fromkeys((row.choice, row.width) for row in rows if row.engine == engine):
            pairs = _pairs([row for row in rows if (row.engine, row.choice, row.width) == (engine, choice, width)])
            other = [pair for pair in pairs if pair[0].words != pair[1].words]
            lines.append((engine, choice, str(width), *_counted(len(pairs) - len(other), len(pairs))))
            notes += [f"{engine}, {choice}, {width} at once, {one.question}: {parted(one, two)}" for one, two in other]
        every = _pairs([row for row in rows if row.engine == engine])
        same = sum(one.words == two.words for one, two in every)
        lines.append((engine, "together", "", *_counted(same, len(every))))
    return Table(
        "The same words, skipped and not",
        "At temperature 0. Every difference below, by its tokens from the first that differs, held whole first.",
        ("engine", "choice", "at once", "same", "share"),
        lines,
        notes,
        words=2,
    )


def _pairs(rows: Sequence[Asked]) -> list[tuple[Asked, Asked]]:
    """Each question held whole, and skipped."""
    skipped = {(row.choice, row.width, row.question): row for row in rows if row.way == "skip"}
    return [(row, skipped[row.choice, row.width, row.question]) for row in rows if row.way == "whole"]


def _counted(same: int, of: int) -> tuple[str, str]:
    return f"{same} of {of}", f"{100 * same / of:.1f}%" if of else "-"


def parted(one: Asked, two: Asked, shown: int = 6) -> str:
    """Where two answers part, as the tokens that came."""
    texts = ["".join(row.pieces) or row.words for row in (one, two)]
    pairs = zip(*texts, strict=False)
    at = next((at for at, (left, right) in enumerate(pairs) if left != right), min(map(len, texts)))
    told = [_from(row.pieces or (text,), at, shown) for row, text in zip((one, two), texts, strict=True)]
    return f"after {texts[0][max(at - 30, 0) : at]!r}: {told[0]} / {told[1]}"


def _from(pieces: Sequence[str], at: int, shown: int) -> str:
    """The tokens from the one on that holds that character."""
    place = 0
    for number, piece in enumerate(pieces):
        if place + len(piece) > at:
            return " ".join(map(repr, pieces[number : number + shown]))
        place += len(piece)
    return "the end"


def picture(rows: Sequence[Asked]) -> str:
    """Beside holding it whole: what a call takes with skipping, and how many tokens are generated."""
    groups: list[Group] = []
    for key in dict.fromkeys((row.engine, row.choice, row.width) for row in rows):
        same = [row for row in rows if (row.engine, row.choice, row.width) == key]
        whole, skip = ([row for row in same if row.way == way] for way in ("whole", "skip"))
        ratio = gain(whole, skip)
        tokens = sum(row.generated for row in skip) / max(sum(row.generated for row in whole), 1)
        bars = (_bar(1 / ratio, f"1 / {ratio:.2f}"), _bar(tokens, f"{100 * tokens:.0f}%"))
        groups.append(Group(f"{key[0]}, {key[1]}, {key[2]}", bars))
    told = "100% is the call held whole; engine, choice, how many at once"
    return svg("Skipped, beside held whole", told, ("time", "tokens generated"), groups)


def _bar(share: float, words: str) -> Bar:
    # Slower than held whole is drawn as longer, as far as there is room beside the scale.
    drawn = min(share, 1.1)
    return Bar(drawn, drawn, drawn, words)
