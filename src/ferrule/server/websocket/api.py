"""`/v1/stream`: the gateway over a WebSocket. Its frames are in `dialects.frames` and docs/reference/frames.md."""

from __future__ import annotations

from ferrule.server.auth.rate_limits import Limiter
from ferrule.server.gateway import Gateway
from ferrule.server.http import ANY, Asked, Socket, SocketRoute
from ferrule.server.websocket.connection import Connection
from ferrule.server.websocket.turns import Turns

PATH = "/v1/stream"
PROTOCOL = "ferrule.v1"


def sockets(gateway: Gateway, limiter: Limiter) -> list[SocketRoute]:
    """A connection takes no place: each turn does, for as long as it is under way, connected or not."""
    turns = Turns(gateway, limiter)
    gateway.at_end.append(turns.close)

    async def stream(asked: Asked, socket: Socket) -> None:
        await Connection(turns, asked, socket).serve()

    # Any key: which models may be asked is known with the ask, and whoever may only give leave comes in for that.
    return [SocketRoute(PATH, stream, ANY, PROTOCOL)]
