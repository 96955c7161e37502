"""The application: every API over one gateway, behind one door."""

from __future__ import annotations

from typing import Any

from ferrule.server import chat_api, engines_api, me_api, messages_api, models_api
from ferrule.server.console import api as console
from ferrule.server.door.door import Door
from ferrule.server.door.limits import Limiter
from ferrule.server.exchange import Route, SocketRoute
from ferrule.server.gateway import Gateway
from ferrule.server.openapi import document
from ferrule.server.responses import api as responses
from ferrule.server.tools import api as tools
from ferrule.server.tools import approvals, conversations, mcp, sources, stats
from ferrule.server.watch import health, metrics_api
from ferrule.server.watch.front import WatchedFront, watched
from ferrule.server.web import asgi
from ferrule.server.websocket import api as websocket


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
        *engines_api.routes(gateway),
        *responses.routes(gateway),
        *health.routes(gateway),
        *metrics_api.routes(gateway),
        *tools.routes(gateway),
        *approvals.routes(gateway),
        *conversations.routes(gateway),
        *stats.routes(gateway),
        *sources.routes(gateway),
        *mcp.routes(gateway),
        *me_api.routes(gateway),
        *console.routes(gateway.config),
    ]
    return [*found, *document.routes(found)]


def sockets_of(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """`limiter` is the door's: a turn takes a place there like any other answer."""
    return websocket.sockets(gateway, limiter)
