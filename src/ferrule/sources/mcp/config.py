"""Reads an mcp.json, in the variants that MCP clients write, into frozen values.

Both top-level keys are read (`mcpServers`, and VS Code's `servers`), and `${VAR}`, `${VAR:-default}` and `${env:VAR}`
are expanded in every string. Invalid entries are reported with a fix; the others remain. Unknown keys are ignored,
because other programs share the file. Ferrule's own keys, all optional: `trusted`, `allow`, `deny`, `readOnly`,
`connectTimeout`, `listTimeout`, `taskTimeout`, `oauth`, `sampling`, `resources`, `prompts`, `sandbox`.
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
from ferrule.sources.mcp.access import ToolAccess
from ferrule.sources.mcp.options import ResourceAccess, SamplingLimits, read_prompts, read_resources, read_sampling
from ferrule.sources.mcp.sandbox import Sandbox, read_sandbox

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
    sandbox: Sandbox | None = None

    @property
    def identity(self) -> list[object]:
        return ["process", self.command, list(self.args), self.cwd]


@dataclass(frozen=True, slots=True)
class IdentityProvider:
    """Where an organisation decides which MCP servers its people and workloads may use: the token endpoint, and the
    client that it knows this gateway as."""

    token_url: str
    client_id: str
    client_secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """What an authorization server knows this client as. Without an id, it registers itself when a person signs in.

    With a `client_secret`, a `private_key` (PEM) or an `assertion_file` and no person, `signs_in_itself`: the grant is
    client_credentials. The file holds a JWT that a platform writes for this workload, and replaces; with `is_bearer` it
    is the grant itself (RFC 7523) and not what the client shows of itself. With an `identity_provider` the file holds
    an ID token, for which that provider gives the grant.
    `metadata_url` is the address of a client metadata document, for servers that take one instead of a registration.
    `issuer` is the one authorization server that may see the secret. `callback_port` is that of the loopback redirect.
    `account` says who has an account of their own in a gateway: each principal, each tenant, or all callers one.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    private_key: str = field(default="", repr=False)
    algorithm: str = "RS256"
    scope: str = ""
    issuer: str = ""
    metadata_url: str = ""
    callback_port: int = 0
    signs_in_itself: bool = False
    assertion_file: str = ""
    is_bearer: bool = False
    identity_provider: IdentityProvider | None = None
    account: str = "shared"


