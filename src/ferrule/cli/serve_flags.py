"""The options of `ferrule serve` as a layer over file and environment, and what an engine without a name is called."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ferrule.cli.bus_option import URL_VARIABLE
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.engines.http import Deadlines, Http
from ferrule.engines.registry import ENGINES, parts_of
from ferrule.errors import DefinitionError, EngineError, UnsupportedError
from ferrule.server.config.layers import Given, Place
from ferrule.server.config.tables import TABLES
from ferrule.sources.bus.connection import DEFAULT_URL

Places = Mapping[str, Place]
PLACES: Places = {
    "host": ("server", "host"),
    "port": ("server", "port"),
    "workers": ("server", "workers"),
    "insecure": ("server", "insecure"),
    "ledger": ("server", "ledger"),
    "tools": ("sources", "functions"),
    "mcp_config": ("sources", "mcp_config"),
    "mcp_command": ("sources", "mcp_command"),
    "mcp_args": ("sources", "mcp_args"),
    "mcp_tool_refresh_seconds": ("sources", "mcp_tool_refresh_seconds"),
    "nats": ("sources", "nats"),
}
_QUICK = Deadlines(connect=3, first=5, between=5, total=5, tries=1)
_GGUF = ".gguf"


def add_flags(parser: ArgumentParser) -> None:
    """None of them has a default here: what is not given is for the file and the environment to say."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="settings (default: ./ferrule.toml, where there is one)")
    add("--engine", action="append", metavar="[NAME=]ENGINE", help="what generates; give it again for more of them")
    add("--model", metavar="NAME", help="the name that all --engine serve, each standing behind the one before it")
    add("--host", help=_usual("host"))
    add("--port", type=int, help=f"0 is any {_usual('port')}")
    add("--workers", type=int, metavar="N", help=f"processes {_usual('workers')}")
    add(
        "--ledger", metavar="PATH_OR_DSN", help="where what happens is written down: a SQLite file, or postgresql://..."
    )
    add("--tools", action="append", metavar="MODULE:NAME", help="functions to offer; give it again for more")
    add("--mcp-command", metavar="COMMAND", help="one MCP server to start")
    add(
        "--mcp-args",
        nargs="*",
        action="extend",
        metavar="ARG",
        help='what it is started with; one text is split as a shell would: --mcp-args "-y some-server"',
    )
    add("--mcp-config", metavar="FILE", help="an mcp.json")
    add("--mcp-tool-refresh-seconds", type=float, metavar="N", help=_usual("mcp_tool_refresh_seconds"))
    add(
        "--nats",
        nargs="?",
        const=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help=f"offer what is served on a bus (without a URL: ${URL_VARIABLE}, or {DEFAULT_URL})",
    )
    add(
        "--insecure",
        action="store_true",
        default=None,
        help="serve everybody who reaches a public --host, without keys",
    )


def layer_of(arguments: Namespace, names: Callable[[str], str]) -> dict[Place, Given]:
    """What was given on the command line. `names` gives an engine that has no name one."""
    layer: dict[Place, Given] = {}
    for option, place in PLACES.items():
        value: Any = getattr(arguments, option, None)
        if value is not None:
            layer[place] = Given(_split(value) if option == "mcp_args" else value, f"--{option.replace('_', '-')}")
    engines = [_named(text, names) for text in arguments.engine or ()]
    for name, use in engines:
        if ("engines", name) in layer:
            raise DefinitionError(
                f"two engines are called {name!r}",
                hint="Give each a name, as in --engine a=ENGINE --engine b=ENGINE, and --model for both.",
            )
        layer["engines", name] = Given(name, "--engine")
        layer["engines", name, "use"] = Given(use, "--engine")
    if arguments.model:
        if not engines:
            raise DefinitionError("--model names what --engine gives, and there is none", hint="Give --engine too.")
        layer["models", arguments.model] = Given(arguments.model, "--model")
        layer["models", arguments.model, "engines"] = Given([name for name, _ in engines], "--model")
    return layer


def name_of(use: str, ask: Callable[[str, str], str] | None = None) -> str:
    """What a person would call what an engine serves. `ask` is given an address and a key, and says its model."""
    parts = parts_of(use)
    entry = ENGINES.get(parts.kind)
    if "model" in parts.options:
        return parts.options["model"]
    if entry is not None and entry.on == "MODEL":
        return parts.on or parts.kind
    if entry is not None and entry.on == "PATH":
        return Path(parts.on).name.removesuffix(_GGUF) or parts.kind
    if entry is not None and entry.on == "URL" and parts.on and ask is not None:
        return _short(ask(parts.on, parts.options.get("key", ""))) or parts.kind
    return parts.kind


async def told_model(url: str, key: str = "") -> str:
    """The model that a server with OpenAI's list of models lists first; empty where it does not say."""
    http = Http(url.rstrip("/").removesuffix("/v1"), {"Authorization": f"Bearer {key}"} if key else {}, _QUICK)
    try:
        listed = entries(mapping(await http.get("/v1/models")).get("data"))
        return text(mapping(listed[0]).get("id")) if listed else ""
    except UnsupportedError:
        raise
    except EngineError:
        return ""
    finally:
        await http.close()


def _named(given: str, names: Callable[[str], str]) -> tuple[str, str]:
    name, equals, use = given.partition("=")
    return (name, use) if equals and ":" not in name else (names(given), given)


def _short(name: str) -> str:
    """A file's or folder's own name, where a server calls its model by a path on its disk; others stay."""
    if name.startswith("/") or name.endswith(_GGUF):
        return name.rstrip("/").rpartition("/")[2].removesuffix(_GGUF)
    return name


def _split(values: list[str]) -> list[str]:
    return shlex.split(values[0]) if len(values) == 1 else values


def _usual(name: str) -> str:
    table, setting = PLACES[name]
    return f"(default: {TABLES[table].settings[setting].default})"
