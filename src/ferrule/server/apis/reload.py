"""`/v1/reload`: take up the configuration as it is now, for keys with the operator right."""

from __future__ import annotations

from ferrule.errors import DefinitionError
from ferrule.server.apis.chat import render_error
from ferrule.server.gateway import Gateway
from ferrule.server.http import OPERATOR, AnyResponse, Request, Response, Route


def routes(gateway: Gateway) -> list[Route]:
    async def reload(request: Request) -> AnyResponse:
        if gateway.reload is None:
            raise DefinitionError("this gateway has no configuration file to read", hint="Start it with ferrule serve.")
        report = await gateway.reload()
        body = {
            "object": "reload",
            "changed": list(report.changed),
            "models": list(report.models),
            "tools": report.tools,
        }
        return Response.json(body, headers={"cache-control": "no-store"})

    return [Route("POST", "/v1/reload", reload, OPERATOR, render_error)]