@dataclass(frozen=True, slots=True)
class HttpTransport:
    """A server that is reached over streamable HTTP. One with an `Authorization` header is never signed in to."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    oauth: OAuthClient = OAuthClient()

    @property
    def may_sign_in(self) -> bool:
        return all(name.lower() != "authorization" for name in self.headers)

    @property
    def identity(self) -> list[object]:
        return ["endpoint", self.url]


@dataclass(frozen=True, slots=True)
class Timeouts:
    """Timeouts in seconds. The first start through a package runner may download, so connecting has a long one."""

    connect: float = 30.0
    list: float = 15.0
    call: float = 60.0
    task: float = 600.0
    """How long a task may show no progress."""


@dataclass(frozen=True, slots=True)
class Server:
    """One MCP server. If it is `trusted`, its claim that a tool is read-only is believed."""

    name: str
    transport: StdioTransport | HttpTransport
    trusted: bool = False
    timeouts: Timeouts = Timeouts()
    access: ToolAccess = field(default_factory=ToolAccess)
    sampling: SamplingLimits | None = None
    """What it may ask a model; None is nothing."""
    resources: ResourceAccess | None = None
    """Which of its resources the model may list and read; None is none."""
    prompts: bool = False
    """Whether the model may list and read its prompts."""

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
        _seconds(entry, "taskTimeout", defaults.task),
    )
    access = ToolAccess(_patterns(entry, "allow"), _patterns(entry, "deny"), _read_only(entry))
    return Server(
        name,
        make(entry),
        trusted,
        timeouts,
        access,
        sampling=read_sampling(entry.get("sampling")),
        resources=read_resources(entry.get("resources")),
        prompts=read_prompts(entry.get("prompts")),
    )


def _process(entry: Mapping[str, Any]) -> StdioTransport:
    cwd = entry.get("cwd")
    if cwd is not None and not isinstance(cwd, str):
        raise DefinitionError('"cwd" must be the path of a directory')
    args: object = entry.get("args", [])
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in cast("list[object]", args)):
        raise DefinitionError('"args" must be a list of strings; quote numbers')
    return StdioTransport(
        _text(entry, "command"),
        tuple(cast("list[str]", args)),
        _texts(entry, "env"),
        cwd,
        read_sandbox(entry.get("sandbox")),
    )


def _endpoint(entry: Mapping[str, Any]) -> HttpTransport:
    url = _text(entry, "url")
    if not url.startswith(("http://", "https://")):
        raise DefinitionError('"url" must begin with http:// or https://')
    if read_sandbox(entry.get("sandbox")) is not None:
        raise DefinitionError('"sandbox" is for a server that is a process; this one runs elsewhere')
    return HttpTransport(url, _texts(entry, "headers"), _oauth_client(entry.get("oauth")))


def _oauth_client(value: object) -> OAuthClient:
    if value is None:
        return OAuthClient()
    if not isinstance(value, dict):
        raise DefinitionError('"oauth" must be an object, such as {"clientId": "..."}')
    entry = cast("dict[str, Any]", value)
    unknown = entry.keys() - _OAUTH_KEYS.keys() - {"callbackPort", "grant", "account", "identityProvider"}
    if unknown:
        raise DefinitionError(f'"oauth" has an unknown key {min(unknown)!r}')
    texts = {name: _text(entry, key) for key, name in _OAUTH_KEYS.items() if key in entry}
    port: object = entry.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port < 65_536:
        raise DefinitionError('"callbackPort" must be a port number')
    grant = entry.get("grant", "authorization_code")
    if grant not in _GRANTS:
        raise DefinitionError(f'"grant" must be one of {", ".join(_GRANTS)}')
    account = entry.get("account", _ACCOUNTS[0])
    if account not in _ACCOUNTS:
        raise DefinitionError(f'"account" must be one of {", ".join(_ACCOUNTS)}')
    client = OAuthClient(
        **texts,
        callback_port=port,
        signs_in_itself=grant != _GRANTS[0],
        is_bearer=grant == "jwt_bearer",
        identity_provider=_identity_provider(entry.get("identityProvider")),
        account=str(account),
    )
    _check_client(client)
    return client


def _identity_provider(value: object) -> IdentityProvider | None:
    if value is None:
        return None
    entry = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    if not {"tokenUrl", "clientId"} <= entry.keys() <= {"tokenUrl", "clientId", "clientSecret"}:
        raise DefinitionError(
            '"identityProvider" must be {"tokenUrl": "...", "clientId": "...", "clientSecret": "..."}'
        )
    secret = _text(entry, "clientSecret") if "clientSecret" in entry else ""
    return IdentityProvider(_text(entry, "tokenUrl"), _text(entry, "clientId"), secret)


def _check_client(client: OAuthClient) -> None:
    if client.identity_provider is not None and not client.is_bearer:
        raise DefinitionError('"identityProvider" needs "grant": "jwt_bearer"')
    if client.signs_in_itself and client.account != _ACCOUNTS[0]:
        raise DefinitionError('a grant without a person is nobody\'s own account; leave out "account"')
    if client.is_bearer and not (client.client_id and client.assertion_file):
        raise DefinitionError('grant jwt_bearer needs "clientId" and "assertionFile"')
    proofs = [one for one in (client.client_secret, client.private_key, client.assertion_file) if one]
    if client.signs_in_itself and not (client.client_id and proofs):
        raise DefinitionError(
            'grant client_credentials needs "clientId", and "clientSecret", "privateKey" or "assertionFile"'
        )
    if client.assertion_file and not client.signs_in_itself:
        raise DefinitionError('"assertionFile" needs "grant": "client_credentials" or "jwt_bearer"')
    if len(proofs) > 1 and not (client.is_bearer and not client.private_key):
        raise DefinitionError('give one of "clientSecret", "privateKey" and "assertionFile"')
    if proofs and not client.issuer:
        raise DefinitionError('a secret, key or assertion needs "issuer", the authorization server that may see it')


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
_OAUTH_KEYS = {
    "clientId": "client_id",
    "clientSecret": "client_secret",
    "privateKey": "private_key",
    "algorithm": "algorithm",
    "scope": "scope",
    "issuer": "issuer",
    "clientMetadataUrl": "metadata_url",
    "assertionFile": "assertion_file",
}
_GRANTS = ("authorization_code", "client_credentials", "jwt_bearer")
_ACCOUNTS = ("shared", "tenant", "principal")
_KNOWN_KEYS = frozenset(
    {"type", "transport", "command", "args", "env", "cwd", "url", "headers", "disabled", "enabled", "trusted"}
) | {
    "timeout",
    "connectTimeout",
    "listTimeout",
    "taskTimeout",
    "oauth",
    "allow",
    "deny",
    "readOnly",
    "sampling",
    "resources",
    "prompts",
    "sandbox",
}


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


def _patterns(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value: object = entry.get(key, [])
    if not isinstance(value, list) or not all(
        isinstance(pattern, str) and pattern for pattern in cast("list[object]", value)
    ):
        raise DefinitionError(f'"{key}" must be a list of names of tools, such as ["get_*"]')
    return tuple(cast("list[str]", value))


def _read_only(entry: Mapping[str, Any]) -> tuple[str, ...]:
    match entry.get("readOnly"):
        case None | False:
            return ()
        case True:
            return ("*",)
        case _:
            return _patterns(entry, "readOnly")


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
