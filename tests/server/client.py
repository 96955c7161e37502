"""A client of a gateway in the same process: speaks ASGI to the application, with no socket and no SDK between."""

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
from ferrule.server.startup import opened
from ferrule.sources.source import Source


@dataclass(frozen=True, slots=True)
class Answered:
    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def events(self) -> list[Any]:
        """The JSON of every `data:` line; OpenAI's last word is not one."""
        lines = self.body.decode().splitlines()
        told = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
        return [json.loads(one) for one in told if one != "[DONE]"]


@dataclass(slots=True)
class Client:
    app: Any
    gateway: Gateway
    headers: dict[str, str] = field(default_factory=lambda: {"host": "localhost"})

    async def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        leaves: asyncio.Event | None = None,
    ) -> Answered:
        """The whole answer. `leaves`: the client goes away when it is set, whatever has come by then."""
        content = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        waiting: list[dict[str, Any]] = [{"type": "http.request", "body": content, "more_body": False}]
        gone = leaves or asyncio.Event()

        async def receive() -> dict[str, Any]:
            if waiting:
                return waiting.pop()
            await gone.wait()
            return {"type": "http.disconnect"}

        sent: list[dict[str, Any]] = []

        async def send(message: Any) -> None:
            sent.append(message)

        given = {**self.headers, "content-length": str(len(content)), **(headers or {})}
        where, _, query = path.partition("?")
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": where,
            "raw_path": where.encode(),
            "root_path": "",
            "query_string": query.encode(),
            "headers": [(name.lower().encode(), value.encode()) for name, value in given.items()],
            "client": ("127.0.0.1", 40000),
            "server": ("127.0.0.1", 8000),
        }
        await self.app(scope, receive, send)
        starts = [one for one in sent if one["type"] == "http.response.start"]
        told = {name.decode(): value.decode() for name, value in starts[0]["headers"]} if starts else {}
        pieces = [one.get("body", b"") for one in sent if one["type"] == "http.response.body"]
        return Answered(starts[0]["status"] if starts else 0, told, b"".join(pieces))

    async def post(self, path: str, body: Any, headers: Mapping[str, str] | None = None) -> Answered:
        return await self.ask("POST", path, body, headers)

    async def get(self, path: str, headers: Mapping[str, str] | None = None) -> Answered:
        return await self.ask("GET", path, None, headers)


@asynccontextmanager
async def gateway_of(
    *engines: Engine, sources: Iterable[Source] = (), config: Config | None = None
) -> AsyncGenerator[Client]:
    """A client of a gateway with these engines, named e0, e1 and so on."""
    named = {f"e{at}": engine for at, engine in enumerate(engines)}
    made = config or Config(engines=tuple(EngineConfig(name=name, use=name) for name in named))
    async with opened(made, sources, pick=named.__getitem__) as gateway:
        yield Client(application(gateway), gateway)


def speaking(*replies: Reply | str) -> FakeEngine:
    return FakeEngine([Reply.of(one) if isinstance(one, str) else one for one in replies])
