"""Creates the sources that a gateway's configuration names. Only the CLI may start the programs in it."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from collections.abc import Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path

from ferrule.cli.bus_option import KEY_VARIABLE
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.cli.pins_file import PinsFile
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.server.config.config import CREDENTIALS_IN_LEDGER, Config, OpenApiConfig, SourcesConfig
from ferrule.sources.adapters import SourceAdapter
from ferrule.sources.bus.bus import Bus
from ferrule.sources.combined_sources import SourcePlan
from ferrule.sources.functions import Functions
from ferrule.sources.mcp.access import ToolAccess
from ferrule.sources.mcp.config import McpConfig, Server, StdioTransport, read_config
from ferrule.sources.mcp.credentials import default_credentials
from ferrule.sources.mcp.server_connection import ConnectionOptions
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.openapi.document import read_document
from ferrule.sources.openapi.source import ApiKey, OpenApi
from ferrule.sources.source import Source


class PinnedServers(SourceAdapter):
    """MCP servers whose pins are saved as soon as they change."""

    def __init__(self, inner: McpServers, file: PinsFile) -> None:
        super().__init__(inner)
        self.servers = inner
        self._file = file
        self._saved = inner.pins

    async def tools(self) -> tuple[ToolDefinition, ...]:
        listed = await self.servers.tools()
        pins = self.servers.pins
        if pins != self._saved:
            try:
                self._file.write(pins)
            except DefinitionError:
                # If only the texts changed, the pins in a read-only file are still valid: texts are only for display.
                if pins.hashes != self._saved.hashes:
                    raise
            self._saved = pins
        return listed


COMMAND_SERVER = "mcp"
"""The name of the server from `mcp_command`."""


def sources_of(
    settings: SourcesConfig, openapi: Sequence[OpenApiConfig] = (), functions: Sequence[AnyTool] = ()
) -> list[Source]:
    """Create all configured sources, and add `functions` to the configured functions. Nothing is connected yet."""
    return [plan.make() for plan in plans_of(settings, openapi, functions)]


def plans_of(
    settings: SourcesConfig,
    openapi: Sequence[OpenApiConfig] = (),
    functions: Sequence[AnyTool] = (),
    *,
    is_fresh: bool = False,
) -> list[SourcePlan]:
    """Plan all configured sources. Functions are loaded here, with `is_fresh` from their files as they are now."""
    tools = [*functions, *functions_of(settings, is_fresh=is_fresh)]
    # Nobody can say whether a function is still the same: what it imports may be another.
    plans = [SourcePlan(object(), partial(_functions, tools, settings))] if tools else []
    servers = mcp_of(settings)
    if servers.servers or servers.faults:
        seconds = (settings.mcp_tool_refresh_seconds, settings.mcp_question_seconds)
        key = ("mcp", servers, seconds, settings.mcp_credentials, settings.mcp_pins)
        plans.append(SourcePlan(key, partial(_mcp, servers, settings)))
    if settings.nats:
        bus = (settings.nats, settings.nats_tenant, settings.nats_key_file, settings.nats_credentials)
        plans.append(SourcePlan(("bus", *bus, settings.nats_inbox), partial(bus_of, settings)))
    for one in openapi:
        plans.append(SourcePlan(("openapi", one, _content(one.document)), partial(openapi_of, one)))
    return plans


def watched_files(config: Config) -> list[Path]:
    """The files, besides ferrule.toml, that say which tools there are."""
    settings = config.sources
    places = [place.rpartition(":")[0] or place for place in (*settings.functions, *config.tools.hooks)]
    modules = [Path(where) if where.endswith(".py") else _module_file(where) for where in places]
    documents = [settings.mcp_config, *(one.document for one in config.openapi)]
    return [*filter(None, modules), *(Path(one) for one in documents if one)]


def _module_file(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec is not None and spec.origin else None


def _content(document: str) -> bytes:
    try:
        return Path(document).read_bytes()
    except OSError:
        # Reading it again says what is wrong with it.
        return b""


def openapi_of(settings: OpenApiConfig) -> OpenApi:
    """Create the source of one document, with the key from its environment variable."""
    text = os.environ.get(settings.key_env, "") if settings.key_env else ""
    if settings.key_env and not text:
        raise DefinitionError(
            f"openapi.{settings.name}: the environment variable {settings.key_env} is empty",
            hint="Set it to the API's key, or leave out key_env.",
        )
    key = ApiKey(text, query=settings.key_query) if settings.key_query else _header_key(settings, text)
    return OpenApi(
        read_document(settings.document),
        server=settings.server,
        key=key if text else None,
        prefix=settings.name,
        timeout_seconds=settings.timeout_seconds,
        max_bytes=settings.max_bytes,
        id=settings.name,
    )


def _header_key(settings: OpenApiConfig, text: str) -> ApiKey:
    return ApiKey(f"{settings.key_prefix}{text}", header=settings.key_header)


def functions_of(settings: SourcesConfig, *, is_fresh: bool = False) -> list[AnyTool]:
    try:
        return [function for place in settings.functions for function in read_functions(place, is_fresh=is_fresh)]
    except ArgumentTypeError as problem:
        raise DefinitionError(
            f"sources.functions: {problem}",
            hint="Write my_module:NAME or my_tools.py:NAME, relative to the current directory.",
        ) from problem


def _functions(tools: Sequence[AnyTool], settings: SourcesConfig) -> Functions:
    return Functions(
        tools,
        threads=settings.functions_threads,
        tenant_threads=settings.functions_tenant_threads,
        isolation=settings.functions_isolation,
        processes=settings.functions_processes,
        memory_bytes=settings.functions_memory_bytes,
    )


def mcp_of(settings: SourcesConfig) -> McpConfig:
    """The servers of the mcp.json and of `mcp_command`."""
    config = read_config(settings.mcp_config, trusted=settings.mcp_trusted) if settings.mcp_config else McpConfig()
    if not settings.mcp_command:
        return config
    if any(server.name == COMMAND_SERVER for server in config.servers):
        raise DefinitionError(
            f"{settings.mcp_config} has a server named {COMMAND_SERVER!r}, which is the name of mcp_command's server",
            hint="Rename it, or move the command into the file.",
        )
    command_server = Server(
        COMMAND_SERVER,
        StdioTransport(settings.mcp_command, settings.mcp_args),
        settings.mcp_trusted,
        access=ToolAccess(settings.mcp_allow, settings.mcp_deny, settings.mcp_read_only),
    )
    return McpConfig((*config.servers, command_server), config.faults)


def bus_of(settings: SourcesConfig) -> Bus:
    return Bus(
        settings.nats,
        tenant=settings.nats_tenant,
        key=_bus_key(settings.nats_key_file),
        credentials=settings.nats_credentials,
        inbox=settings.nats_inbox,
    )


def _mcp(servers: McpConfig, settings: SourcesConfig) -> Source:
    options = ConnectionOptions(refresh=settings.mcp_tool_refresh_seconds, login_patience=settings.mcp_question_seconds)
    place = settings.mcp_credentials
    # The gateway opens the ledger, and gives these servers their store.
    credentials = None if place == CREDENTIALS_IN_LEDGER else default_credentials(place)
    if not settings.mcp_pins:
        return McpServers(servers, options=options, credentials=credentials)
    pins_file = PinsFile(Path(settings.mcp_pins))
    return PinnedServers(
        McpServers(servers, pins=pins_file.read(), options=options, credentials=credentials), pins_file
    )


def _bus_key(path: str) -> bytes | None:
    if not path:
        return os.environ.get(KEY_VARIABLE, "").encode() or None
    try:
        return Path(path).read_bytes().strip()
    except OSError as problem:
        raise DefinitionError(
            f"cannot read sources.nats_key_file {path}: {problem.strerror}",
            hint="Create one with: openssl rand -hex 32",
        ) from problem
