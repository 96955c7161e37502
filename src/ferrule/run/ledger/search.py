"""ConversationQuery and ConversationSummary: a search among conversations, and one row of its result. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ConversationSummary:
    """A conversation in a list, without its messages. The times are those of its first and last audit rows."""

    id: str
    tenant: str
    principal: str
    version: int
    lease_until: float
    opened_at: float
    changed_at: float
    title: str
    """The beginning of the first user message, or else the tool that was called first; empty if neither is known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversationQuery:
    """Which conversations of a tenant to list: by principal, text and tool; at most `limit`, after the id `after`.

    `is_untraced`: only those for which no request was recorded, such as those of programs.
    """

    principal: str = ""
    text: str = ""
    tool: str = ""
    after: str = ""
    limit: int = 20
    is_untraced: bool = False
