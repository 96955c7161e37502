"""How the schema of a tool is enforced on each engine that a principal may use, before any call is made.

The engines are queried with a short timeout. If one does not answer, no enforcement is claimed for it.
"""

from __future__ import annotations

import asyncio
from typing import Any

from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Enforcement, no_enforcement
from ferrule.errors import FerruleError
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPERATOR, Request
from ferrule.server.router import Replica
from ferrule.server.secret_mask import mask_secrets

ANSWER_SECONDS = 2.0


async def enforcement_of(gateway: Gateway, request: Request, tool: ToolDefinition) -> list[dict[str, Any]]:
    engines = gateway.engines(request.principal)
    replicas = list({replica.name: replica for _, replica in engines}.values())
    views = await asyncio.gather(
        *(_enforcement_on(one, tool, is_operator=OPERATOR in request.rights) for one in replicas)
    )
    view_of = dict(zip((one.name for one in replicas), views, strict=True))
    return [{"model": model, "engine": replica.name, **view_of[replica.name]} for model, replica in engines]


async def _enforcement_on(replica: Replica, tool: ToolDefinition, *, is_operator: bool) -> dict[str, Any]:
    if not replica.health.is_healthy:
        return _view(no_enforcement(tool), "the engine is resting after a failure")
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            return _view(await replica.engine.enforcement(tool))
    except TimeoutError:
        return _view(no_enforcement(tool), "the engine has not answered yet")
    except FerruleError as failure:
        detail = f": {mask_secrets(failure.message)}" if is_operator else ""
        return _view(no_enforcement(tool), f"the engine could not be queried{detail}")


def _view(enforcement: Enforcement, why: str = "") -> dict[str, Any]:
    return {
        "target": enforcement.target,
        "enforced": list(enforcement.claims.enforced),
        "checked": list(enforcement.claims.checked),
        "unchecked": list(enforcement.claims.unchecked),
        "why": why,
    }
