"""Tool statistics of a ledger: the query, and the report. Values only.

`run.tool_usage` defines the terms. Two more come from what happened to a call after it was picked: failed (it was
started, and its result was an error or is unknown) and denied (a person denied it).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageQuery:
    """Whose calls, since when, of which tool. None means everybody; on behalf of a user, set the tenant."""

    tenant: str | None = None
    principal: str | None = None
    since: float = 0.0
    tool: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageCounts:
    """Counts for one row. `picked` includes the repaired calls; `wrong` is the repaired and the refused ones."""

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
        """The share of wrong calls among those that were picked or refused; None if there are none."""
        total = self.picked + self.refused
        return self.wrong / total if total else None

    def __add__(self, other: UsageCounts) -> UsageCounts:
        names = [one.name for one in fields(UsageCounts)]
        return UsageCounts(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "wrong": self.wrong, "wrong_share": self.wrong_share}


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One model, one tool, one definition of it. With an empty tool: misses that are close to no tool."""

    model: str
    tool: str
    fingerprint: str
    description: str
    first_at: float | None
    last_at: float | None
    """When it was first and last offered."""
    counts: UsageCounts

    def as_dict(self) -> dict[str, Any]:
        identity = {"model": self.model, "tool": self.tool, "fingerprint": self.fingerprint}
        details = {"description": self.description, "first_at": self.first_at, "last_at": self.last_at}
        return {**identity, **details, **self.counts.as_dict()}


@dataclass(frozen=True, slots=True)
class UnknownToolName:
    """A tool name that a model wrote and that was not offered, with the offered tool that is closest to it."""

    model: str
    wrote: str
    tool: str
    count: int

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, slots=True)
class UsageReport:
    """Rows with the most used tools first, and the unknown names that models wrote most often."""

    rows: tuple[UsageRow, ...] = ()
    unknown_names: tuple[UnknownToolName, ...] = ()
