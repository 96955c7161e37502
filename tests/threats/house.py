"""A gateway for attackers: two tenants with keys, tools that read and that change the world, and every route of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager
from itertools import repeat
from typing import Any, cast

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered as Done
from ferrule.core.outcome import Outcome
from ferrule.core.reply import Reply
from ferrule.core.tool import ToolDefinition
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeEngine
from ferrule.server.app import routes_of
from ferrule.server.http import OPEN, Route
from ferrule.sources.fake import FakeSource
from server.client import Answered, Client, gateway_of, speaking
from server.keys import bearer, key, keyed
from server.websocket_client import offered

CHAT = "/v1/chat/completions"
USER = [{"role": "user", "content": "Hi."}]
TEXT = {"type": "string"}
READ = ToolDefinition("read", "Reads.", {"type": "object", "properties": {"what": TEXT}})
SEND = ToolDefinition("send", "Sends.", {"type": "object", "properties": {"to": TEXT}}, side_effects=True)
EVERYTHING: dict[str, Any] = {"models": ("*",), "tools": ("*",), "approve": True, "admin": True}
ANN, BOB, EVE = "ann-of-acme", "bob-of-acme", "eve-of-evil"
KEYS = (
    key(ANN, tenant="acme", **EVERYTHING),
    key(BOB, tenant="acme", models=("*",), tools=("*",)),
    key(EVE, tenant="evil", **EVERYTHING),
)


def works(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Done(f"{name} was done")


def tools() -> FakeSource:
    return FakeSource([READ, SEND], works)


def call(name: str, id: str = "call_1", **arguments: Any) -> Reply:
    return Reply.of(ToolCall.of(name, arguments, id=id))


def endless(text: str = "Hello.") -> FakeEngine:
    """Says the same as often as it is asked."""
    return FakeEngine(cast("Any", repeat(Reply.of(text))))


@asynccontextmanager
async def house(
    *replies: Reply | str, source: FakeSource | None = None, engine: Engine | None = None, **listening: Any
) -> AsyncGenerator[Client]:
    """Its client has no key; ask with `bearer(ANN)` and the like."""
    sources = [source or tools()]
    async with gateway_of(engine or speaking(*replies), sources=sources, config=keyed(*KEYS, **listening)) as client:
        yield client


async def chat(client: Client, who: str, **body: Any) -> Answered:
    return await client.post(CHAT, {"model": "e0", "messages": USER, **body}, bearer(who))


def closed_routes(client: Client) -> list[Route]:
    return [route for route in routes_of(client.gateway) if route.scope != OPEN]


def socket_paths(client: Client) -> list[str]:
    return [one.path for one in client.app.routes if type(one).__name__ == "WebSocketRoute"]


def filled(path: str, id: str = "x") -> str:
    """The path of a route with this in the place of everything that is left open."""
    begun = [piece if not piece.startswith("{") else id for piece in path.split("/")]
    return "/".join(begun)


def bodies(route: Route, **more: Any) -> Iterator[dict[str, Any]]:
    """Requests that a route may take seriously, whichever it is, and one that it will not."""
    yield {"model": "e0", "messages": USER, "max_tokens": 5, **more}
    yield {"model": "e0", "input": "Hi.", **more}
    yield {"name": "read", "arguments": {"what": "x"}, **more}
    yield {"approve": True, **more}
    yield {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "read", "arguments": {}, **more},
        **more,
    }
    yield {**more}


async def knock(client: Client, path: str, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """What is sent to somebody who asks for a WebSocket and then leaves."""
    coming = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return coming.pop(0) if coming else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "websocket",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "scheme": "ws",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(name.lower().encode(), value.encode()) for name, value in {**client.headers, **headers}.items()],
        "client": ("127.0.0.1", 40000),
        "server": ("127.0.0.1", 8000),
        "subprotocols": offered(headers),
    }
    async with asyncio.timeout(30):
        await client.app(scope, receive, send)
    return sent
