"""`/v1/me`: the principal of the key and its rights, so that the console knows what to offer."""

from __future__ import annotations

from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, AnyResponse, Request, Response, Route


def routes(gateway: Gateway) -> list[Route]:
    needs_key = bool(gateway.config.keys)

    async def me(request: Request) -> AnyResponse:
        principal = request.principal
        # `ANY` only means that there is a key.
        rights = sorted(request.rights - {ANY})
        body = {
            "object": "principal",
            "name": principal.name,
            "tenant": principal.tenant,
            "rights": rights,
            "needs_key": needs_key,
        }
        return Response.json(body, headers={"cache-control": "no-store"})

    return [Route("GET", "/v1/me", me, ANY, render_error)]
