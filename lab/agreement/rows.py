"""One comparison and its outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class AgreementVerdict(StrEnum):
    """DEPARTS: they differ in a way that the source is known for and that we do not follow, with the reason said."""

    AGREED = "agreed"
    DISAGREED = "disagreed"
    DEPARTS = "departs"


@dataclass(frozen=True, slots=True)
class AgreementRow:
    oracle: str
    source: str
    format: str
    question: str
    verdict: AgreementVerdict
    why: str = ""


def compare_texts(
    oracle: str, source: str, format: str, question: str, ours: str, theirs: str, known_difference: str = ""
) -> AgreementRow:
    """Compare two texts; `known_difference` describes how the source is known to differ."""
    if ours == theirs:
        return AgreementRow(oracle, source, format, question, AgreementVerdict.AGREED)
    if known_difference:
        return AgreementRow(oracle, source, format, question, AgreementVerdict.DEPARTS, known_difference)
    return AgreementRow(
        oracle, source, format, question, AgreementVerdict.DISAGREED, f"ours {ours!r}, theirs {theirs!r}"
    )
