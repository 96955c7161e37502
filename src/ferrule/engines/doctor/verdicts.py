"""Judging: from what was seen in each run to a verdict and a sentence. Must not know any probe.

That a demand is kept shows something only where it would not be kept otherwise, so a demand that was kept every time
is left out of the same requests, and if the answers stay the same the verdict is "unknown".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from ferrule.engines.profile import Finding, Verdict

_MOST_WORDS = 160


class Mark(Enum):
    """What one run showed of a demand."""

    KEPT = "kept"
    BROKEN = "broken"
    LOOSE = "loose"
    """Not what was demanded, but the limit came before it could be."""
    REFUSED = "refused"
    NOTHING = "nothing"
    """It could not show anything, as when no call came whose arguments were to be judged."""


@dataclass(frozen=True, slots=True)
class Sight:
    """`words` go on after "it", as in "called send_note instead"."""

    mark: Mark
    words: str = ""


def kept(words: str = "") -> Sight:
    return Sight(Mark.KEPT, words)


def broken(words: str) -> Sight:
    return Sight(Mark.BROKEN, words)


def loose(words: str) -> Sight:
    return Sight(Mark.LOOSE, words)


def nothing(words: str) -> Sight:
    return Sight(Mark.NOTHING, words)


def is_enough(sights: Sequence[Sight], runs: int) -> bool:
    """Whether as many runs as were wanted showed something."""
    return len(sights) - len(_of(sights, Mark.NOTHING)) >= runs


def is_kept(sights: Sequence[Sight], runs: int) -> bool:
    """Whether nothing speaks against it and enough for it: half of the runs, and two unless only one was wanted."""
    good = len(_of(sights, Mark.KEPT))
    return good + len(_of(sights, Mark.NOTHING)) == len(sights) and good >= max(min(2, runs), (runs + 1) // 2)


def is_loose(sights: Sequence[Sight]) -> bool:
    """Whether all that was answered was cut off by the limit."""
    marks = {sight.mark for sight in sights} - {Mark.NOTHING, Mark.REFUSED}
    return marks == {Mark.LOOSE}


def concluded(name: str, sights: Sequence[Sight], runs: int, without: Sequence[Sight] | None) -> Finding:
    """`without` are the runs of the same requests with the demand left out; None where there is no such thing."""
    if is_kept(sights, runs):
        return _of_kept(name, sights, without)
    if is_loose(sights):
        return _of_loose(name, sights, without)
    good, bad = _of(sights, Mark.KEPT), _of(sights, Mark.BROKEN) or _of(sights, Mark.LOOSE)
    refused, total = _of(sights, Mark.REFUSED), len(sights)
    if bad and good:
        told = f"Kept in {len(good)} of {total} runs, but not always: it {_words(bad)}."
        return Finding(name, Verdict.PARTLY, told)
    if bad:
        return Finding(name, Verdict.IGNORED, f"Not kept in {len(bad)} of {total} runs: it {_words(bad)}.")
    if refused and not good:
        return Finding(name, Verdict.REFUSED, f"Refused: {_words(refused)}")
    seen = _of(sights, Mark.NOTHING)
    why = f"it {_words(seen)}" if seen else "the other runs were refused"
    return Finding(name, Verdict.UNKNOWN, f"Too little to judge by, {len(good)} of {total} runs: {why}.")


def _of_kept(name: str, sights: Sequence[Sight], without: Sequence[Sight] | None) -> Finding:
    good = _of(sights, Mark.KEPT)
    count = f"Kept in {len(good)} of {len(sights)} runs"
    how = f": it {good[0].words}" if good[0].words else ""
    if without is None:
        return Finding(name, Verdict.HONOURED, f"{count}{how}.")
    strayed = _of(without, Mark.BROKEN) or _of(without, Mark.LOOSE)
    if strayed:
        return Finding(name, Verdict.HONOURED, f"{count}; not demanded, it {_words(strayed)}.")
    return Finding(name, Verdict.UNKNOWN, f"{count}, but the model did not stray without the demand either.")


def _of_loose(name: str, sights: Sequence[Sight], without: Sequence[Sight] | None) -> Finding:
    count = f"In {len(_of(sights, Mark.LOOSE))} of {len(sights)} runs it {_words(_of(sights, Mark.LOOSE))}"
    if without and all(sight.mark is Mark.BROKEN for sight in without):
        told = f"{count}; not demanded, the answer ended by itself, so the demand is there but can be put off."
        return Finding(name, Verdict.PARTLY, told)
    return Finding(name, Verdict.UNKNOWN, f"{count}.")


def _of(sights: Sequence[Sight], mark: Mark) -> list[Sight]:
    return [sight for sight in sights if sight.mark is mark]


def _words(sights: Sequence[Sight]) -> str:
    words = " ".join(sights[0].words.split())
    return words if len(words) <= _MOST_WORDS else words[: _MOST_WORDS - 1].rstrip() + "…"
