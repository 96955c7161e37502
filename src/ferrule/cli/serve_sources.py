"""Creates the sources that a gateway's configuration names. Only the CLI may start the programs in it."""

from __future__ import annotations

import os
import tempfile
from argparse import ArgumentTypeError
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ferrule.cli import json_view
from ferrule.cli.bus_option import KEY_VARIABLE
from ferrule.cli.function_option import AnyTool, read_functions
from ferrule.core.json_text import loads
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config, SourcesConfig
from ferrule.sources.adapters import SourceAdapter
from ferrule.sources.bus.bus import Bus
from ferrule.sources.functions import Functions
from ferrule.sources.mcp.config import McpConfig, Server, StdioTransport, read_config
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.server_connection import ConnectionOptions
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.source import Source


@dataclass(frozen=True, slots=True)
class PinsFile:
    """A file of pins. It need not exist yet."""

    path: Path

    def read(self) -> Pins:
        try:
            return Pins.from_json(self.path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return Pins()
        except (OSError, UnicodeDecodeError) as problem:
            raise DefinitionError(f"cannot read {self.path}", hint="Name a file of pins, or a new file.") from problem

    def write(self, pins: Pins) -> None:
        """Write the file atomically: a concurrent reader sees the old file or the new one."""
        text = json_view.page(loads(pins.to_json())) + "\n"
        try:
            with tempfile.NamedTemporaryFile(
                "w", encoding="utf-8", dir=self.path.parent, prefix=f".{self.path.name}-", delete=False
            ) as new:
                new.write(text)
            os.replace(new.name, self.path)
        except OSError as problem:
            raise DefinitionError(
                f"cannot write {self.path}: {problem.strerror}",
                hint="Name a file in a writable directory.",
            ) from problem


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


def sources_of(config: Config, functions: Sequence[AnyTool] = ()) -> list[Source]:
    """Create all configured sources, and add `functions` to the configured functions. Nothing is connected yet."""
    settings = config.sources
    tools = [*functions, *functions_of(settings)]
    sources: list[Source] = [_functions(tools, settings)] if tools else []
    servers = mcp_of(settings)
    if servers.servers or servers.faults:
        sources.append(_mcp(servers, settings))
    if settings.nats:
        sources.append(bus_of(settings))
    return sources


def functions_of(settings: SourcesConfig) -> list[AnyTool]:
    try:
        return [function for place in settings.functions for function in read_functions(place)]
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
        COMMAND_SERVER, StdioTransport(settings.mcp_command, settings.mcp_args), settings.mcp_trusted
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
    options = ConnectionOptions(refresh=settings.mcp_tool_refresh_seconds)
    if not settings.mcp_pins:
        return McpServers(servers, options=options)
    pins_file = PinsFile(Path(settings.mcp_pins))
    return PinnedServers(McpServers(servers, pins=pins_file.read(), options=options), pins_file)


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
