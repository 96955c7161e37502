"""What people and programs look up in a ledger, as work: conversations by tenant, approvals by tenant. Changes nothing.

Everything here is asked for by tenant: whoever reads for somebody cannot forget whose it is.
"""

from __future__ import annotations

from collections.abc import Iterable

from ferrule.core.json_text import escaped
from ferrule.errors import LedgerError
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.ledger.search import ConversationLine, Search
from ferrule.run.ledger.title import BEGINNING, LONGEST, title_in
from ferrule.run.ledger.transaction import Row, Work, approval_of, say
from ferrule.run.timeline_entry import title_of

_LATEST = 1e300
"""Later than every moment: where no row is named to go on behind."""


def found_conversations(tenant: str, search: Search) -> Work[tuple[ConversationLine, ...]]:
    at, last = _LATEST, ""
    if search.behind:
        rows = (yield from say("opened_at", search.behind, tenant)).rows
        if not rows:
            raise LedgerError(
                "there is no such conversation to go on behind", code="bad_cursor", hint="Begin without a cursor."
            )
        at, last = rows[0][0], search.behind
    whose = (tenant, search.principal, search.principal)
    holds = (search.text, _pattern(search.text), search.tool, search.tool)
    behind = (float(at), float(at), last)
    rows = (yield from say("conversations_of", BEGINNING, *whose, *behind, *holds, search.most)).rows
    lines: list[ConversationLine] = []
    for row in rows:
        lines.append((yield from _line(row)))
    return tuple(lines)


def found_tenant_approvals(tenant: str, state: ApprovalState | None) -> Work[tuple[Approval, ...]]:
    wanted = state.value if state else ""
    return tuple(map(approval_of, (yield from say("approvals_of", tenant, wanted, wanted)).rows))


def found_conversation_approvals(conversation: str) -> Work[tuple[Approval, ...]]:
    return tuple(map(approval_of, (yield from say("approvals_in_conversation", conversation)).rows))


def found_approved_before(tenant: str, moments: Iterable[tuple[str, float]]) -> Work[tuple[Approval | None, ...]]:
    found: dict[tuple[str, float], Approval | None] = {}
    asked = [(tool, min(float(moment), _LATEST)) for tool, moment in moments]
    for tool, moment in dict.fromkeys(asked):
        rows = (yield from say("approved_before", tenant, tool, moment)).rows
        found[tool, moment] = approval_of(rows[0]) if rows else None
    return tuple(found[one] for one in asked)


def _line(row: Row) -> Work[ConversationLine]:
    *about, beginning, tool = row
    title = title_in(beginning)
    if title is None and len(beginning) == BEGINNING:
        rows = (yield from say("state_beginning", LONGEST, about[0])).rows
        title = title_in(rows[0][0]) if rows else None
    return ConversationLine(*about, title=title or title_of(tool or ""))


def _pattern(text: str) -> str:
    """What is kept is JSON, so the text is looked for as JSON spells it; marks of LIKE stand for themselves."""
    plain = escaped(text).lower()
    for mark in ("!", "%", "_"):
        plain = plain.replace(mark, f"!{mark}")
    return f"%{plain}%"
