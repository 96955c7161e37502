"""The gateway in Python: start it, or embed it in an ASGI application of your own.

`ferrule serve` is the usual way to run a gateway. Use this module for a gateway whose configuration or tools your
program makes. It needs `pip install 'ferrule[server]'`.

Example:
    import asyncio

    from ferrule import tool
    from ferrule.gateway import Config, EngineConfig, serve
    from ferrule.sources import Functions

    @tool
    def get_weather(city: str) -> str:
        return f"sunny in {city}"

    config = Config(engines=(EngineConfig(name="smol", use="llama:model.gguf"),))
    asyncio.run(serve(config, [Functions([get_weather])]))
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ferrule.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from ferrule.core.reply import Reply
    from ferrule.core.request import ToolCallRequest
    from ferrule.run.approval_policy import ApprovalRule
    from ferrule.run.executor import ToolSettings
    from ferrule.server.app import application
    from ferrule.server.config.config import (
        Config,
        EngineConfig,
        GatewayLimits,
        KeyConfig,
        ModelConfig,
        ServerConfig,
    )
    from ferrule.server.gateway import Gateway
    from ferrule.sources.source import Source
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "run.approval_policy": ["ApprovalRule"],
            "run.executor": ["ToolSettings"],
            "server.app": ["application"],
            "server.config.config": [
                *("Config", "EngineConfig", "GatewayLimits", "KeyConfig", "ModelConfig", "ServerConfig")
            ],
            "server.gateway": ["Gateway"],
        },
    )

__all__ = [
    "ApprovalRule",
    "Config",
    "EngineConfig",
    "Gateway",
    "GatewayLimits",
    "KeyConfig",
    "ModelConfig",
    "ServerConfig",
    "ToolSettings",
    "application",
    "chat_request",
    "chat_response",
    "load_config",
    "open",
    "serve",
]


def load_config(path: str | None = None) -> Config:
    """Load a ferrule.toml, and the environment variables that override it. Without a path, ./ferrule.toml if it exists.

    Example:
        config = load_config("ferrule.toml")
    """
    from ferrule.server.config import loader

    return loader.load_config(path, os.environ).config


def open(config: Config, sources: Iterable[Source] = ()) -> AbstractAsyncContextManager[Gateway]:
    """Open a gateway: its engines, the tools of `sources` and its ledger. They are closed at the end of the block.

    Only `ferrule serve` starts the programs that the `sources` table of a ferrule.toml names; here, pass the sources.

    Example:
        async with ferrule.gateway.open(config, [ferrule.sources.mcp("mcp.json")]) as gateway:
            app = application(gateway)  # an ASGI application, for uvicorn or to mount in another
    """
    from ferrule.errors import DefinitionError
    from ferrule.server.startup import open_gateway

    opened = list(sources)
    named = config.sources
    if not opened and (named.functions or named.mcp_config or named.mcp_command or named.nats):
        raise DefinitionError(
            "the configuration names sources of tools, which only `ferrule serve` starts",
            hint='Pass them: open(config, [ferrule.sources.mcp("mcp.json")]).',
        )
    return open_gateway(config, opened)


async def serve(
    config: Config, sources: Iterable[Source] = (), *, on_started: Callable[[int], None] = lambda port: None
) -> None:
    """Run a gateway in this process until SIGINT or SIGTERM, then finish what is in progress.

    `on_started` is called with the port. For several worker processes use `ferrule serve --workers`.

    Example:
        asyncio.run(serve(load_config("ferrule.toml")))
    """
    from ferrule.server.app import application
    from ferrule.server.process import server

    async with open(config, sources) as gateway:
        app = application(gateway)
        await server.serve(app, config.server, on_started, config.limits, telemetry=gateway.telemetry)


def chat_request(body: Mapping[str, Any]) -> ToolCallRequest:
    """Read the body of a request to `/v1/chat/completions`. Raises `DefinitionError` with the path of what is wrong.

    Example:
        reply = engine.generate(chat_request({"messages": [{"role": "user", "content": "Hello."}]}))
    """
    from ferrule.dialects.openai_chat.request_decoder import read_request

    return read_request(dict(body))


def chat_response(reply: Reply, *, model: str, id: str = "", created: int | None = None) -> dict[str, Any]:
    """Return the body of the response of `/v1/chat/completions` for a reply. By default the id and the time are new.

    Example:
        (choice,) = chat_response(reply, model="smol")["choices"]
        print(choice["message"])
    """
    from ferrule.dialects.openai_chat.response_body import body_of

    return body_of(
        reply,
        id=id or f"chatcmpl-{secrets.token_hex(12)}",
        model=model,
        created=int(time.time()) if created is None else created,
    )
