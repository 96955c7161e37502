"""The tools of examples/hearth on a real bus, for tests: real workers and tools, with any model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule import ChatMessage, Reply, ToolCall, ToolCallRequest
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Outcome
from ferrule.engines.fake import FakeEngine
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision
from ferrule.run.loop import Loop
from ferrule.sources.bus.bus import Bus
from lab.bus_server import nats_server
from live.bus_parts import worker_process

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True, slots=True)
class Hearth:
    url: str
    audit: Path
    environment: dict[str, str]

    def on_bus(self, work: Any) -> Any:
        async def opened() -> Any:
            async with Bus(self.url) as bus:
                return await work(bus)

        return asyncio.run(opened())

    def call(self, name: str, arguments: dict[str, Any], context: CallContext | None = None) -> Outcome:
        return self.on_bus(lambda bus: bus.call(name, arguments, context or CallContext()))

    def chat(self, replies: list[Reply], allows: bool = True, principal: Principal | None = None) -> Loop:
        async def decided(call: ToolCall) -> Decision | None:
            return Decision(allows, "not today")

        def talked(bus: Bus) -> Coroutine[Any, Any, Loop]:
            request = ToolCallRequest(messages=(ChatMessage.user("?"),))
            context = CallContext(conversation=os.urandom(6).hex(), principal=principal or Principal())
            return ToolExecutor(bus).run_chat_with_tools(FakeEngine(replies), request, decide=decided, context=context)

        return self.on_bus(talked)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit.read_text(encoding="utf-8").splitlines()]


@contextmanager
def worker(environment: dict[str, str], *options: str) -> Generator[None]:
    with worker_process(*options, cwd=EXAMPLES, env=environment) as process:
        yield
    assert process.returncode == 0


@contextmanager
def hearth_at(place: Path) -> Generator[Hearth]:
    """Run hearth until the end of the context, with its files in a folder."""
    with ExitStack() as stack:
        server = stack.enter_context(nats_server())
        environment = {
            **os.environ,
            **{"FERRULE_NATS": server.url, "HEARTH_MARKET": str(place / "market.db"), "HEARTH_FILES": str(place)},
        }
        subprocess.run([sys.executable, "-m", "hearth.samples"], cwd=EXAMPLES, env=environment, check=True)
        stack.enter_context(worker(environment, "hearth.tools:TOOLS", "--label", "node=kitchen"))
        audit = place / "relay.jsonl"
        stack.enter_context(worker(environment, "--relay", "--label", "node=relay", "--audit", str(audit)))
        yield Hearth(server.url, audit, environment)
