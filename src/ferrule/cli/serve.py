"""`ferrule serve`: the gateway, in front of any engine."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from ferrule.cli import serve_process, streams
from ferrule.cli.command import Command
from ferrule.cli.serve_banner import greeting
from ferrule.cli.serve_flags import add_flags, layer_of, name_of, told_model
from ferrule.cli.terminal import seen
from ferrule.server.addresses import without_secrets
from ferrule.server.config.config import Config
from ferrule.server.config.loader import load
from ferrule.server.config.validation import unwise

if TYPE_CHECKING:
    from ferrule.server.gateway import Gateway


def _run(arguments: Namespace) -> None:
    config = config_of(arguments)
    serve_process.run(config, partial(greet, config))


def config_of(arguments: Namespace) -> Config:
    """What flags, the environment and the file come to."""
    return load(arguments.config, os.environ, layer_of(arguments, _name_of)).config


def _name_of(use: str) -> str:
    return name_of(use, _asked)


def _asked(url: str, key: str) -> str:
    told = asyncio.run(told_model(url, key))
    if not told:
        words = f"{without_secrets(url)} does not say yet which model it has; name it: --engine NAME=..."
        print(seen(f"notice: {words}"), file=sys.stderr)
    return told


def greet(config: Config, gateway: Gateway, port: int) -> None:
    """Says what is served. By what was configured: several workers fill in what they share."""
    tools = list(gateway.toolbox.tools.values())
    streams.write(greeting(config, port, tools))
    effects = [tool.name for tool in tools if tool.side_effects]
    for words in dict.fromkeys(gateway.toolbox.notices):
        print(seen(f"notice: {words}"), file=sys.stderr)
    for words in unwise(config, effects):
        print(seen(f"warning: {words}"), file=sys.stderr)


COMMAND = Command(
    name="serve",
    about="Serve any engine over the OpenAI and Anthropic APIs.",
    more="Every call that leaves it parses, names an offered tool and fits its schema, whatever the engine.\n"
    "Flags count before the environment (FERRULE_SERVER_PORT, ...), the environment before ferrule.toml;\n"
    "`ferrule config settings` explains every setting, `ferrule config check` tells what would be served.",
    examples="  ferrule serve --engine llama:model.gguf\n"
    "  ferrule serve --engine smol=vllm:http://127.0.0.1:8001 --tools my_tools.py:TOOLS\n"
    '  ferrule serve --config ferrule.toml --mcp-command npx --mcp-args "-y some-server"',
    add_options=add_flags,
    run=_run,
)
