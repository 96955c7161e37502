"""`ferrule serve`: the gateway, in front of any engine."""

from __future__ import annotations

import asyncio
from argparse import ArgumentParser, Namespace
from dataclasses import replace

from ferrule.cli import streams
from ferrule.cli.command import Command
from ferrule.cli.functions import AnyTool, read_functions
from ferrule.cli.serve_sources import sources_of
from ferrule.server.config import Config, EngineConfig

_DEFAULTS = Config(engines=())


def _add_options(parser: ArgumentParser) -> None:
    parser.add_argument("--engine", action="append", default=[], metavar="[NAME=]ENGINE", help="as `pick` takes it")
    parser.add_argument("--host", default=_DEFAULTS.listening.host, help="(default: %(default)s)")
    parser.add_argument("--port", type=int, default=_DEFAULTS.listening.port, help="0 is any (default: %(default)s)")
    parser.add_argument("--tools", action="append", default=[], metavar="MODULE:NAME", help="functions to offer")
    parser.add_argument("--ledger", default="", metavar="PATH_OR_DSN", help="where what happens is written down")
    parser.add_argument("--mcp-config", default="", metavar="FILE", help="an mcp.json")
    parser.add_argument("--mcp-command", default="", metavar="COMMAND", help="one MCP server to start")
    parser.add_argument("--mcp-args", nargs="*", default=[], metavar="ARG", help="what it is started with")
    parser.add_argument("--mcp-tool-refresh-seconds", type=float, default=30.0, metavar="N")


def _run(arguments: Namespace) -> None:
    config = _config(arguments)
    functions: list[AnyTool] = [one for text in arguments.tools for one in read_functions(text)]
    asyncio.run(_served(config, functions))


def _config(arguments: Namespace) -> Config:
    sources = replace(
        _DEFAULTS.sources,
        mcp_config=arguments.mcp_config,
        mcp_command=arguments.mcp_command,
        mcp_args=tuple(arguments.mcp_args),
        mcp_tool_refresh_seconds=arguments.mcp_tool_refresh_seconds,
    )
    return Config(
        engines=tuple(_engine(text) for text in arguments.engine),
        listening=replace(_DEFAULTS.listening, host=arguments.host, port=arguments.port),
        sources=sources,
        ledger=arguments.ledger,
    )


def _engine(text: str) -> EngineConfig:
    name, equals, use = text.partition("=")
    return EngineConfig(name=name, use=use) if equals and ":" not in name else EngineConfig(name="default", use=text)


async def _served(config: Config, functions: list[AnyTool]) -> None:
    from ferrule.server.app import application
    from ferrule.server.opening import opened
    from ferrule.server.serving import serve

    async with opened(config, sources_of(config, functions)) as gateway:
        await serve(
            application(gateway),
            config.listening,
            lambda port: streams.write(f"serving on http://{config.listening.host}:{port}\n"),
        )


COMMAND = Command(
    name="serve",
    about="Serve any engine over the OpenAI and Anthropic APIs.",
    more="Every call that leaves it parses, names an offered tool and fits its schema, whatever the engine.",
    examples="  ferrule serve --engine llama:model.gguf\n"
    "  ferrule serve --engine smol=vllm:http://127.0.0.1:8001 --tools my_tools.py:TOOLS",
    add_options=_add_options,
    run=_run,
)
