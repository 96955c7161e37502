"""`/v1/stream`: the gateway over a WebSocket. See `dialects.frames` and docs/reference/frames.md for its frames."""

from __future__ import annotations

from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, Request, Socket, SocketRoute
from ferrule.server.websocket.connection import Connection
from ferrule.server.websocket.turns import Turns

PATH = "/v1/stream"
PROTOCOL = "ferrule.v1"


def socket_routes(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """Return the WebSocket route. Rate limits count running turns, connected or not, and not connections."""
    turns = Turns(gateway, limiter)
    gateway.shutdown_callbacks.append(turns.close)

    async def stream(request: Request, socket: Socket) -> None:
        await Connection(turns, request, socket).serve()

    # Any key may connect: the model is only known with the ask frame, and a key that may only approve needs no model.
    return [SocketRoute(PATH, stream, ANY, PROTOCOL)]
