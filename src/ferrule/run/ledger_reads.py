"""What people and programs look up in a ledger, as work: conversations by tenant, approvals by tenant. Changes nothing.

Everything here is asked for by tenant: whoever reads for somebody cannot forget whose it is.
"""

from __future__ import annotations

from ferrule.core.json_text import escaped
from ferrule.errors import LedgerError
from ferrule.run.ledger import Approval, ApprovalState
from ferrule.run.ledger_search import ConversationLine, Search
from ferrule.run.ledger_work import Work, approval_of, say

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
    rows = (yield from say("conversations_of", *whose, float(at), float(at), last, *holds, search.most)).rows
    return tuple(ConversationLine(*row) for row in rows)


def found_tenant_approvals(tenant: str, state: ApprovalState | None) -> Work[tuple[Approval, ...]]:
    wanted = state.value if state else ""
    return tuple(map(approval_of, (yield from say("approvals_of", tenant, wanted, wanted)).rows))


def found_conversation_approvals(conversation: str) -> Work[tuple[Approval, ...]]:
    return tuple(map(approval_of, (yield from say("approvals_in_conversation", conversation)).rows))


def _pattern(text: str) -> str:
    """What is kept is JSON, so the text is looked for as JSON spells it; marks of LIKE stand for themselves."""
    plain = escaped(text).lower()
    for mark in ("!", "%", "_"):
        plain = plain.replace(mark, f"!{mark}")
    return f"%{plain}%"
