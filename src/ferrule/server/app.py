"""The application: every API over one gateway, behind one door."""

from __future__ import annotations

from typing import Any

from ferrule.server.apis import (
    approvals,
    chat,
    conversations,
    engines,
    mcp,
    me,
    messages,
    models,
    sources,
    stats,
    tools,
)
from ferrule.server.apis.openapi import document
from ferrule.server.apis.responses import api as responses
from ferrule.server.asgi import asgi
from ferrule.server.auth.admission import Door
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.console import api as console
from ferrule.server.gateway import Gateway
from ferrule.server.http import Route, SocketRoute
from ferrule.server.observability import health, metrics_api
from ferrule.server.observability.middleware import WatchedFront, watched
from ferrule.server.websocket import api as websocket


def application(gateway: Gateway) -> Any:
    """The ASGI application of an open gateway."""
    door = Door(gateway.config)
    routes, sockets = watched(routes_of(gateway)), sockets_of(gateway, door.limiter)
    return asgi(routes, sockets, WatchedFront.around(door, gateway.watch, routes, sockets))


def routes_of(gateway: Gateway) -> list[Route]:
    found = [
        *chat.routes(gateway),
        *messages.routes(gateway),
        *models.routes(gateway),
        *engines.routes(gateway),
        *responses.routes(gateway),
        *health.routes(gateway),
        *metrics_api.routes(gateway),
        *tools.routes(gateway),
        *approvals.routes(gateway),
        *conversations.routes(gateway),
        *stats.routes(gateway),
        *sources.routes(gateway),
        *mcp.routes(gateway),
        *me.routes(gateway),
        *console.routes(gateway.config),
    ]
    return [*found, *document.routes(found)]


def sockets_of(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """`limiter` is the door's: a turn takes a place there like any other answer."""
    return websocket.sockets(gateway, limiter)
