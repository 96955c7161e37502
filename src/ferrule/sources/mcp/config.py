"""Reads an mcp.json, in the variants that MCP clients write, into frozen values.

Both top-level keys are read (`mcpServers`, and VS Code's `servers`), and `${VAR}`, `${VAR:-default}` and `${env:VAR}`
are expanded in every string. Invalid entries are reported with a fix; the others remain. Unknown keys are ignored,
because other programs share the file. Ferrule's own keys, all optional: `trusted`, `connectTimeout`, `listTimeout`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from ferrule.core.json_text import digest, loads
from ferrule.errors import DefinitionError

_VARIABLE = re.compile(r"\$\{(?:env:)?([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}|\$\{([^}]*)\}")
_TOP_KEYS = ("mcpServers", "servers")
_MIN_MILLISECONDS = 1_000


@dataclass(frozen=True, slots=True)
class StdioTransport:
    """A server that runs as a child process and speaks over its stdin and stdout."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None

    @property
    def identity(self) -> list[object]:
        return ["process", self.command, list(self.args), self.cwd]


@dataclass(frozen=True, slots=True)
class HttpTransport:
    """A server that is reached over streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def identity(self) -> list[object]:
        return ["endpoint", self.url]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds. The first start through a package runner may download, so connecting has a long one."""

    connect: float = 30.0
    list: float = 15.0
    call: float = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server. If it is `trusted`, its claim that a tool is read-only is believed."""

    name: str
    transport: StdioTransport | HttpTransport
    trusted: bool = False
    timeouts: Timeouts = Timeouts()

    @property
    def identity(self) -> str:
        """A hash that changes when the name points to another program or address. It includes no secrets."""
        return digest([self.name, self.transport.identity])


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The usable servers, and messages about the invalid entries."""

    servers: tuple[Server, ...] = ()
    faults: tuple[str, ...] = ()


def read_config(path: str | Path, environment: Mapping[str, str] = os.environ, *, trusted: bool = False) -> McpConfig:
    """Read the configuration from a file. `trusted` counts for the servers that do not say it themselves."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(f"{path} cannot be read: {reason}", hint="Name an mcp.json that exists.") from error
    try:
        document = loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(
            f"{path} is not JSON: {error!s:.200}", hint="Comments and trailing commas are not JSON; remove them."
        ) from error
    return config_of(document, environment, trusted=trusted)


def config_of(document: object, environment: Mapping[str, str] = os.environ, *, trusted: bool = False) -> McpConfig:
    """Read the configuration from a JSON value. `trusted` counts for the servers that do not say it themselves."""
    table_of_tables = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    tables = [table_of_tables[key] for key in _TOP_KEYS if key in table_of_tables]
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise DefinitionError(
            "the configuration names no MCP servers",
            hint='Write {"mcpServers": {"name": {"command": "...", "args": []}}} or {"url": "..."} for each.',
        )
    servers: dict[str, Server] = {}
    faults: list[str] = []
    for table in cast("list[dict[str, object]]", tables):
        for name, entry in table.items():
            try:
                server = _server(name, entry, environment, trusted)
                if name in servers:
                    raise DefinitionError("the server is defined twice; remove one of the two")
            except DefinitionError as fault:
                faults.append(f"{name}: {fault.message}")
            else:
                if server:
                    servers[name] = server
    return McpConfig(tuple(servers.values()), tuple(faults))


def _server(name: str, raw_entry: object, environment: Mapping[str, str], is_trusted: bool) -> Server | None:
    if not name.strip():
        raise DefinitionError("a server needs a name")
    if not isinstance(raw_entry, dict):
        raise DefinitionError('an entry is an object with "command" or "url"')
    entry = {
        key: _expand(value, environment)
        for key, value in cast("dict[str, Any]", raw_entry).items()
        if key in _KNOWN_KEYS
    }
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    kind = entry.get("type", entry.get("transport", "http" if "url" in entry else "stdio"))
    make = _TRANSPORTS.get(kind) if isinstance(kind, str) else None
    if make is None:
        raise DefinitionError(f"unknown type {kind!r}; write stdio or http")
    trusted = entry.get("trusted", is_trusted)
    if not isinstance(trusted, bool):
        raise DefinitionError('"trusted" must be true or false')
    defaults = Timeouts()
    timeouts = Timeouts(
        _seconds(entry, "connectTimeout", defaults.connect),
        _seconds(entry, "listTimeout", defaults.list),
        _seconds(entry, "timeout", defaults.call),
    )
    return Server(name, make(entry), trusted, timeouts)


def _process(entry: Mapping[str, Any]) -> StdioTransport:
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise DefinitionError('"cwd" must be the path of a directory')
    args: object = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in cast("list[object]", args)):
        raise DefinitionError('"args" must be a list of strings; quote numbers')
    return StdioTransport(_text(entry, "command"), tuple(cast("list[str]", args)), _texts(entry, "env"), cwd)


def _endpoint(entry: Mapping[str, Any]) -> HttpTransport:
    url = _text(entry, "url")
    if not url.startswith(("http://", "https://")):
        raise DefinitionError('"url" must begin with http:// or https://')
    return HttpTransport(url, _texts(entry, "headers"))


def _sse(entry: Mapping[str, Any]) -> HttpTransport:
    raise DefinitionError(
        "type sse was replaced by streamable HTTP; use the server's streamable HTTP URL and type http"
    )


_TRANSPORTS: Mapping[str, Callable[[Mapping[str, Any]], StdioTransport | HttpTransport]] = {
    "stdio": _process,
    "http": _endpoint,
    "streamable-http": _endpoint,
    "streamable_http": _endpoint,
    "streamableHttp": _endpoint,
    "sse": _sse,
}
_KNOWN_KEYS = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled", "enabled", "trusted"}
) | {"timeout", "connectTimeout", "listTimeout"}


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise DefinitionError(f'"{key}" is missing')
    return value


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value: object = entry.get(key) or {}
    if not isinstance(value, dict) or not all(
        isinstance(text, str) for text in cast("dict[str, object]", value).values()
    ):
        raise DefinitionError(f'"{key}" must be an object of strings; quote numbers')
    return cast("dict[str, str]", value)


def _seconds(entry: Mapping[str, Any], key: str, default: float) -> float:
    value = entry.get(key)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not value - value == 0:
        raise DefinitionError(f'"{key}" must be a number of milliseconds')
    if value < _MIN_MILLISECONDS:
        # Some programs write seconds here. Nobody wants 60 milliseconds, so ask instead of guessing.
        raise DefinitionError(f'"{key}" is in milliseconds and {value:g} is too little; for seconds write {value:g}000')
    return value / 1_000


def _expand(value: object, environment: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda match: _value_of(match, environment), value)
    if isinstance(value, list):
        return [_expand(item, environment) for item in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _expand(item, environment) for key, item in cast("dict[str, object]", value).items()}
    return value


def _value_of(match: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default, other = match.groups()
    if other is not None:
        raise DefinitionError(f"${{{other}}} is not supported; use an environment variable: ${{NAME}}")
    value = environment.get(name) or default
    if value is None:
        raise DefinitionError(f"${{{name}}} is not set; set it, or write ${{{name}:-default}}")
    return value
