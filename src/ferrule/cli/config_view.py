"""A configuration as rows of a table, without secrets."""

from __future__ import annotations

from collections.abc import Iterator

from ferrule.cli.serve_sources import functions_of, mcp_of
from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.config.identity import RoleConfig
from ferrule.server.config.loader import LoadedConfig
from ferrule.server.config.tables import TABLES
from ferrule.server.secret_mask import mask_secrets
from ferrule.sources.mcp.config import Server, StdioTransport

HEADINGS = ("kind", "name", "value", "set by")
Row = tuple[str, str, str, str]


def config_rows(loaded: LoadedConfig) -> list[Row]:
    config, origin = loaded.config, loaded.origin
    return [
        *_server(loaded),
        *(
            ("engine", entry.name, mask_secrets(entry.use), loaded.origin("engines", entry.name, "use"))
            for entry in config.engines
        ),
        *_models(loaded),
        *_sources(loaded),
        *_settings(loaded, "tools", "tools"),
        *(("key", entry.name, _key(entry), loaded.origin("keys", entry.name)) for entry in config.keys),
        *(
            (
                "identity",
                entry.name,
                f"{entry.issuer}; audience {', '.join(entry.audience)}",
                origin("identity", entry.name),
            )
            for entry in config.identity
        ),
        *(("role", entry.name, _role(entry), origin("roles", entry.name)) for entry in config.roles),
        *_settings(loaded, "limits", "limit"),
    ]


def effects_of(config: Config) -> list[str]:
    """Names of configured functions with side effects. The tools of servers and workers are not known yet."""
    return [tool.definition.name for tool in functions_of(config.sources) if tool.definition.side_effects]


def _server(loaded: LoadedConfig) -> Iterator[Row]:
    config = loaded.config
    listening = config.server
    yield "address", f"{listening.host}:{listening.port}", _access(config), loaded.origin("server", "host")
    yield "hosts", ", ".join(listening.hosts), "accepted Host headers", loaded.origin("server", "hosts")
    if listening.origins:
        yield "origins", ", ".join(listening.origins), "allowed CORS origins", loaded.origin("server", "origins")
    ledger = ", ".join(map(mask_secrets, config.ledger_addresses)) or "in memory"
    yield "ledger", ledger, "conversations and audit log", loaded.origin("server", "ledger")
    for name in TABLES["server"].settings:
        if ("server", name) in loaded.values and name not in ("host", "port", "hosts", "origins", "ledger", "insecure"):
            owner = listening if hasattr(listening, name) else config
            yield "server", name, str(getattr(owner, name)), loaded.origin("server", name)


def _access(config: Config) -> str:
    if config.identity:
        return f"keys, and tokens of {', '.join(one.name for one in config.identity)}"
    if config.keys:
        return f"{len(config.keys)} keys" if len(config.keys) > 1 else "1 key"
    if config.requires_keys:
        return "keys of the ledger"
    return "anyone who can connect (insecure)" if config.server.insecure else "anyone on this machine"


def _models(loaded: LoadedConfig) -> Iterator[Row]:
    for model in loaded.config.served_models:
        how = "the least busy of" if model.balanced and len(model.engines) > 1 else "the first healthy one of"
        engines = ", ".join(model.engines)
        engines_text = f"{how} {engines}" if len(model.engines) > 1 else engines
        own = loaded.origin("engines", model.name, "use")
        origin = loaded.origin("models", model.name) if ("models", model.name) in loaded.values else own
        yield "model", model.name, engines_text, origin


def _sources(loaded: LoadedConfig) -> Iterator[Row]:
    sources = loaded.config.sources
    tools = functions_of(sources)
    if tools:
        description = ", ".join(
            f"{tool.definition.name}{' (side effects)' * tool.definition.side_effects}" for tool in tools
        )
        yield "source", ", ".join(sources.functions), description, loaded.origin("sources", "functions")
    for server in mcp_of(sources).servers:
        place = "mcp_command" if server.name == "mcp" and sources.mcp_command else "mcp_config"
        yield "source", f"MCP {server.name}", _transport_text(server), loaded.origin("sources", place)
    if sources.nats:
        description = f"{mask_secrets(sources.nats)}, tenant {sources.nats_tenant}"
        yield "source", "NATS", description, loaded.origin("sources", "nats")


def _transport_text(server: Server) -> str:
    transport = server.transport
    # Any argument of the command may be a secret, so only their number is shown.
    target = (
        f"{transport.command}, {len(transport.args)} arguments"
        if isinstance(transport, StdioTransport)
        else transport.url
    )
    return f"{mask_secrets(target)}{', trusted' * server.trusted}"


def _settings(loaded: LoadedConfig, table: str, what: str) -> Iterator[Row]:
    values = getattr(loaded.config, TABLES[table].name)
    for name in TABLES[table].settings:
        value = getattr(values, name)
        text = ", ".join(value) or "all" if isinstance(value, tuple) else str(value).lower()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # texts
        yield what, name, text, loaded.origin(table, name)


def _key(key: KeyConfig) -> str:
    return f"tenant {key.tenant}; {_grants(key)}"


def _role(role: RoleConfig) -> str:
    return f"tokens of {role.identity}; {_grants(role)}" if role.identity else _grants(role)


def _grants(key: KeyConfig | RoleConfig) -> str:
    permissions = [name for name in ("approve", "admin", "operator") if getattr(key, name)]
    counts = ((key.rate, "requests per minute"), (key.width, "at once"))
    limits = [f"{count} {words}" for count, words in counts if count]
    models, tools = ", ".join(key.models) or "none", ", ".join(key.tools) or "none"
    sources = [] if key.sources == ("*",) else [f"sources {', '.join(key.sources) or 'none'}"]
    details = [f"models {models}", f"tools {tools}", *sources, *permissions, *limits]
    return "; ".join(details)
