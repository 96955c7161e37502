"""The context of an approval for the person who decides: the tool's current definition and its last approval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

from ferrule.core.json_text import loads
from ferrule.core.visible_text import visible, visible_prose, visible_text
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.server_questions import SAMPLING, is_question
from ferrule.server.gateway import Gateway

# The view of an approval that all APIs of the gateway share. It is made of the bytes that will run.
#
# `shown` is for people: every character in it is visible. `arguments` is for programs: the text that was hashed.

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
        "needed": approval.needed,
        "votes": approval.votes,
        "four_eyes": approval.four_eyes,
        "question": question_view(approval),
    }


def question_view(approval: Approval) -> dict[str, Any] | None:
    """Return what an MCP server asks, with every hidden character written out; None for a call.

    All of it is outside text. `kind` is `form`, `url` or `sampling`; nothing opens the address of a `url` by itself.
    """
    if not is_question(approval.conversation, approval.call_id):
        return None
    asked = cast("dict[str, Any]", loads(approval.arguments.decode()))
    kind = SAMPLING if approval.call_id == SAMPLING else "url" if asked.get("url") else "form"
    texts = {name: visible(str(asked.get(name, ""))) for name in ("server", "url", "host", "model")}
    return {
        "kind": kind,
        "message": visible_prose(str(asked.get("message", ""))),
        **texts,
        "schema": asked.get("schema"),
    }


async def approvals_with_context(gateway: Gateway, approvals: Sequence[Approval], now: float) -> list[dict[str, Any]]:
    """Return the views of one tenant's approvals, each with its context."""
    if not approvals:
        return []
    # For a decided approval, the last one before it; for a pending one, the last one of all.
    moments = [(one.tool, math.inf if one.decided_at is None else one.decided_at) for one in approvals]
    previous = await gateway.ledger.earlier_approvals(approvals[0].tenant, moments)
    return [
        {**approval_view(one, now), "definition": _definition(gateway, one), "last": _last(one, last)}
        for one, last in zip(approvals, previous, strict=True)
    ]


async def approval_with_context(gateway: Gateway, approval: Approval, now: float) -> dict[str, Any]:
    return (await approvals_with_context(gateway, [approval], now))[0]


def _definition(gateway: Gateway, approval: Approval) -> dict[str, Any] | None:
    tool = gateway.tool_catalog.tools.get(approval.tool)
    if tool is None:
        return None
    return {
        "description": tool.description,
        "shown_description": visible(tool.description),
        "parameters": tool.parameters,
        "source": gateway.tool_catalog.source.owner_of(tool.name),
        "side_effects": tool.side_effects,
        "fingerprint": tool.fingerprint,
        "is_same": tool.fingerprint == approval.tool_fingerprint,
    }


def _last(approval: Approval, last: Approval | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {
        "id": last.id,
        "decided_at": last.decided_at,
        "decided_by": last.decided_by,
        "fingerprint": last.tool_fingerprint,
        "arguments": last.arguments.decode("utf-8", "backslashreplace"),
        "is_same_definition": last.tool_fingerprint == approval.tool_fingerprint,
    }
