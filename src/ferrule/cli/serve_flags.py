"""The options of `ferrule serve` as a configuration layer, and default names for engines."""

from __future__ import annotations

import os
import shlex
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ferrule.cli.bus_option import URL_VARIABLE
from ferrule.cli.ledger_option import one_or_all
from ferrule.dialects.lenient_json import entries, mapping, text
from ferrule.engines.http import Deadlines, HttpClient
from ferrule.engines.hub import HubModel
from ferrule.engines.registry import ENGINES, parse_engine_spec
from ferrule.errors import DefinitionError, EngineError, UnsupportedError
from ferrule.server.config.layers import LayerValue, SettingPath
from ferrule.server.config.tables import TABLES
from ferrule.sources.bus.connection import DEFAULT_URL

Places = Mapping[str, SettingPath]
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
    "mcp_trusted": ("sources", "mcp_trusted"),
    "mcp_allow": ("sources", "mcp_allow"),
    "mcp_deny": ("sources", "mcp_deny"),
    "mcp_read_only": ("sources", "mcp_read_only"),
    "mcp_tool_refresh_seconds": ("sources", "mcp_tool_refresh_seconds"),
    "nats": ("sources", "nats"),
}
_PATTERN_FLAGS = {
    "--mcp-allow": "offer only the tools of --mcp-command that match, such as get_*",
    "--mcp-deny": "do not offer the tools of --mcp-command that match",
    "--mcp-read-only": "tools of --mcp-command that have no side effects, and so need no approval",
}
_QUICK = Deadlines(connect=3, first=5, between=5, total=5, tries=1)
_GGUF = ".gguf"


def add_flags(parser: ArgumentParser) -> None:
    """Add the options. They have no defaults: without an option, the file and the environment apply."""
    add = parser.add_argument
    add("--config", metavar="FILE", help="the configuration file (default: ./ferrule.toml, if it exists)")
    add("--engine", action="append", metavar="[NAME=]ENGINE", help="an engine; may be given several times")
    add("--model", metavar="NAME", help="one model name for all --engine, in failover order")
    add("--host", help=_default_of("host"))
    add("--port", type=int, help=f"0 picks a free port {_default_of('port')}")
    add("--workers", type=int, metavar="N", help=f"number of processes {_default_of('workers')}")
    add(
        "--ledger",
        action="append",
        metavar="PATH_OR_DSN",
        help="where conversations and the audit log are stored: a SQLite file, or postgresql://...; several divide the "
        "tenants among them",
    )
    add(
        "--tools",
        action="append",
        metavar="MODULE:NAME",
        help="Python functions to offer as tools; may be given several times",
    )
    add("--mcp-command", metavar="COMMAND", help="the command of an MCP server to start")
    add(
        "--mcp-args",
        nargs="*",
        action="extend",
        metavar="ARG",
        help='its arguments; a single string is split like in a shell (--mcp-args "-y some-server"), '
        "or at its commas if it has no space (--mcp-args=-y,some-server)",
    )
    add(
        "--mcp-trusted",
        action="store_true",
        default=None,
        help="believe MCP servers that say that a tool is read-only; such tools run without approval",
    )
    for flag, meaning in _PATTERN_FLAGS.items():
        add(flag, action="append", metavar="PATTERN", help=f"{meaning}; may be given several times")
    add("--mcp-config", metavar="FILE", help="an mcp.json")
    add("--mcp-tool-refresh-seconds", type=float, metavar="N", help=_default_of("mcp_tool_refresh_seconds"))
    add(
        "--nats",
        nargs="?",
        const=os.environ.get(URL_VARIABLE, DEFAULT_URL),
        metavar="URL",
        help=f"offer the tools of workers on NATS (without a URL: ${URL_VARIABLE}, or {DEFAULT_URL})",
    )
    add(
        "--watch",
        action="store_true",
        help="take up changes of the configuration, the tools and the mcp.json as soon as their files are saved",
    )
    add(
        "--insecure",
        action="store_true",
        default=None,
        help="serve anyone who can connect to a public --host, without keys",
    )


def layer_of(arguments: Namespace, names: Callable[[str], str]) -> dict[SettingPath, LayerValue]:
    """The settings from the command line. `names` returns a name for an engine without one."""
    layer: dict[SettingPath, LayerValue] = {}
    for option, place in PLACES.items():
        value: Any = getattr(arguments, option, None)
        if value is not None:
            read = _READERS.get(option, _as_given)
            layer[place] = LayerValue(read(value), f"--{option.replace('_', '-')}")
    engines = [_name_and_engine(text, names) for text in arguments.engine or ()]
    for name, use in engines:
        if ("engines", name) in layer:
            raise DefinitionError(
                f"two engines are named {name!r}",
                hint="Give each a name, as in --engine a=ENGINE --engine b=ENGINE, and --model for both.",
            )
        layer["engines", name] = LayerValue(name, "--engine")
        layer["engines", name, "use"] = LayerValue(use, "--engine")
    if arguments.model:
        if not engines:
            raise DefinitionError("--model needs --engine", hint="Add --engine ENGINE.")
        layer["models", arguments.model] = LayerValue(arguments.model, "--model")
        layer["models", arguments.model, "engines"] = LayerValue([name for name, _ in engines], "--model")
    return layer


def name_of(use: str, ask: Callable[[str, str], str] | None = None) -> str:
    """A default name for an engine. `ask` takes a URL and a key, and returns the name of the server's model."""
    parts = parse_engine_spec(use)
    entry = ENGINES.get(parts.kind)
    if "model" in parts.options:
        return parts.options["model"]
    if entry is not None and entry.argument == "MODEL":
        return parts.argument or parts.kind
    if entry is not None and entry.argument == "PATH":
        return Path(parts.argument).name.removesuffix(_GGUF) or parts.kind
    if entry is not None and entry.argument == "OWNER/NAME":
        return HubModel.parse(parts.argument).name
    if entry is not None and entry.argument == "URL" and parts.argument and ask is not None:
        return _short(ask(parts.argument, parts.options.get("key", ""))) or parts.kind
    return parts.kind


async def probe_model(url: str, key: str = "") -> str:
    """The first model that an OpenAI-compatible server lists; empty if it lists none."""
    http = HttpClient(url.rstrip("/").removesuffix("/v1"), {"Authorization": f"Bearer {key}"} if key else {}, _QUICK)
    try:
        models = entries(mapping(await http.get("/v1/models")).get("data"))
        return text(mapping(models[0]).get("id")) if models else ""
    except UnsupportedError:
        raise
    except EngineError:
        return ""
    finally:
        await http.close()


def _name_and_engine(text: str, names: Callable[[str], str]) -> tuple[str, str]:
    name, equals, use = text.partition("=")
    return (name, use) if equals and ":" not in name else (names(text), text)


def _short(name: str) -> str:
    """The last part of a model name that is a path on the server's disk; other names are unchanged."""
    if name.startswith("/") or name.endswith(_GGUF):
        return name.rstrip("/").rpartition("/")[2].removesuffix(_GGUF)
    return name


def _as_given(value: Any) -> Any:
    return value


def _split(values: list[str]) -> list[str]:
    """Split a single value, as in a shell, or at its commas. Several values are arguments as they are."""
    if len(values) != 1:
        return values
    words = shlex.split(values[0])
    return words[0].split(",") if words == values else words


def _default_of(name: str) -> str:
    table, setting = PLACES[name]
    return f"(default: {TABLES[table].settings[setting].default})"


# Options whose values are read in another way than they are given.
_READERS: Mapping[str, Callable[[Any], Any]] = {"mcp_args": _split, "ledger": one_or_all}
