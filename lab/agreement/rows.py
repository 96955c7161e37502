"""One comparison and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """DEPARTS: they differ in a way that the source is known for and that we do not follow, with the reason said."""

    AGREED = "agreed"
    DISAGREED = "disagreed"
    DEPARTS = "departs"


@dataclass(frozen=True, slots=True)
class Row:
    oracle: str
    source: str
    format: str
    question: str
    verdict: Verdict
    why: str = ""


def judged(oracle: str, source: str, format: str, question: str, ours: str, theirs: str, known: str = "") -> Row:
    """Compare two texts; `known` is how the source is known to depart."""
    if ours == theirs:
        return Row(oracle, source, format, question, Verdict.AGREED)
    if known:
        return Row(oracle, source, format, question, Verdict.DEPARTS, known)
    return Row(oracle, source, format, question, Verdict.DISAGREED, f"ours {ours!r}, theirs {theirs!r}")
