"""McpServers: the tools of all servers in an mcp.json, as one source. It knows connections but not the protocol.

Servers are connected concurrently. A server that hangs, fails or lists invalid tools affects only its own tools.
Messages for the operator are in `notices`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import digest
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import McpConfig, Server, read_config
from ferrule.sources.mcp.elicitation import Elicit, decline
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.server_connection import ConnectionOptions, ServerConnection, SourceState
from ferrule.sources.mcp.tool_list import ListedTool, snapshot_of
from ferrule.sources.source import Source
from ferrule.sources.status import QuarantinedTool, SourceStatus, Trust

# The names under which MCP tools are offered. No two tools share a name, whatever the servers are called.
#
# The name is `server_tool` wherever possible. It depends only on the configuration and the tool, so it is the same in
# every process and does not change when other servers or tools appear or disappear. It is never split again.

# The limit of the strictest large provider for the name of a function.
LONGEST_NAME = 64
_LONGEST_PREFIX = 32
_PLAIN_SERVER = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_PLAIN_TOOL = re.compile(r"[A-Za-z0-9_-]+")
_OTHER = re.compile(r"[^A-Za-z0-9]+")
_MIN_HASH_LENGTH, _HASH_LENGTH = 6, 10


def prefixes(servers: Iterable[str]) -> dict[str, str]:
    """The prefix of each server.

    No prefix followed by `_` begins with another one, so that two servers' tools cannot get the same name.
    """
    names = sorted(set(servers), key=lambda name: (len(name), name))
    plain: list[str] = []
    for name in names:
        fits = _PLAIN_SERVER.fullmatch(name) and len(name) <= _LONGEST_PREFIX
        if fits and not any(f"{name}_".startswith(f"{other}_") for other in plain):
            plain.append(name)
    by_server = {name: name for name in plain}
    for name in names:
        if name not in by_server:
            by_server[name] = _hashed_prefix(name, set(by_server.values()))
    return by_server


def offered_name(prefix: str, server: str, tool: str) -> str:
    """The offered name of a tool: its server's prefix and its own name, or a hash if that is not a valid name."""
    plain = f"{prefix}_{tool}"
    if _PLAIN_TOOL.fullmatch(tool) and len(plain) <= LONGEST_NAME:
        return plain
    suffix = digest([server, tool])[:_HASH_LENGTH]
    return f"{prefix}_{_slug(tool)[: LONGEST_NAME - len(prefix) - _HASH_LENGTH - 2]}-{suffix}"


def _hashed_prefix(name: str, taken: set[str]) -> str:
    """A prefix without `_` that ends in a hash. The hash grows until the prefix is unique."""
    slug = _slug(name)[: _LONGEST_PREFIX - _MIN_HASH_LENGTH - 2]
    head = slug if slug[:1].isalpha() else f"s{slug}"
    whole = digest(name)
    for length in range(_MIN_HASH_LENGTH, len(whole)):
        prefix = f"{head}-{whole[:length]}"
        if not any(f"{other}_".startswith(f"{prefix}_") for other in taken):
            return prefix
    return f"{head}-{whole}"


def _slug(text: str) -> str:
    return _OTHER.sub("-", text).strip("-")


