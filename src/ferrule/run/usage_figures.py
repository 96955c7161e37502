"""Which tools models pick, as figures: what is looked for in a ledger, and what is found. Values only.

`run.tool_usage` says what each word means. Two more come from what became of a call after it was picked: failed (it
was begun, and its result was an error or nobody can say what became of it) and denied (a person said no).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class SelectionSearch:
    """Whose selections, since when, of which tool. None is everybody: whoever reads for somebody names his tenant."""

    tenant: str | None = None
    principal: str | None = None
    since: float = 0.0
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """How often. `picked` has the repaired among it, and `wrong` is the repaired and the refused."""

    offered: int = 0
    demanded: int = 0
    picked: int = 0
    repaired: int = 0
    refused: int = 0
    cut_off: int = 0
    failed: int = 0
    denied: int = 0
    retried: int = 0
    repeated: int = 0
    missed: int = 0

    @property
    def wrong(self) -> int:
        return self.repaired + self.refused

    @property
    def wrong_share(self) -> float | None:
        """Of the calls that could be judged; None where there was none."""
        judged = self.picked + self.refused
        return self.wrong / judged if judged else None

    def __add__(self, other: Tally) -> Tally:
        return Tally(**{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(Tally)})

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "wrong": self.wrong, "wrong_share": self.wrong_share}


@dataclass(frozen=True, slots=True)
class SelectionLine:
    """One model, one tool, one definition of it. Without a tool: what was missed and is nearest to none."""

    model: str
    tool: str
    fingerprint: str
    description: str
    first_at: float | None
    last_at: float | None
    """When it was offered first and last."""
    tally: Tally

    def as_dict(self) -> dict[str, Any]:
        named = {"model": self.model, "tool": self.tool, "fingerprint": self.fingerprint}
        seen = {"description": self.description, "first_at": self.first_at, "last_at": self.last_at}
        return {**named, **seen, **self.tally.as_dict()}


@dataclass(frozen=True, slots=True)
class Misnamed:
    """A name that a model wrote though it was not on offer, and the tool on offer that it is nearest to."""

    model: str
    wrote: str
    tool: str
    count: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class SelectionFigures:
    """Lines with the most used first, and the names that were made up most."""

    lines: tuple[SelectionLine, ...] = ()
    misnamed: tuple[Misnamed, ...] = ()
