"""ApprovalTerms: by how many people, by whom and until when a call must be approved. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ApprovalTerms:
    """The terms of one approval. The ledger stores and enforces them.

    Example:
        terms = ApprovalTerms(approvers=2, four_eyes=True)
    """

    approvers: int = 1
    """How many different people must approve the call."""
    four_eyes: bool = False
    """Whether the principal who asked for the call may not approve it."""
    seconds: float | None = None
    """How long the approval can be given and used; None is the default of the caller."""

    def combined(self, other: ApprovalTerms) -> ApprovalTerms:
        """Return the strictest of both in each respect."""
        times = [one for one in (self.seconds, other.seconds) if one is not None]
        return ApprovalTerms(
            max(self.approvers, other.approvers), self.four_eyes or other.four_eyes, min(times, default=None)
        )


@dataclass(frozen=True, slots=True)
class Vote:
    """One person's approval of a call that needs several."""

    by: str
    at: float
