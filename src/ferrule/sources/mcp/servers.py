"""McpServers: the tools of all servers of an mcp.json, as one source. It knows links and no protocol.

Servers are connected to side by side; one that hangs, fails or lists nonsense costs its own tools and no others. What a
person should know is in `notices`.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from collections.abc import AsyncGenerator, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.outcome import NotDelivered, Outcome
from ferrule.core.tool import ToolDefinition
from ferrule.errors import DefinitionError
from ferrule.sources.mcp.config import McpConfig, Server
from ferrule.sources.mcp.elicitation import Elicit, declined
from ferrule.sources.mcp.names import prefixes, wire_name
from ferrule.sources.mcp.pins import Pins
from ferrule.sources.mcp.server_connection import Habits, Link, State
from ferrule.sources.mcp.tool_list import Listed, described
from ferrule.sources.source import Source
from ferrule.sources.status import Quarantined, Standing, Trust


@dataclass(frozen=True, slots=True)
class ServerView:
    """How it stands with one server: for people and programs that look at it."""

    name: str
    state: str
    era: str
    trusted: bool
    tools: tuple[str, ...]
    notices: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Offer:
    link: Link
    tool: Listed
    definition: ToolDefinition


class McpServers(Source):
    """Open it, ask for its tools, call them. `pins` grow as tools are seen; save them, and give them in next time.

    `elicit` answers what servers ask in the course of a call; by default it is declined. `settle_seconds` is how long
    opening waits for servers that have not answered yet; they join later, and `changes` tells.
    """

    kind = "mcp"

    def __init__(
        self,
        config: McpConfig | Iterable[Server],
        *,
        pins: Pins | None = None,
        elicit: Elicit = declined,
        id: str = "mcp",
        settle_seconds: float = 5.0,
        habits: Habits | None = None,
    ) -> None:
        self.id = id
        self.config = config if isinstance(config, McpConfig) else McpConfig(tuple(config))
        self.pins = pins or Pins()
        self._settle_seconds = settle_seconds
        self._prefixes = prefixes(server.name for server in self.config.servers)
        self._watchers: set[asyncio.Event] = set()
        usual = habits or Habits()
        self._links = [Link(server, elicit, self._changed, usual) for server in self.config.servers]
        self._offers: dict[str, _Offer] = {}
        self._refusals: dict[str, NotDelivered] = {}
        self._said: dict[str, list[str]] = {}
        self._quarantine: dict[str, list[Quarantined]] = {}

    async def open(self) -> None:
        if importlib.util.find_spec("mcp") is None:
            raise DefinitionError("the mcp package is not installed", hint="pip install 'ferrule[mcp]'")
        # In a thread and before any clock runs: it takes a second, several on a busy machine.
        await asyncio.to_thread(importlib.import_module, "ferrule.sources.mcp.client")
        for link in self._links:
            link.open()
        settling = [asyncio.ensure_future(link.settled.wait()) for link in self._links]
        if settling:
            _, late = await asyncio.wait(settling, timeout=self._settle_seconds)
            for waiting in late:
                waiting.cancel()
        self._look()

    async def close(self) -> None:
        await asyncio.gather(*(link.close() for link in self._links))

    async def tools(self) -> tuple[ToolDefinition, ...]:
        """The tools of all servers that are ready now."""
        self._look()
        return tuple(offer.definition for offer in self._offers.values())

    async def call(self, name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        offer = self._offers.get(name)
        if offer is None:
            self._look()
            offer = self._offers.get(name)
        if offer is None:
            unknown = NotDelivered(f"there is no tool {name!r}", code="bad_request")
            return self._refusals.get(name, unknown)
        return await offer.link.call(offer.tool, arguments, context)

    async def changes(self) -> AsyncGenerator[None]:
        woken = asyncio.Event()
        self._watchers.add(woken)
        try:
            while True:
                await woken.wait()
                woken.clear()
                yield
        finally:
            self._watchers.discard(woken)

    @property
    def notices(self) -> tuple[str, ...]:
        """What a person should know: servers that are not there, tools that are not offered or have another name."""
        self._look()
        told = [f"{server}: {words}" for server, said in self._said.items() for words in said]
        return (*self.config.faults, *told)

    @property
    def held_back(self) -> tuple[str, ...]:
        self._look()
        return tuple(name for name, refusal in self._refusals.items() if refusal.code == "held_back")

    @property
    def servers(self) -> tuple[ServerView, ...]:
        """How it stands with each server, in the order of the configuration."""
        self._look()
        return tuple(
            ServerView(
                link.server.name,
                link.state.value,
                link.era,
                link.server.trusted,
                tuple(name for name, offer in self._offers.items() if offer.link is link),
                tuple(self._said[link.server.name]),
            )
            for link in self._links
        )

    @property
    def standings(self) -> tuple[Standing, ...]:
        """Of each server."""
        self._look()
        return tuple(
            Standing(
                link.server.name,
                self.kind,
                Trust.TRUSTED if link.server.trusted else Trust.UNTRUSTED,
                link.state,
                link.told,
                tuple(name for name, offer in self._offers.items() if offer.link is link),
                tuple(self._quarantine[link.server.name]),
            )
            for link in self._links
        )

    def pin_anew(self, server: str, tool: str | None = None) -> None:
        """Agrees to the definitions that a server lists now, of one tool or of all, whatever was agreed to before."""
        for link in self._links:
            if link.server.name == server:
                chosen = [one for one in link.tools if tool in (None, one.name)]
                self._pin(link.server, chosen)
        self._changed()

    def _changed(self) -> None:
        self._look()
        for watcher in self._watchers:
            watcher.set()

    def _look(self) -> None:
        """Works out anew what is offered, from what every link knows."""
        self._said = {link.server.name: [] for link in self._links}
        self._quarantine = {link.server.name: [] for link in self._links}
        self._offers, self._refusals = {}, {}
        for link in self._links:
            if link.state is State.READY:
                self._offers |= self._offered(link, self._said[link.server.name])
            else:
                told = f"{link.state.value}: {link.told}" if link.told else link.state.value
                self._said[link.server.name].append(told)
                for tool in link.tools:
                    refusal = NotDelivered(f"{link.server.name} is not connected: {told}")
                    self._refusals[self._wire_name(link.server, tool)] = refusal

    def _offered(self, link: Link, said: list[str]) -> dict[str, _Offer]:
        server = link.server
        said += link.faults
        named: dict[str, list[Listed]] = {}
        for tool in link.tools:
            named.setdefault(self._wire_name(server, tool), []).append(tool)
        offers: dict[str, _Offer] = {}
        for name, tools in named.items():
            why = self._why_not(server, tools)
            if why:
                self._refusals[name] = NotDelivered(f"{tools[0].name!r} {why}", code="held_back")
                said.append(self._refusals[name].reason)
                self._quarantine[server.name].append(self._held(server, tools[0], name))
                continue
            if name != f"{server.name}_{tools[0].name}":
                said.append(f"{tools[0].name!r} is offered as {name}")
            offers[name] = _Offer(link, tools[0], _definition(server, tools[0], name))
        return offers

    def _wire_name(self, server: Server, tool: Listed) -> str:
        return wire_name(self._prefixes[server.name], server.name, tool.name)

    def _why_not(self, server: Server, tools: list[Listed]) -> str:
        """Why what is listed under one name is not offered; empty where it is, and then it is pinned."""
        tool = tools[0]
        if any(other != tool for other in tools):
            return "is listed more than once, differently, and is not offered"
        if tool.needs_task:
            return "runs only as a task of the 2025-11-25 protocol and is not offered"
        definition = tool.definition(server.identity)
        if self.pins.changed(server.name, tool.name, definition):
            return "has changed since it was pinned and is not offered until it is pinned anew"
        if self.pins.of(server.name, tool.name) is None or not self.pins.knows(definition):
            self._pin(server, [tool])
        return ""

    def _pin(self, server: Server, tools: Iterable[Listed]) -> None:
        definitions = {tool.name: tool.definition(server.identity) for tool in tools}
        agreed = {definitions[tool.name]: tool.agreed(server.identity) for tool in tools}
        self.pins = self.pins.pinned(server.name, definitions, agreed)

    def _held(self, server: Server, tool: Listed, name: str) -> Quarantined:
        now = described(tool.agreed(server.identity))
        assert now is not None
        return Quarantined(name, self._refusals[name].reason, now, described(self.pins.before(server.name, tool.name)))


def _definition(server: Server, tool: Listed, name: str) -> ToolDefinition:
    # A hint is the server's own word. It counts only where somebody vouches for the server.
    reads_only = server.trusted and tool.says_it_only_reads
    return ToolDefinition(name, tool.description, dict(tool.parameters), side_effects=not reads_only)
