"""What holds calls of a tool to its schema, on each engine that a principal may use, before any call is made.

An engine that was never asked is asked what it is held by, for a moment; where it does not answer, nothing is claimed.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Enforcement, unheld
from ferrule.errors import FerruleError
from ferrule.server.addresses import without_secrets
from ferrule.server.gateway import Gateway
from ferrule.server.http import Asked
from ferrule.server.router import Replica

PATIENCE = 2.0


async def enforcement_of(gateway: Gateway, asked: Asked, tool: ToolDefinition) -> list[dict[str, Any]]:
    found = gateway.engines(asked.principal)
    replicas = list({replica.name: replica for _, replica in found}.values())
    told = await asyncio.gather(*(_told(one, tool, is_admin="admin" in asked.rights) for one in replicas))
    held = dict(zip((one.name for one in replicas), told, strict=True))
    return [{"model": model, "engine": replica.name, **held[replica.name]} for model, replica in found]


async def _told(replica: Replica, tool: ToolDefinition, *, is_admin: bool) -> dict[str, Any]:
    if not replica.health.is_well:
        return _view(unheld(tool), "it rests after a failure")
    try:
        async with asyncio.timeout(PATIENCE):
            return _view(await replica.engine.enforcement(tool))
    except TimeoutError:
        return _view(unheld(tool), "it has not answered yet")
    except FerruleError as failure:
        more = f": {without_secrets(failure.message)}" if is_admin else ""
        return _view(unheld(tool), f"it could not be asked{more}")


def _view(held: Enforcement, why: str = "") -> dict[str, Any]:
    return {
        "target": held.target,
        "enforced": list(held.claims.enforced),
        "checked": list(held.claims.checked),
        "unchecked": list(held.claims.unchecked),
        "why": why,
    }
