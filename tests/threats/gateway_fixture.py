"""The gateway under attack: two tenants with keys, tools with and without side effects, and all routes."""

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
from server.client import Client, ClientResponse, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.websocket_client import subprotocols_of
from waiting import PATIENCE

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


def succeed(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Done(f"{name} was done")


def tools() -> FakeSource:
    return FakeSource([READ, SEND], succeed)


def call(name: str, id: str = "call_1", **arguments: Any) -> Reply:
    return Reply.of(ToolCall.of(name, arguments, id=id))


def endless_engine(text: str = "Hello.") -> FakeEngine:
    """An engine that gives the same reply to every request."""
    return FakeEngine(cast("Any", repeat(Reply.of(text))))


@asynccontextmanager
async def threat_gateway(
    *replies: Reply | str, source: FakeSource | None = None, engine: Engine | None = None, **server: Any
) -> AsyncGenerator[Client]:
    """Open the gateway. The client sends no key unless you pass `bearer(ANN)` or the like."""
    sources = [source or tools()]
    async with gateway_of(
        engine or scripted_engine(*replies), sources=sources, config=config_with_keys(*KEYS, **server)
    ) as client:
        yield client


async def chat(client: Client, who: str, **body: Any) -> ClientResponse:
    return await client.post(CHAT, {"model": "e0", "messages": USER, **body}, bearer(who))


def keyed_routes(client: Client) -> list[Route]:
    return [route for route in routes_of(client.gateway) if route.scope != OPEN]


def socket_paths(client: Client) -> list[str]:
    return [one.path for one in client.app.routes if type(one).__name__ == "WebSocketRoute"]


def fill_path(path: str, id: str = "x") -> str:
    """The path of a route with `id` for all its parameters."""
    segments = [piece if not piece.startswith("{") else id for piece in path.split("/")]
    return "/".join(segments)


def bodies(route: Route, **more: Any) -> Iterator[dict[str, Any]]:
    """Valid bodies for all APIs, and an empty one."""
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


async def open_websocket(client: Client, path: str, headers: Mapping[str, str]) -> list[dict[str, Any]]:
    """Open a WebSocket, disconnect, and return the messages that were sent."""
    incoming = [{"type": "websocket.connect"}, {"type": "websocket.disconnect", "code": 1000}]
    messages: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return incoming.pop(0) if incoming else await asyncio.get_running_loop().create_future()

    async def send(message: Any) -> None:
        messages.append(message)

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
        "subprotocols": subprotocols_of(headers),
    }
    async with asyncio.timeout(PATIENCE):
        await client.app(scope, receive, send)
    return messages
