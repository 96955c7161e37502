"""Which conversations and approvals of a tenant to list, and one row of a list of conversations. Values only."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalQuery:
    """Which approvals of a tenant to list: at most `limit`, after the approval `after`, by the time of the request.

    An empty field does not restrict. `status` is a state as it is at `now`: one that was not decided, or not used, in
    time has expired. It may also be "expired", or "decided": approved or denied by a person, whatever happened since.
    """

    status: str = ""
    tool: str = ""
    principal: str = ""
    conversation: str = ""
    after: str = ""
    limit: int = 50
    is_newest_first: bool = False
    now: float = 0.0
