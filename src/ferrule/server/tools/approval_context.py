"""What a person should see beside an approval: the tool as it is now, and the leave that was given for it last."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from ferrule.core.visible_text import exactly
from ferrule.run.ledger.ledger import Approval
from ferrule.server.gateway import Gateway
from ferrule.server.tools.approval_view import approval_view


async def shown_approvals(gateway: Gateway, found: Sequence[Approval], now: float) -> list[dict[str, Any]]:
    """Approvals of one tenant, each with what is beside it."""
    if not found:
        return []
    # Of one that was decided on, the last before that; of one that waits, the last of all.
    moments = [(one.tool, math.inf if one.decided_at is None else one.decided_at) for one in found]
    lasts = await gateway.ledger.approved_before(found[0].tenant, moments)
    return [
        {**approval_view(one, now), "definition": _definition(gateway, one), "last": _last(one, last)}
        for one, last in zip(found, lasts, strict=True)
    ]


async def shown_approval(gateway: Gateway, one: Approval, now: float) -> dict[str, Any]:
    return (await shown_approvals(gateway, [one], now))[0]


def _definition(gateway: Gateway, one: Approval) -> dict[str, Any] | None:
    tool = gateway.toolbox.tools.get(one.tool)
    if tool is None:
        return None
    return {
        "description": tool.description,
        "shown_description": exactly(tool.description.encode("utf-8", "surrogatepass")),
        "parameters": tool.parameters,
        "source": gateway.toolbox.source.owner_of(tool.name),
        "side_effects": tool.side_effects,
        "fingerprint": tool.fingerprint,
        "is_same": tool.fingerprint == one.tool_fingerprint,
    }


def _last(one: Approval, last: Approval | None) -> dict[str, Any] | None:
    if last is None:
        return None
    return {
        "id": last.id,
        "decided_at": last.decided_at,
        "decided_by": last.decided_by,
        "fingerprint": last.tool_fingerprint,
        "arguments": last.arguments.decode("utf-8", "backslashreplace"),
        "is_same_definition": last.tool_fingerprint == one.tool_fingerprint,
    }
