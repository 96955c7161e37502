"""`/v1/me`: the principal of the key, its rights and what is left of its quotas."""

from __future__ import annotations

from typing import Any

from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, AnyResponse, Request, Response, Route
from ferrule.server.quotas.charge import QuotaUse


def routes(gateway: Gateway) -> list[Route]:
    async def me(request: Request) -> AnyResponse:
        principal = request.principal
        # `ANY` only means that there is a key.
        rights = sorted(request.rights - {ANY})
        body = {
            "object": "principal",
            "name": principal.name,
            "tenant": principal.tenant,
            "rights": rights,
            "needs_key": gateway.keys.is_required,
            "quotas": [_use_view(use) for use in await gateway.quotas.uses(principal)],
        }
        return Response.json(body, headers={"cache-control": "no-store"})

    return [Route("GET", "/v1/me", me, ANY, render_error)]


def _use_view(use: QuotaUse) -> dict[str, Any]:
    quota = use.quota
    return {
        "name": quota.name,
        "counts": quota.counts.value,
        "per": quota.per.value,
        "each": quota.each.value,
        "most": quota.most,
        "used": use.used,
        "remaining": use.remaining,
        "seconds_left": use.seconds_left,
    }
