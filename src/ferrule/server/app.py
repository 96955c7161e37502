"""The application: every API over one gateway, behind one door."""

from __future__ import annotations

from typing import Any

from ferrule.server import chat_api, messages_api, models_api
from ferrule.server.door import Door
from ferrule.server.exchange import Route, SocketRoute
from ferrule.server.gateway import Gateway
from ferrule.server.web import asgi


def application(gateway: Gateway) -> Any:
    """The ASGI application of an open gateway."""
    return asgi(routes_of(gateway), sockets_of(gateway), Door(gateway.config))


def routes_of(gateway: Gateway) -> list[Route]:
    return [*chat_api.routes(gateway), *messages_api.routes(gateway), *models_api.routes(gateway)]


def sockets_of(gateway: Gateway) -> list[SocketRoute]:
    return []
