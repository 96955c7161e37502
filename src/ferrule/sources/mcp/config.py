"""mcp.json, as clients in the wild write it, as frozen values. Reads the file that it is given and nothing else.

Both top keys are read (`mcpServers`, and VS Code's `servers`), and `${VAR}`, `${VAR:-default}` and `${env:VAR}` in
every text. One entry that cannot be used is a fault with words on what to do; the others stay. Keys that are not known
are left alone: the file is shared with other programs. Ours, all optional: `trusted`, `connectTimeout`, `listTimeout`.
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
_LEAST_MILLISECONDS = 1_000


@dataclass(frozen=True, slots=True)
class Process:
    """A server that is started here and spoken to over its standard input and output."""

    command: str
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    cwd: str | None = None

    @property
    def identity(self) -> list[object]:
        return ["process", self.command, list(self.args), self.cwd]


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A server that is reached by streamable HTTP."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)

    @property
    def identity(self) -> list[object]:
        return ["endpoint", self.url]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """In seconds. A first start through a package runner may have to download, so connecting is given long."""

    connect: float = 30.0
    list: float = 15.0
    call: float = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """`trusted`: what it says of its own tools, that they only read, is believed."""

    name: str
    reach: Process | Endpoint
    trusted: bool = False
    timeouts: Timeouts = Timeouts()

    @property
    def identity(self) -> str:
        """Changes when another program or address stands under the name; secrets do not enter it."""
        return digest([self.name, self.reach.identity])


@dataclass(frozen=True, slots=True)
class McpConfig:
    """The servers that can be tried, and why the others cannot."""

    servers: tuple[Server, ...] = ()
    faults: tuple[str, ...] = ()


def read_config(path: str | Path, environment: Mapping[str, str] = os.environ) -> McpConfig:
    """The configuration in a file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        told = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise DefinitionError(f"{path} cannot be read: {told}", hint="Name an mcp.json that exists.") from error
    try:
        document = loads(text)
    except (ValueError, RecursionError) as error:
        raise DefinitionError(
            f"{path} is not JSON: {error!s:.200}", hint="Comments and trailing commas are not JSON; remove them."
        ) from error
    return config_of(document, environment)


def config_of(document: object, environment: Mapping[str, str] = os.environ) -> McpConfig:
    """The configuration in a JSON value."""
    held = cast("dict[str, object]", document) if isinstance(document, dict) else {}
    tables = [held[key] for key in _TOP_KEYS if key in held]
    if not tables or not all(isinstance(table, dict) for table in tables):
        raise DefinitionError(
            "there are no MCP servers in it",
            hint='Write {"mcpServers": {"name": {"command": "...", "args": []}}} or {"url": "..."} for each.',
        )
    servers: dict[str, Server] = {}
    faults: list[str] = []
    for table in cast("list[dict[str, object]]", tables):
        for name, entry in table.items():
            try:
                server = _server(name, entry, environment)
                if name in servers:
                    raise DefinitionError("it is named twice; keep one of the two")
            except DefinitionError as fault:
                faults.append(f"{name}: {fault.message}")
            else:
                if server:
                    servers[name] = server
    return McpConfig(tuple(servers.values()), tuple(faults))


def _server(name: str, given: object, environment: Mapping[str, str]) -> Server | None:
    if not name.strip():
        raise DefinitionError("a server needs a name")
    if not isinstance(given, dict):
        raise DefinitionError('an entry is an object with "command" or "url"')
    entry = {key: _expanded(value, environment) for key, value in cast("dict[str, Any]", given).items() if key in _READ}
    if entry.get("disabled") is True or entry.get("enabled") is False:
        return None
    told = entry.get("type", entry.get("transport", "http" if "url" in entry else "stdio"))
    make = _KINDS.get(told) if isinstance(told, str) else None
    if make is None:
        raise DefinitionError(f"type {told!r} is not known; write stdio or http")
    trusted = entry.get("trusted", False)
    if not isinstance(trusted, bool):
        raise DefinitionError('"trusted" is true or false')
    usual = Timeouts()
    timeouts = Timeouts(
        _seconds(entry, "connectTimeout", usual.connect),
        _seconds(entry, "listTimeout", usual.list),
        _seconds(entry, "timeout", usual.call),
    )
    return Server(name, make(entry), trusted, timeouts)


def _process(entry: Mapping[str, Any]) -> Process:
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise DefinitionError('"cwd" is the path of a folder')
    args: object = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in cast("list[object]", args)):
        raise DefinitionError('"args" is a list of texts; quote numbers')
    return Process(_text(entry, "command"), tuple(cast("list[str]", args)), _texts(entry, "env"), cwd)


def _endpoint(entry: Mapping[str, Any]) -> Endpoint:
    url = _text(entry, "url")
    if not url.startswith(("http://", "https://")):
        raise DefinitionError('"url" begins with http:// or https://')
    return Endpoint(url, _texts(entry, "headers"))


def _sse(entry: Mapping[str, Any]) -> Endpoint:
    raise DefinitionError("type sse was replaced by streamable HTTP; give the server's address for that and type http")


_KINDS: Mapping[str, Callable[[Mapping[str, Any]], Process | Endpoint]] = {
    "stdio": _process,
    "http": _endpoint,
    "streamable-http": _endpoint,
    "streamable_http": _endpoint,
    "streamableHttp": _endpoint,
    "sse": _sse,
}
_READ = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled", "enabled", "trusted"}
) | {"timeout", "connectTimeout", "listTimeout"}


def _text(entry: Mapping[str, Any], key: str) -> str:
    value = entry.get(key)
    if not isinstance(value, str) or not value:
        raise DefinitionError(f'it has no "{key}"')
    return value


def _texts(entry: Mapping[str, Any], key: str) -> dict[str, str]:
    value: object = entry.get(key) or {}
    if not isinstance(value, dict) or not all(
        isinstance(held, str) for held in cast("dict[str, object]", value).values()
    ):
        raise DefinitionError(f'"{key}" is an object of texts; quote numbers')
    return cast("dict[str, str]", value)


def _seconds(entry: Mapping[str, Any], key: str, usual: float) -> float:
    value = entry.get(key)
    if value is None:
        return usual
    if isinstance(value, bool) or not isinstance(value, int | float) or not value - value == 0:
        raise DefinitionError(f'"{key}" is a number of milliseconds')
    if value < _LEAST_MILLISECONDS:
        # Some programs write seconds here. Sixty milliseconds are nobody's wish, so it is asked and not guessed.
        raise DefinitionError(f'"{key}" is in milliseconds and {value:g} is too little; for seconds write {value:g}000')
    return value / 1_000


def _expanded(value: object, environment: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _filled(found, environment), value)
    if isinstance(value, list):
        return [_expanded(held, environment) for held in cast("list[object]", value)]
    if isinstance(value, dict):
        return {key: _expanded(held, environment) for key, held in cast("dict[str, object]", value).items()}
    return value


def _filled(found: re.Match[str], environment: Mapping[str, str]) -> str:
    name, default, other = found.groups()
    if other is not None:
        raise DefinitionError(f"${{{other}}} cannot be filled in here; use an environment variable: ${{NAME}}")
    value = environment.get(name) or default
    if value is None:
        raise DefinitionError(f"${{{name}}} is not set; set it, or write ${{{name}:-default}}")
    return value
