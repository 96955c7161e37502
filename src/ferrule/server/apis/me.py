"""`/v1/me`: who one is by the key that one shows, and what that lets one do. So a page knows what to offer."""

from __future__ import annotations

from ferrule.server.apis.chat import shape
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, Answer, Asked, Route, Whole


def routes(gateway: Gateway) -> list[Route]:
    needs_key = bool(gateway.config.keys)

    async def me(asked: Asked) -> Answer:
        who = asked.principal
        # That one has a key at all is no right of its own.
        rights = sorted(asked.rights - {ANY})
        told = {"object": "principal", "name": who.name, "tenant": who.tenant, "rights": rights, "needs_key": needs_key}
        return Whole.of(told, headers={"cache-control": "no-store"})

    return [Route("GET", "/v1/me", me, ANY, shape)]
