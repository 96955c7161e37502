"""`ferrule serve`: runs the gateway in front of any engine."""

from __future__ import annotations

import asyncio
import os
import sys
from argparse import Namespace
from functools import partial
from typing import TYPE_CHECKING

from ferrule.cli import serve_process, streams
from ferrule.cli.command import Command
from ferrule.cli.serve_banner import banner
from ferrule.cli.serve_flags import add_flags, layer_of, name_of, probe_model
from ferrule.cli.terminal import printable
from ferrule.server.addresses import mask_secrets
from ferrule.server.config.config import Config
from ferrule.server.config.loader import load_config
from ferrule.server.config.validation import find_warnings

if TYPE_CHECKING:
    from ferrule.server.gateway import Gateway


def _run(arguments: Namespace) -> None:
    config = config_of(arguments)
    serve_process.run(config, partial(greet, config))


def config_of(arguments: Namespace) -> Config:
    """Load the configuration from flags, the environment and the file."""
    return load_config(arguments.config, os.environ, layer_of(arguments, _name_of)).config


def _name_of(use: str) -> str:
    return name_of(use, _ask_model)


def _ask_model(url: str, key: str) -> str:
    model = asyncio.run(probe_model(url, key))
    if not model:
        message = f"{mask_secrets(url)} does not list its model yet; name it: --engine NAME=..."
        print(printable(f"notice: {message}"), file=sys.stderr)
    return model


def greet(config: Config, gateway: Gateway, port: int) -> None:
    """Print what is served. `config` is the configuration as given, because workers add shared paths to theirs."""
    tools = list(gateway.tool_catalog.tools.values())
    streams.write(banner(config, port, tools))
    side_effect_tools = [tool.name for tool in tools if tool.side_effects]
    for message in dict.fromkeys(gateway.tool_catalog.notices):
        print(printable(f"notice: {message}"), file=sys.stderr)
    for message in find_warnings(config, side_effect_tools):
        print(printable(f"warning: {message}"), file=sys.stderr)


COMMAND = Command(
    name="serve",
    about="Serve any engine over the OpenAI and Anthropic APIs.",
    more="Every call in a response parses, names an offered tool and matches its schema, whatever the engine.\n"
    "Flags override the environment (FERRULE_SERVER_PORT, ...), which overrides ferrule.toml.\n"
    "`ferrule config settings` documents every setting; `ferrule config check` shows what would be served.",
    examples="  ferrule serve --engine llama:model.gguf\n"
    "  ferrule serve --engine smol=vllm:http://127.0.0.1:8001 --tools my_tools.py:TOOLS\n"
    '  ferrule serve --config ferrule.toml --mcp-command npx --mcp-args "-y some-server"',
    add_options=add_flags,
    run=_run,
)
