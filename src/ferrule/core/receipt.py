"""Receipt: how a call was guaranteed to fit its schema. It is evidence about a call, not part of it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class How(StrEnum):
    """GRAMMAR: the engine could write nothing else. VALIDATED: it could, and the call was validated afterwards.

    REPAIRED: the first arguments were invalid and were generated again. REFUSED: no valid call was produced, and the
    call is not passed on.
    """

    GRAMMAR = "grammar"
    VALIDATED = "validated"
    REPAIRED = "repaired"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """How a call was guaranteed, keyword by keyword.

    Each keyword of the schema is in exactly one of `enforced` (while decoding), `checked` (after decoding) and
    `unchecked` (not checked). `path` names the method that the engine used, such as "completion+gbnf".

    Example:
        for call in reply.calls:
            print(call.receipt)  # grammar by llama (completion+lark); enforced required, type; ...
    """

    how: How
    engine: str
    path: str
    format: str = ""
    rule: str = ""
    """The rule's fingerprint; empty if no rule was enforced."""
    enforced: tuple[str, ...] = ()
    checked: tuple[str, ...] = ()
    unchecked: tuple[str, ...] = ()
    seconds: float = 0.0
    tokens: int = 0
    """How many tokens were generated up to the end of the call; 0 if the engine reports only the total."""
    skipped: int = 0
    """How many more tokens were appended without generating them, because the rule left no choice."""
    notes: tuple[str, ...] = ()
    """Notes for a person, such as a choice that was enforced in another way or a template that was not used."""

    @property
    def meaning(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What the call is known to satisfy, by any means, and what was not checked: the same on every engine."""
        return tuple(sorted({*self.enforced, *self.checked})), self.unchecked

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)

    def __str__(self) -> str:
        parts = [f"{self.how} by {self.engine} ({self.path})"]
        parts += [f"{label} {', '.join(keywords)}" for label, keywords in self._lists() if keywords]
        parts += [f"format {self.format}"] * bool(self.format) + [f"rule {self.rule}"] * bool(self.rule)
        duration = f"{self.seconds:.2f} s"
        skipped = f" and {self.skipped} skipped" if self.skipped else ""
        parts += [f"{self.tokens} tokens{skipped} in {duration}" if self.tokens or skipped else duration, *self.notes]
        return "; ".join(parts)

    def _lists(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        return ("enforced", self.enforced), ("checked after", self.checked), ("checked by nobody", self.unchecked)
