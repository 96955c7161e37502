"""The view of an approval that all APIs of the gateway share. It is made of the bytes that will run.

`shown` is for people: every character in it is visible. `arguments` is for programs: the text that was hashed.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.visible_text import visible_text
from ferrule.run.ledger.ledger import Approval, ApprovalState

EXPIRED = "expired"
_OPEN = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})


def state_of(approval: Approval, now: float) -> str:
    """Return the state of an approval: expired if it was not decided, or not used, in time."""
    return EXPIRED if approval.state in _OPEN and approval.expires_at <= now else approval.state.value


def approval_view(approval: Approval, now: float) -> dict[str, Any]:
    return {
        "object": "approval",
        "id": approval.id,
        "state": state_of(approval, now),
        "tool": approval.tool,
        "fingerprint": approval.tool_fingerprint,
        "principal": approval.principal,
        "conversation": approval.conversation,
        "call_id": approval.call_id,
        "arguments": approval.arguments.decode("utf-8", "backslashreplace"),
        "arguments_sha256": approval.arguments_sha256,
        "shown": visible_text(approval.arguments),
        "requested_at": approval.requested_at,
        "expires_at": approval.expires_at,
        "decided_by": approval.decided_by,
        "decided_at": approval.decided_at,
        "why": approval.why,
    }
