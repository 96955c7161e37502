"""A gateway with a few tools and a few people, for tests of the tools API, of approvals and of /mcp."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from ferrule import tool
from ferrule.core.context import CallContext
from ferrule.core.reply import Reply
from ferrule.errors import ToolError
from ferrule.server.config.config import Config
from ferrule.sources.functions import Functions
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key


@dataclass(slots=True)
class World:
    """A client, and a record of what the tools did and in which context."""

    client: Client
    done: Counter[str] = field(default_factory=Counter[str])
    contexts: list[CallContext] = field(default_factory=list[CallContext])
    has_started: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def call(self, name: str, arguments: object = None, who: str = "ann", **others: Any) -> Any:
        """The answer of /v1/tools/call."""
        body = {"name": name, "arguments": {} if arguments is None else arguments, **others}
        return await self.client.post("/v1/tools/call", body, bearer(who))

    async def decide(self, approval: str, who: str = "boss", **decision: Any) -> Any:
        return await self.client.post(f"/v1/approvals/{approval}", decision, bearer(who))

    def execute(self, text: str, *values: object) -> None:
        """Write to the ledger's database file directly, as an attacker with access to it can."""
        connection = sqlite3.connect(str(self.client.gateway.config.ledger), isolation_level=None)
        try:
            connection.execute(text, values)
        finally:
            connection.close()

    async def rpc(self, method: str, params: Any = None, who: str = "ann", **headers: str) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params or {}}
        return await self.client.post("/mcp", body, {**bearer(who), **headers})


# Ann uses every tool, Rob one of them; Boss is an approver, admin and operator; Eve is in another tenant.
CONFIG = config_with_keys(
    key("ann", tenant="acme", tools=("*",)),
    key("rob", tenant="acme", tools=("look",)),
    key("boss", tenant="acme", tools=("*",), approve=True, admin=True, operator=True),
    key("eve", tenant="evil", tools=("*",), approve=True, admin=True),
)


@asynccontextmanager
async def world_of(
    config: Config = CONFIG, *, replies: Iterable[Reply | str] = ("hello",), **changes: Any
) -> AsyncGenerator[World]:
    """`changes` are changes of the configuration; `replies` are the model's replies."""
    worlds: list[World] = []

    @tool
    def look(place: str, context: CallContext) -> dict[str, Any]:
        """Looks at a place."""
        worlds[0].done["look"] += 1
        worlds[0].contexts.append(context)
        return {"place": place, "seen": True}

    @tool(side_effects=True)
    async def pay(amount: int, context: CallContext) -> str:
        """Pays an amount."""
        worlds[0].done["pay"] += 1
        worlds[0].contexts.append(context)
        return f"paid {amount}"

    @tool(side_effects=True)
    async def pay_slowly(amount: int) -> str:
        """Pays when the gate opens."""
        worlds[0].has_started.set()
        await worlds[0].gate.wait()
        worlds[0].done["pay_slowly"] += 1
        return f"paid {amount}"

    @tool
    async def wait() -> str:
        """Waits until the gate opens."""
        await worlds[0].gate.wait()
        return "done"

    @tool
    async def tell(steps: int, context: CallContext) -> str:
        """Tells how far it is."""
        for step in range(steps):
            context.report(step + 1, steps, f"step {step + 1}")
            await asyncio.sleep(0)
        return "told"

    @tool
    def fail(words: str) -> str:
        """Fails, with a message or without."""
        raise ToolError(words) if words else ValueError("a secret")

    source = Functions([look, pay, pay_slowly, wait, tell, fail])
    async with gateway_of(scripted_engine(*replies), sources=[source], config=replace(config, **changes)) as client:
        worlds.append(World(client))
        yield worlds[0]


def run_story(story: Callable[[World], Coroutine[Any, Any, None]], **changes: Any) -> None:
    """Run a test story with a gateway and its tools."""

    async def run() -> None:
        async with world_of(**changes) as world:
            await story(world)

    asyncio.run(run())
