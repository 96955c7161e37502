"""What a configuration comes to, as rows of a table for people. Nothing secret is in it."""

from __future__ import annotations

from collections.abc import Iterator

from ferrule.cli.serve_sources import functions_of, mcp_of
from ferrule.server.addresses import without_secrets
from ferrule.server.config.config import Config, KeyConfig
from ferrule.server.config.loader import Loaded
from ferrule.server.config.tables import TABLES
from ferrule.sources.mcp.config import Process, Server

HEADINGS = ("what", "name", "is", "from")
Row = tuple[str, str, str, str]


def rows_of(loaded: Loaded) -> list[Row]:
    config = loaded.config
    return [
        *_server(loaded),
        *(
            ("engine", one.name, without_secrets(one.use), loaded.origin("engines", one.name, "use"))
            for one in config.engines
        ),
        *_models(loaded),
        *_sources(loaded),
        *_settings(loaded, "tools", "tools"),
        *(("key", one.name, _key(one), loaded.origin("keys", one.name)) for one in config.keys),
        *_settings(loaded, "limits", "limit"),
    ]


def effects_of(config: Config) -> list[str]:
    """Functions that change the world. What servers and workers offer is not known before they are asked."""
    return [tool.definition.name for tool in functions_of(config.sources) if tool.definition.side_effects]


def _server(loaded: Loaded) -> Iterator[Row]:
    config = loaded.config
    listening = config.listening
    yield "address", f"{listening.host}:{listening.port}", _who(config), loaded.origin("server", "host")
    yield "hosts", ", ".join(listening.hosts), "names that are answered to", loaded.origin("server", "hosts")
    if listening.origins:
        yield "origins", ", ".join(listening.origins), "pages that may call", loaded.origin("server", "origins")
    kept = without_secrets(config.ledger) or "until the process ends"
    yield "ledger", kept, "where what happens is kept", loaded.origin("server", "ledger")
    for name in TABLES["server"].settings:
        if ("server", name) in loaded.given and name not in ("host", "port", "hosts", "origins", "ledger", "insecure"):
            owner = listening if hasattr(listening, name) else config
            yield "server", name, str(getattr(owner, name)), loaded.origin("server", name)


def _who(config: Config) -> str:
    if config.keys:
        return f"{len(config.keys)} keys" if len(config.keys) > 1 else "1 key"
    return "everybody who reaches it (insecure)" if config.listening.insecure else "everybody on this machine"


def _models(loaded: Loaded) -> Iterator[Row]:
    for model in loaded.config.served:
        how = "the least busy of" if model.balanced and len(model.engines) > 1 else "the first well of"
        engines = ", ".join(model.engines)
        told = f"{how} {engines}" if len(model.engines) > 1 else engines
        own = loaded.origin("engines", model.name, "use")
        origin = loaded.origin("models", model.name) if ("models", model.name) in loaded.given else own
        yield "model", model.name, told, origin


def _sources(loaded: Loaded) -> Iterator[Row]:
    named = loaded.config.sources
    tools = functions_of(named)
    if tools:
        told = ", ".join(
            f"{one.definition.name}{' (changes the world)' * one.definition.side_effects}" for one in tools
        )
        yield "source", ", ".join(named.functions), told, loaded.origin("sources", "functions")
    for server in mcp_of(named).servers:
        place = "mcp_command" if server.name == "mcp" and named.mcp_command else "mcp_config"
        yield "source", f"MCP {server.name}", _reach(server), loaded.origin("sources", place)
    if named.nats:
        told = f"{without_secrets(named.nats)}, tenant {named.nats_tenant}"
        yield "source", "NATS", told, loaded.origin("sources", "nats")


def _reach(server: Server) -> str:
    reach = server.reach
    # What a program is started with may be a secret, and nothing tells which.
    how = f"{reach.command}, {len(reach.args)} arguments" if isinstance(reach, Process) else reach.url
    return f"{without_secrets(how)}{', trusted' * server.trusted}"


def _settings(loaded: Loaded, table: str, what: str) -> Iterator[Row]:
    values = getattr(loaded.config, TABLES[table].attribute)
    for name in TABLES[table].settings:
        value = getattr(values, name)
        shown = ", ".join(value) or "all" if isinstance(value, tuple) else str(value).lower()  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]  # texts
        yield what, name, shown, loaded.origin(table, name)


def _key(key: KeyConfig) -> str:
    may = [word for word, has in (("approve", key.approve), ("admin", key.admin)) if has]
    limits = [f"{count} {words}" for count, words in ((key.rate, "a minute"), (key.width, "at once")) if count]
    models, tools = ", ".join(key.models) or "none", ", ".join(key.tools) or "none"
    told = [f"tenant {key.tenant}", f"models {models}", f"tools {tools}", *may, *limits]
    return "; ".join(told)
