"""A client of a gateway in the same process. It calls the application over ASGI, without a socket or an SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from ferrule.core.reply import Reply
from ferrule.engines.engine import Engine
from ferrule.engines.fake import FakeEngine
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig
from ferrule.server.gateway import Gateway
from ferrule.server.startup import open_gateway
from ferrule.sources.source import Source

_ENDLESS = "/v1/approvals/events"


@dataclass(frozen=True, slots=True)
class ClientResponse:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The JSON of every `data:` line, without OpenAI's final `[DONE]`."""
        lines = self.body.decode().splitlines()
        payloads = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(one) for one in payloads if one != "[DONE]"]


@dataclass(slots=True)
class Client:
    app: Any
    gateway: Gateway
    headers: dict[str, str] = field(default_factory=lambda: {"host": "localhost"})

    async def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        disconnect: asyncio.Event | None = None,
    ) -> ClientResponse:
        """Send a request and collect the whole response. The client disconnects when `disconnect` is set.

        Without it, the client leaves a stream that never ends after its first event.
        """
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        incoming: list[dict[str, Any]] = [{"type": "http.request", "body": content, "more_body": False}]
        disconnected = disconnect or asyncio.Event()

        async def receive() -> dict[str, Any]:
            if incoming:
                return incoming.pop()
            await disconnected.wait()
            return {"type": "http.disconnect"}

        messages: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            messages.append(message)
            if disconnect is None and path.startswith(_ENDLESS) and message.get("body"):
                disconnected.set()

        all_headers = {**self.headers, "content-length": str(len(content)), **(headers or {})}
        target, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": target,
            "raw_path": target.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in all_headers.items()],
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8000),
        }
        await self.app(scope, receive, send)
        starts = [one for one in messages if one["type"] == "http.response.start"]
        response_headers = {name.decode(): value.decode() for name, value in starts[0]["headers"]} if starts else {}
        chunks = [one.get("body", b"") for one in messages if one["type"] == "http.response.body"]
        return ClientResponse(starts[0]["status"] if starts else 0, response_headers, b"".join(chunks))

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> ClientResponse:
        return await self.request("POST", path, body, headers)

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> ClientResponse:
        return await self.request("GET", path, None, headers)


@asynccontextmanager
async def gateway_of(
    *engines: Engine, sources: Iterable[Source] = (), config: Config | None = None
) -> AsyncGenerator[Client]:
    """A client of a gateway with these engines, named e0, e1 and so on."""
    by_name = {f"e{at}": engine for at, engine in enumerate(engines)}
    gateway_config = config or Config(engines=tuple(EngineConfig(name=name, use=name) for name in by_name))
    async with open_gateway(gateway_config, sources, load=by_name.__getitem__) as gateway:
        yield Client(application(gateway), gateway)


def scripted_engine(*replies: Reply | str) -> FakeEngine:
    return FakeEngine([Reply.of(one) if isinstance(one, str) else one for one in replies])
