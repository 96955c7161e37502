"""An approval as every API of the gateway shows it: from the bytes that will run, never from what a model said of them.

`shown` is for people: every character of it can be seen. `arguments` is for programs: the text that was hashed.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.visible_text import exactly
from ferrule.run.ledger.ledger import Approval, ApprovalState

EXPIRED = "expired"
_OPEN = frozenset({ApprovalState.PENDING, ApprovalState.APPROVED})


def state_of(one: Approval, now: float) -> str:
    """One that nobody decided on, or that was not used, in time, has run out."""
    return EXPIRED if one.state in _OPEN and one.expires_at <= now else one.state.value


def approval_view(one: Approval, now: float) -> dict[str, Any]:
    return {
        "object": "approval",
        "id": one.id,
        "state": state_of(one, now),
        "tool": one.tool,
        "fingerprint": one.tool_fingerprint,
        "principal": one.principal,
        "conversation": one.conversation,
        "call_id": one.call_id,
        "arguments": one.arguments.decode("utf-8", "backslashreplace"),
        "arguments_sha256": one.arguments_sha256,
        "shown": exactly(one.arguments),
        "requested_at": one.requested_at,
        "expires_at": one.expires_at,
        "decided_by": one.decided_by,
        "decided_at": one.decided_at,
        "why": one.why,
    }