@dataclass(frozen=True, slots=True)
class ServerStatus:
    """The status of one server, for display."""

    name: str
    state: str
    protocol_version: str
    trusted: bool
    tools: tuple[str, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Offer:
    connection: ServerConnection
    tool: ListedTool
    definition: ToolDefinition


class McpServers(Source):
    """The tools of several MCP servers, from the path of an mcp.json or a configuration that was read from one.

    `pins` grow as tools are seen; save them and pass them in next time.

    `elicit` answers servers' requests for input during a call; by default they are declined. `settle_seconds` is how
    long opening waits for slow servers. They join later, and `changes` reports it.

    Example:
        async with McpServers("mcp.json") as servers:
            tools = await servers.tools()
    """

    kind = "mcp"

    def __init__(
        self,
        config: str | Path | McpConfig | Iterable[Server],
        *,
        pins: Pins | None = None,
        elicit: Elicit = decline,
        id: str = "mcp",
        settle_seconds: float = 5.0,
        options: ConnectionOptions | None = None,
    ) -> None:
        self.id = id
        if isinstance(config, str | Path):
            config = read_config(config)
        self.config = config if isinstance(config, McpConfig) else McpConfig(tuple(config))
        self.pins = pins or Pins()
        self._settle_seconds = settle_seconds
        self._prefixes = prefixes(server.name for server in self.config.servers)
        self._watchers: set[asyncio.Event] = set()
        connection_options = options or ConnectionOptions()
        self._connections = [
            ServerConnection(server, elicit, self._on_change, connection_options) for server in self.config.servers
        ]
        self._offers: dict[str, _Offer] = {}
        self._refusals: dict[str, NotDelivered] = {}
        self._messages: dict[str, list[str]] = {}
        self._quarantine: dict[str, list[QuarantinedTool]] = {}

    async def open(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise DefinitionError("the mcp package is not installed", hint="pip install 'ferrule[mcp]'")
        # In a thread, and before any timeout starts: the import takes a second, several on a busy machine.
        await asyncio.to_thread(importlib.import_module, "ferrule.sources.mcp.client")
        for connection in self._connections:
            connection.open()
        settling = [asyncio.ensure_future(connection.settled.wait()) for connection in self._connections]
        if settling:
            _, late = await asyncio.wait(settling, timeout=self._settle_seconds)
            for waiting in late:
                waiting.cancel()
        self._refresh()

    async def close(self) -> None:
        await asyncio.gather(*(connection.close() for connection in self._connections))

    async def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools of all servers that are ready."""
        self._refresh()
        return tuple(offer.definition for offer in self._offers.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        offer = self._offers.get(name)
        if offer is None:
            self._refresh()
            offer = self._offers.get(name)
        if offer is None:
            unknown = NotDelivered(f"there is no tool {name!r}", code="bad_request")
            return self._refusals.get(name, unknown)
        return await offer.connection.call(offer.tool, arguments, context)

    async def changes(self) -> AsyncGenerator[None]:
        changed = asyncio.Event()
        self._watchers.add(changed)
        try:
            while True:
                await changed.wait()
                changed.clear()
                yield
        finally:
            self._watchers.discard(changed)

    @property
    def notices(self) -> tuple[str, ...]:
        """Messages for the operator: unavailable servers, tools that are not offered or have another name."""
        self._refresh()
        messages = [
            f"{server}: {message}" for server, server_messages in self._messages.items() for message in server_messages
        ]
        return (*self.config.faults, *messages)

    @property
    def quarantined(self) -> tuple[str, ...]:
        self._refresh()
        return tuple(name for name, refusal in self._refusals.items() if refusal.code == "quarantined")

    @property
    def servers(self) -> tuple[ServerStatus, ...]:
        """The status of each server, in the order of the configuration."""
        self._refresh()
        return tuple(
            ServerStatus(
                connection.server.name,
                connection.state.value,
                connection.protocol_version,
                connection.server.trusted,
                tuple(name for name, offer in self._offers.items() if offer.connection is connection),
                tuple(self._messages[connection.server.name]),
            )
            for connection in self._connections
        )

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each server."""
        self._refresh()
        return tuple(
            SourceStatus(
                connection.server.name,
                self.kind,
                Trust.TRUSTED if connection.server.trusted else Trust.UNTRUSTED,
                connection.state,
                connection.failure,
                tuple(name for name, offer in self._offers.items() if offer.connection is connection),
                tuple(self._quarantine[connection.server.name]),
            )
            for connection in self._connections
        )

    def repin(self, server: str, tool: str | None = None) -> None:
        """Accept the definitions that a server lists now, of one tool or of all, replacing earlier pins."""
        for connection in self._connections:
            if connection.server.name == server:
                chosen = [listed for listed in connection.tools if tool in (None, listed.name)]
                self._pin(connection.server, chosen)
        self._on_change()

    def _on_change(self) -> None:
        self._refresh()
        for watcher in self._watchers:
            watcher.set()

    def _refresh(self) -> None:
        """Compute the offered tools again from the state of every connection."""
        self._messages = {connection.server.name: [] for connection in self._connections}
        self._quarantine = {connection.server.name: [] for connection in self._connections}
        self._offers, self._refusals = {}, {}
        for connection in self._connections:
            if connection.state is SourceState.READY:
                self._offers |= self._offers_of(connection, self._messages[connection.server.name])
            else:
                message = (
                    f"{connection.state.value}: {connection.failure}" if connection.failure else connection.state.value
                )
                self._messages[connection.server.name].append(message)
                for tool in connection.tools:
                    refusal = NotDelivered(f"{connection.server.name} is not connected: {message}")
                    self._refusals[self._offered_name(connection.server, tool)] = refusal

    def _offers_of(self, connection: ServerConnection, messages: list[str]) -> dict[str, _Offer]:
        server = connection.server
        messages += connection.faults
        named: dict[str, list[ListedTool]] = {}
        for tool in connection.tools:
            named.setdefault(self._offered_name(server, tool), []).append(tool)
        offers: dict[str, _Offer] = {}
        for name, tools in named.items():
            reason = self._reason_not_offered(server, tools)
            if reason:
                self._refusals[name] = NotDelivered(f"{tools[0].name!r} {reason}", code="quarantined")
                messages.append(self._refusals[name].reason)
                self._quarantine[server.name].append(self._quarantined_tool(server, tools[0], name))
                continue
            if name != f"{server.name}_{tools[0].name}":
                messages.append(f"{tools[0].name!r} is offered as {name}")
            offers[name] = _Offer(connection, tools[0], _definition(server, tools[0], name))
        return offers

    def _offered_name(self, server: Server, tool: ListedTool) -> str:
        return offered_name(self._prefixes[server.name], server.name, tool.name)

    def _reason_not_offered(self, server: Server, tools: list[ListedTool]) -> str:
        """Why the tools listed under one name are not offered; empty if the tool is offered. A new tool is pinned."""
        tool = tools[0]
        if any(other != tool for other in tools):
            return "is listed more than once with different definitions and is not offered"
        if tool.needs_task:
            return "runs only as a task of the 2025-11-25 protocol and is not offered"
        fingerprint = tool.fingerprint(server.identity)
        if self.pins.has_changed(server.name, tool.name, fingerprint):
            return "has changed since it was pinned and is not offered until it is pinned again"
        if self.pins.of(server.name, tool.name) is None or not self.pins.has_text(fingerprint):
            self._pin(server, [tool])
        return ""

    def _pin(self, server: Server, tools: Iterable[ListedTool]) -> None:
        hashes = {tool.name: tool.fingerprint(server.identity) for tool in tools}
        texts = {hashes[tool.name]: tool.pinned_text(server.identity) for tool in tools}
        self.pins = self.pins.pin(server.name, hashes, texts)

    def _quarantined_tool(self, server: Server, tool: ListedTool, name: str) -> QuarantinedTool:
        now = snapshot_of(tool.pinned_text(server.identity))
        assert now is not None
        return QuarantinedTool(
            name, self._refusals[name].reason, now, snapshot_of(self.pins.pinned_text(server.name, tool.name))
        )


def _definition(server: Server, tool: ListedTool, name: str) -> ToolDefinition:
    # The hint is a claim of the server. It counts only if the operator trusts the server.
    reads_only = server.trusted and tool.claims_read_only
    return ToolDefinition(name, tool.description, dict(tool.parameters), side_effects=not reads_only)
