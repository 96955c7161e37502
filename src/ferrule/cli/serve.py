"""`ferrule serve`: runs the gateway in front of any engine."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ferrule.cli import serve_process, streams
from ferrule.cli.command import Command
from ferrule.cli.serve_flags import add_flags, layer_of, name_of, probe_model
from ferrule.cli.startup_note import print_startup_note
from ferrule.cli.terminal import printable
from ferrule.core.tool import ToolDefinition
from ferrule.server.config.config import Config
from ferrule.server.config.loader import DEFAULT_FILE, load_config
from ferrule.server.config.validation import find_warnings
from ferrule.server.secret_mask import mask_secrets

if TYPE_CHECKING:
    from ferrule.server.gateway import Gateway

_EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}
_SHOWN = 12


def banner(config: Config, port: int, tools: Sequence[ToolDefinition], in_ledger: int = 0) -> str:
    """The banner. Programs may wait for its first line. `in_ledger` is how many keys the ledger has."""
    rows = [
        ("console", f"{local_url(config, port)}/console/"),
        ("models", ", ".join(_model(config))),
        ("tools", _tools(config, tools)),
        (
            "ledger",
            ", ".join(map(mask_secrets, config.ledger_addresses))
            or "in memory; --ledger FILE keeps it after a restart",
        ),
        ("keys", _keys(config, in_ledger)),
    ]
    details = "".join(f"  {name:7} {text}\n" for name, text in rows)
    first = f"serving on http://{_host(config.server.host)}:{port}\n"
    return printable(f"{first}{details}try it:\n  {curl(config, port)}\n")


def curl(config: Config, port: int, message: str = "Say hello.", options: Mapping[str, object] | None = None) -> str:
    """A curl command to paste into a shell. `options` are further fields of the request."""
    messages = [{"role": "user", "content": message}]
    request = {"model": config.served_models[0].name, "messages": messages, **(options or {})}
    body = json.dumps(request, ensure_ascii=False)
    key = ' -H "authorization: Bearer $FERRULE_KEY"' if config.requires_keys else ""
    url = f"{local_url(config, port)}/v1/chat/completions"
    return f"curl {url}{key} -H 'content-type: application/json' -d {shlex.quote(body)}"


def local_url(config: Config, port: int) -> str:
    """The URL on this machine."""
    host = _EVERYWHERE.get(config.server.host, config.server.host)
    return f"http://{_host(host)}:{port}"


def _model(config: Config) -> Iterable[str]:
    for model in config.served_models:
        several = f" ({len(model.engines)} engines)" if len(model.engines) > 1 else ""
        yield f"{model.name}{several}"


def _tools(config: Config, tools: Sequence[ToolDefinition]) -> str:
    if not tools:
        return "none; clients may supply their own tools"
    needs_approval = config.tools.tools_require_confirmation_for_side_effects
    unrestricted = [tool.name for tool in tools if not (tool.side_effects and needs_approval)]
    restricted = [tool.name for tool in tools if tool.side_effects and needs_approval]
    parts = [f"{_shortened(unrestricted)}"] if unrestricted else []
    parts += [f"with approval for each call: {_shortened(restricted)}"] if restricted else []
    return f"{len(tools)}: {'; '.join(parts)}"


def _keys(config: Config, in_ledger: int) -> str:
    if config.requires_keys or in_ledger:
        stored = [f"{in_ledger} in the ledger"] if in_ledger or not (config.keys or config.identity) else []
        tokens = [f"tokens of {one.name}" for one in config.identity]
        return ", ".join([*([str(len(config.keys))] if config.keys else []), *stored, *tokens])
    return f"none: {_anonymous_users(config)} may use everything"


def _shortened(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _anonymous_users(config: Config) -> str:
    return "anyone who can connect" if config.server.insecure else "anyone on this machine"


def _host(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _run(arguments: Namespace) -> None:
    config = config_of(arguments)
    reloading = serve_process.Reloading(
        partial(config_of, arguments), Path(arguments.config or DEFAULT_FILE), is_watching=arguments.watch
    )
    serve_process.run(config, partial(greet, config), reloading)


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
    streams.write(banner(config, port, tools, gateway.keys.in_ledger))
    for replica in gateway.router.replicas:
        print_startup_note(replica.engine)
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
