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
from ferrule.core.outcome import NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.account_connections import AccountConnections, AccountStore, has_own_accounts
from ferrule.sources.mcp.config import HttpTransport, McpConfig, Server, read_config
from ferrule.sources.mcp.credentials import CredentialStore, credential_id
from ferrule.sources.mcp.elicitation import Elicit, ElicitAnswer, Elicitation, decline
from ferrule.sources.mcp.login import Login, Person
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.resource_tools import is_resource_tool
from ferrule.sources.mcp.sampling import Sample, Sampler, SamplingRequest, refuse
from ferrule.sources.mcp.server_connection import ConnectionOptions, ServerConnection, SourceState
from ferrule.sources.mcp.tasks import read_handle
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
    connection: ServerConnection | AccountConnections
    tool: ListedTool
    definition: ToolDefinition


@dataclass(frozen=True, slots=True)
class _View:
    """What is offered of one server and what is not, as computed at a `revision` of its connection with these pins."""

    revision: int
    pinned: Mapping[str, str] | None
    offers: Mapping[str, _Offer]
    refusals: Mapping[str, NotDelivered]
    messages: tuple[str, ...]
    quarantine: tuple[QuarantinedTool, ...]


class McpServers(Source):
    """The tools of several MCP servers, from the path of an mcp.json or a configuration that was read from one.

    `pins` grow as tools are seen; save them and pass them in next time.

    `credentials` is where tokens are kept of servers that want a sign-in (`ferrule mcp login`); without it, they are
    failed servers. `person` is somebody who can sign in now.

    `elicit` answers servers' requests for input during a call; by default they are declined. `sample` answers requests
    for samples of servers whose entries allow them; by default they are refused.

    `settle_seconds` is how long opening waits for slow servers. They join later, and `changes` reports it.

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
        credentials: CredentialStore | None = None,
        person: Person | None = None,
        sample: Sampler = refuse,
    ) -> None:
        self.id = id
        self._elicit, self._sample = elicit, sample
        if isinstance(config, str | Path):
            config = read_config(config)
        self.config = config if isinstance(config, McpConfig) else McpConfig(tuple(config))
        self.pins = pins or Pins()
        self._settle_seconds = settle_seconds
        self._prefixes = prefixes(server.name for server in self.config.servers)
        self._watchers: set[asyncio.Event] = set()
        connection_options = options or ConnectionOptions()
        self._connections: list[ServerConnection | AccountConnections] = [
            ServerConnection(
                server,
                self._answer_question,
                self._on_change,
                connection_options,
                login=_login(server, credentials, person),
                sampler=self._answer_sample,
            )
            for server in self.config.servers
        ]
        self._views: dict[str, _View] = {}
        self._offers: dict[str, _Offer] = {}
        self._refusals: dict[str, NotDelivered] = {}

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
        if context.task.handle:
            return await self._resume(context)
        offer = self._offers.get(name)
        if offer is None:
            self._refresh()
            offer = self._offers.get(name)
        if offer is None:
            unknown = NotDelivered(f"there is no tool {name!r}", code="bad_request")
            return self._refusals.get(name, unknown)
        return await offer.connection.call(offer.tool, arguments, context)

    async def _resume(self, context: CallContext) -> Outcome:
        """Wait for the task that a call has begun, whether its tool is still offered or not."""
        handle = read_handle(context.task.handle)
        for connection in self._connections:
            if handle is not None and connection.server.identity == handle.server:
                return await connection.resume(handle, context)
        return Unknown("the server of its task is not configured any more")

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
        messages = [f"{server}: {message}" for server, view in self._views.items() for message in view.messages]
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
                tuple(self._views[connection.server.name].offers),
                self._views[connection.server.name].messages,
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
                tuple(self._views[connection.server.name].offers),
                self._views[connection.server.name].quarantine,
            )
            for connection in self._connections
        )

    def keep_credentials(self, accounts: AccountStore) -> None:
        """Set where tokens are kept, where the program set nothing. Call it before the source is opened."""
        shared = accounts.of_account("", "")
        for at, connection in enumerate(self._connections):
            server = connection.server
            if isinstance(connection, AccountConnections) or connection.login is not None:
                continue
            if has_own_accounts(server):
                asking = (self._answer_question, self._on_change)
                self._connections[at] = AccountConnections(
                    server, *asking, accounts, connection.options, sampler=self._answer_sample
                )
            else:
                connection.login = _login(server, shared, None)

    def answer_with(self, elicit: Elicit, sample: Sampler) -> None:
        """Set what answers servers' questions and requests for samples, where the program set nothing."""
        self._elicit = elicit if self._elicit is decline else self._elicit
        self._sample = sample if self._sample is refuse else self._sample

    async def _answer_question(self, question: Elicitation) -> ElicitAnswer:
        return await self._elicit(question)

    async def _answer_sample(self, request: SamplingRequest) -> Sample:
        return await self._sample(request)

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
        """Compute what has changed since the last time: the servers whose state, list or pins are others."""
        changed = [connection for connection in self._connections if self._is_outdated(connection)]
        for connection in changed:
            self._views[connection.server.name] = self._view_of(connection)
        if changed:
            views = [self._views[connection.server.name] for connection in self._connections]
            self._offers = {name: offer for view in views for name, offer in view.offers.items()}
            self._refusals = {name: refusal for view in views for name, refusal in view.refusals.items()}

    def _is_outdated(self, connection: ServerConnection | AccountConnections) -> bool:
        view = self._views.get(connection.server.name)
        # Pins are never changed in place: others are another object.
        return (
            view is None
            or view.revision != connection.revision
            or view.pinned is not self.pins.hashes.get(connection.server.name)
        )

    def _view_of(self, connection: ServerConnection | AccountConnections) -> _View:
        server = connection.server
        if connection.state is SourceState.READY:
            return self._view_of_tools(connection)
        reason = f": {connection.failure}" if connection.failure else ""
        message = f"{connection.state.value}{reason}"
        refusal = NotDelivered(f"{server.name} is not connected: {message}")
        refusals = {self._offered_name(server, tool): refusal for tool in connection.tools}
        return _View(connection.revision, self.pins.hashes.get(server.name), {}, refusals, (message,), ())

    def _view_of_tools(self, connection: ServerConnection | AccountConnections) -> _View:
        server = connection.server
        messages = list(connection.faults)
        named: dict[str, list[ListedTool]] = {}
        for tool in connection.tools:
            named.setdefault(self._offered_name(server, tool), []).append(tool)
        offers: dict[str, _Offer] = {}
        refusals: dict[str, NotDelivered] = {}
        quarantine: list[QuarantinedTool] = []
        new: list[ListedTool] = []
        for name, tools in named.items():
            tool = tools[0]
            if not server.access.offers(tool.name):
                refusals[name] = NotDelivered(f"{tool.name!r} is not allowed by the configuration", code="bad_request")
                continue
            reason = self._reason_not_offered(server, tools, new)
            if reason:
                refusals[name] = NotDelivered(f"{tool.name!r} {reason}", code="quarantined")
                messages.append(refusals[name].reason)
                quarantine.append(self._quarantined_tool(server, tool, name, refusals[name].reason))
                continue
            if name != f"{server.name}_{tool.name}":
                messages.append(f"{tool.name!r} is offered as {name}")
            offers[name] = _Offer(connection, tool, _definition(server, tool, name))
        messages += server.access.unused(tool.name for tool in connection.tools)
        if new:
            self._pin(server, new)
        pinned = self.pins.hashes.get(server.name)
        return _View(connection.revision, pinned, offers, refusals, tuple(messages), tuple(quarantine))

    def _offered_name(self, server: Server, tool: ListedTool) -> str:
        return offered_name(self._prefixes[server.name], server.name, tool.name)

    def _reason_not_offered(self, server: Server, tools: list[ListedTool], new: list[ListedTool]) -> str:
        """Why the tools listed under one name are not offered; empty if it is offered. One to pin is put into `new`."""
        tool = tools[0]
        if any(other != tool for other in tools):
            return "is listed more than once with different definitions and is not offered"
        fingerprint = tool.fingerprint(server.identity)
        if self.pins.has_changed(server.name, tool.name, fingerprint):
            return "has changed since it was pinned and is not offered until it is pinned again"
        if self.pins.of(server.name, tool.name) is None or not self.pins.has_text(fingerprint):
            new.append(tool)
        return ""

    def _pin(self, server: Server, tools: Iterable[ListedTool]) -> None:
        hashes = {tool.name: tool.fingerprint(server.identity) for tool in tools}
        texts = {hashes[tool.name]: tool.pinned_text(server.identity) for tool in tools}
        self.pins = self.pins.pin(server.name, hashes, texts)

    def _quarantined_tool(self, server: Server, tool: ListedTool, name: str, reason: str) -> QuarantinedTool:
        now = snapshot_of(tool.pinned_text(server.identity))
        assert now is not None
        return QuarantinedTool(name, reason, now, snapshot_of(self.pins.pinned_text(server.name, tool.name)))


def _login(server: Server, credentials: CredentialStore | None, person: Person | None) -> Login | None:
    if credentials is None or not isinstance(server.transport, HttpTransport):
        return None
    return Login(credentials, credential_id(server), person)


def _definition(server: Server, tool: ListedTool, name: str) -> ToolDefinition:
    # The hint is a claim of the server. It counts only if the operator trusts the server.
    is_believed = server.trusted or is_resource_tool(tool)
    reads_only = (is_believed and tool.claims_read_only) or server.access.only_reads(tool.name)
    return ToolDefinition(name, tool.description, dict(tool.parameters), side_effects=not reads_only)
