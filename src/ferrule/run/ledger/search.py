"""What is looked for among the conversations of a ledger, and a line of what is found. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConversationLine:
    """A conversation in a list: of what was said, the title only. Times are of its first and its last row of audit."""

    id: str
    tenant: str
    principal: str
    version: int
    lease_until: float
    opened_at: float
    changed_at: float
    title: str
    """What was asked first, or else the tool that was called first; empty where neither is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """Which conversations of a tenant: whose, that hold a text, that called a tool, `most` of them `behind` an id."""

    principal: str = ""
    text: str = ""
    tool: str = ""
    behind: str = ""
    most: int = 20
