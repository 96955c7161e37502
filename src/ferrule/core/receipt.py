"""Receipt: how a call was guaranteed. Evidence about a call, never a part of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class How(StrEnum):
    """GRAMMAR: the engine could write nothing else. VALIDATED: it could, and what it wrote was checked.

    REPAIRED: what it wrote first did not fit, and its arguments were written again. REFUSED: nothing fitting came, and
    the call is not handed on.
    """

    GRAMMAR = "grammar"
    VALIDATED = "validated"
    REPAIRED = "repaired"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What held this call to its schema, keyword by keyword.

    A keyword that the schema uses is in exactly one of `enforced` (while decoding), `checked` (after it) and
    `unchecked` (by nobody). `path` is the way through the engine, such as "completion+gbnf".
    """

    how: How
    engine: str
    path: str
    format: str = ""
    rule: str = ""
    """The rule's fingerprint; empty where none was enforced."""
    enforced: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    seconds: float = 0.0
    tokens: int = 0
    """How many were written up to the end of the call; 0 where the engine tells only at the end of the reply."""
    skipped: int = 0
    """How many more were not generated but appended, because the rule left no choice about them."""
    notes: tuple[str, ...] = ()
    """What a person should know: a choice honoured in another way, a template that was not used."""

    @property
    def meaning(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the call is known to satisfy, by whatever means, and what nobody looked at: equal on every engine."""
        return tuple(sorted({*self.enforced, *self.checked})), self.unchecked

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        said = [f"{self.how} by {self.engine} ({self.path})"]
        said += [f"{word} {', '.join(words)}" for word, words in self._lists() if words]
        said += [f"format {self.format}"] * bool(self.format) + [f"rule {self.rule}"] * bool(self.rule)
        took = f"{self.seconds:.2f} s"
        skipped = f" and {self.skipped} skipped" if self.skipped else ""
        said += [f"{self.tokens} tokens{skipped} in {took}" if self.tokens or skipped else took, *self.notes]
        return "; ".join(said)

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("enforced", self.enforced), ("checked after", self.checked), ("checked by nobody", self.unchecked)
