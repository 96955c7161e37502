"""Read-only transactions for people and programs: conversations and approvals of a tenant.

Every query takes a tenant, so that a caller cannot forget to restrict it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.json_text import escape_text
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ConversationQuery, ConversationSummary
from ferrule.run.ledger.title import MAX_PREFIX_CHARS, PREFIX_CHARS, title_of_state
from ferrule.run.ledger.transaction import Row, Transaction, approval_of, execute
from ferrule.run.timeline_entry import title_of

_LATEST = 1e300
"""Later than every time: where a list has no cursor."""


def find_conversations(
    tenant: str, query: ConversationQuery, cursor: tuple[float, str] | None = None
) -> Transaction[tuple[ConversationSummary, ...]]:
    """Return conversations, newest first. `cursor` is the time and the id to start after, instead of `query.after`."""
    at, last = cursor or (_LATEST, "")
    if query.after:
        rows = (yield from execute("opened_at", query.after, tenant)).rows
        if not rows:
            raise LedgerError("the cursor names no conversation", code="bad_cursor", hint="Start without a cursor.")
        at, last = rows[0][0], query.after
    owner = (tenant, query.principal, query.principal)
    contents = (query.text, like_pattern(query.text), query.tool, query.tool, int(query.is_untraced))
    start = (float(at), float(at), last)
    rows = (yield from execute("conversations_of", PREFIX_CHARS, *owner, *start, *contents, query.limit)).rows
    lines: list[ConversationSummary] = []
    for row in rows:
        lines.append((yield from _line(row)))
    return tuple(lines)


def find_tenant_approvals(tenant: str, state: ApprovalState | None) -> Transaction[tuple[Approval, ...]]:
    read = execute("approvals_of", tenant) if state is None else execute("approvals_of_in", state.value, tenant)
    return tuple(map(approval_of, (yield from read).rows))


def find_conversation_approvals(conversation: str) -> Transaction[tuple[Approval, ...]]:
    return tuple(map(approval_of, (yield from execute("approvals_in_conversation", conversation)).rows))


def find_earlier_approvals(
    tenant: str, tool_times: Iterable[tuple[str, float]]
) -> Transaction[tuple[Approval | None, ...]]:
    approvals: dict[tuple[str, float], Approval | None] = {}
    keys = [(tool, min(float(time), _LATEST)) for tool, time in tool_times]
    for tool, time in dict.fromkeys(keys):
        rows = (yield from execute("approved_before", tenant, tool, time)).rows
        approvals[tool, time] = approval_of(rows[0]) if rows else None
    return tuple(approvals[one] for one in keys)


def _line(row: Row) -> Transaction[ConversationSummary]:
    *about, beginning, tool = row
    title = title_of_state(beginning)
    if title is None and len(beginning) == PREFIX_CHARS:
        rows = (yield from execute("state_beginning", MAX_PREFIX_CHARS, about[0])).rows
        title = title_of_state(rows[0][0]) if rows else None
    return ConversationSummary(*about, title=title or title_of(tool or ""))


def like_pattern(text: str) -> str:
    """Return a LIKE pattern. The text is escaped as in the stored JSON, and wildcards in it are literal."""
    pattern = escape_text(text).lower()
    for wildcard in ("!", "%", "_"):
        pattern = pattern.replace(wildcard, f"!{wildcard}")
    return f"%{pattern}%"
