"""Read-only transactions for people and programs: conversations and approvals of a tenant.

Every query takes a tenant, so that a caller cannot forget to restrict it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.json_text import escape_text
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ConversationQuery, ConversationSummary
from ferrule.run.ledger.transaction import Transaction, approval_of, execute

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
    pattern = like_pattern(query.text)
    contents = (query.text, pattern, pattern, query.tool, query.tool, int(query.is_untraced))
    whose = (tenant, query.principal) if query.principal else (tenant,)
    name = "conversations_of_by" if query.principal else "conversations_of"
    rows = (yield from execute(name, *whose, float(at), last, *contents, query.limit)).rows
    return tuple(ConversationSummary(*row) for row in rows)


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


def like_pattern(text: str) -> str:
    """Return a LIKE pattern. The text is escaped as in the stored JSON, and wildcards in it are literal."""
    pattern = escape_text(text).lower()
    for wildcard in ("!", "%", "_"):
        pattern = pattern.replace(wildcard, f"!{wildcard}")
    return f"%{pattern}%"
