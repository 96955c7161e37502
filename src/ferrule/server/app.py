"""The application: every API over one gateway, behind one door."""

from __future__ import annotations

from typing import Any

from ferrule.server import (
    approvals_api,
    chat_api,
    conversations_api,
    health,
    mcp_api,
    messages_api,
    metrics_api,
    models_api,
    openapi,
    responses_api,
    tools_api,
    websocket_api,
)
from ferrule.server.door import Door
from ferrule.server.exchange import Route, SocketRoute
from ferrule.server.gateway import Gateway
from ferrule.server.limits import Limiter
from ferrule.server.watch_front import WatchedFront, watched
from ferrule.server.web import asgi


def application(gateway: Gateway) -> Any:
    """The ASGI application of an open gateway."""
    door = Door(gateway.config)
    routes, sockets = watched(routes_of(gateway)), sockets_of(gateway, door.limiter)
    return asgi(routes, sockets, WatchedFront.around(door, gateway.watch, routes, sockets))


def routes_of(gateway: Gateway) -> list[Route]:
    found = [
        *chat_api.routes(gateway),
        *messages_api.routes(gateway),
        *models_api.routes(gateway),
        *responses_api.routes(gateway),
        *health.routes(gateway),
        *metrics_api.routes(gateway),
        *tools_api.routes(gateway),
        *approvals_api.routes(gateway),
        *conversations_api.routes(gateway),
        *mcp_api.routes(gateway),
    ]
    return [*found, *openapi.routes(found)]


def sockets_of(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """`limiter` is the door's: a turn takes a place there like any other answer."""
    return websocket_api.sockets(gateway, limiter)
