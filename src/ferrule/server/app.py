"""The ASGI application: every API of one gateway, behind authentication, limits and telemetry."""

from __future__ import annotations

from typing import Any

from ferrule.server.apis import (
    approvals,
    chat,
    completions,
    conversations,
    engines,
    keys,
    mcp,
    me,
    messages,
    models,
    reload,
    sources,
    stats,
    tools,
    traces,
)
from ferrule.server.apis.openapi import document
from ferrule.server.apis.responses import api as responses
from ferrule.server.asgi import asgi
from ferrule.server.auth.admission import Admission
from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.console import api as console
from ferrule.server.gateway import Gateway
from ferrule.server.http import Route, SocketRoute
from ferrule.server.observability import health, metrics_api
from ferrule.server.observability.middleware import InstrumentedApp, instrument_routes
from ferrule.server.websocket import api as websocket


def application(gateway: Gateway) -> Any:
    """Build the ASGI application of an open gateway."""
    admission = Admission(gateway.config, gateway.keys)
    gateway.on_config.append(admission.set_config)
    routes, sockets = instrument_routes(routes_of(gateway)), sockets_of(gateway, admission.limiter)
    return asgi(routes, sockets, InstrumentedApp.wrap(admission, gateway.telemetry, routes, sockets))


def routes_of(gateway: Gateway) -> list[Route]:
    api_routes = [
        *chat.routes(gateway),
        *completions.routes(gateway),
        *messages.routes(gateway),
        *models.routes(gateway),
        *engines.routes(gateway),
        *responses.routes(gateway),
        *health.routes(gateway),
        *metrics_api.routes(gateway),
        *tools.routes(gateway),
        *approvals.routes(gateway),
        *conversations.routes(gateway),
        *traces.routes(gateway),
        *stats.routes(gateway),
        *sources.routes(gateway),
        *mcp.routes(gateway),
        *me.routes(gateway),
        *keys.routes(gateway),
        *reload.routes(gateway),
        *console.routes(gateway.config),
    ]
    return [*api_routes, *document.routes(api_routes)]


def sockets_of(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """The WebSocket routes. They share the `limiter` of HTTP requests: a turn counts against the same limits."""
    return websocket.socket_routes(gateway, limiter)
