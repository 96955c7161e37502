"""The tools of examples/hearth on a real bus, for tests: real workers and tools, with any model."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Coroutine, Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ferrule import ChatMessage, Reply, ToolCall, ToolCallRequest, ToolResult
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Outcome
from ferrule.engines.fake import FakeEngine
from ferrule.run.executor import ToolExecutor
from ferrule.run.journal import Decision
from ferrule.run.loop import Loop
from ferrule.sources.bus.bus import Bus
from lab.bus_server import nats_server
from live.bus_parts import worker_process
from waiting import PATIENCE

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SPEECH_AND_VISION = ROOT / ".cache" / "venvs" / "hearth" / "bin" / "python"
"""The interpreter that has the packages of `describe_image` and `transcribe_audio`."""


@dataclass(frozen=True, slots=True)
class Hearth:
    url: str
    audit: Path
    environment: dict[str, str]
    notices: Path
    """What the worker printed on standard error."""

    def on_bus(self, work: Any) -> Any:
        async def opened() -> Any:
            async with Bus(self.url) as bus:
                return await work(bus)

        return asyncio.run(opened())

    def call(self, name: str, arguments: dict[str, Any], context: CallContext | None = None) -> Outcome:
        return self.on_bus(lambda bus: bus.call(name, arguments, context or CallContext()))

    def dispatch(self, call: ToolCall) -> ToolResult:
        """Run a call as a program does that has no model. Loading a model's files may take long on a busy machine."""
        return self.on_bus(lambda bus: ToolExecutor(bus, per_tool_timeout_seconds=PATIENCE).dispatch(call))

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
def worker(environment: dict[str, str], *options: str, **process: Any) -> Generator[None]:
    with worker_process(*options, cwd=EXAMPLES, env=environment, **process) as started:
        yield
    assert started.returncode == 0


@contextmanager
def hearth_at(place: Path, settings: Mapping[str, str] | None = None) -> Generator[Hearth]:
    """Run hearth until the end of the context, with its files in a folder."""
    assert SPEECH_AND_VISION.exists(), "run scripts/setup-hearth"
    with ExitStack() as stack:
        server = stack.enter_context(nats_server())
        environment = {
            **os.environ,
            # Of this checkout, whatever the interpreter has installed.
            "PYTHONPATH": str(ROOT / "src"),
            **{"FERRULE_NATS": server.url, "HEARTH_MARKET": str(place / "market.db"), "HEARTH_FILES": str(place)},
            **(settings or {}),
        }
        subprocess.run([sys.executable, "-m", "hearth.samples"], cwd=EXAMPLES, env=environment, check=True)
        notices = place / "notices.txt"
        output = stack.enter_context(notices.open("w", encoding="utf-8"))
        kitchen = ("hearth.tools:TOOLS", "--label", "node=kitchen")
        stack.enter_context(worker(environment, *kitchen, stderr=output, python=SPEECH_AND_VISION))
        audit = place / "relay.jsonl"
        stack.enter_context(worker(environment, "--relay", "--label", "node=relay", "--audit", str(audit)))
        yield Hearth(server.url, audit, environment, notices)
