"""What real MCP servers ask people through the gateway: questions, addresses and samples, in both eras of the protocol.

`own` is a server of the SDK and speaks 2026-07-28; npm's server-everything speaks 2025-11-25 and asks by itself.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest
from websockets.asyncio.client import connect

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.core.message import Text
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.engines.fake import FakeEngine
from ferrule.run.executor import ToolSettings
from ferrule.run.ledger.ledger import Approval, ApprovalState
from ferrule.run.server_questions import WITHDRAWN_BY
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ServerConfig, SourcesConfig
from ferrule.server.gateway import Gateway
from ferrule.server.process.server import serve
from ferrule.server.startup import open_gateway
from ferrule.server.tools.approval_context import question_view
from ferrule.server.tools.approval_decision import ApprovalDecision, record_decision
from ferrule.sources.mcp.config import Server
from ferrule.sources.mcp.options import SamplingLimits
from ferrule.sources.mcp.servers import McpServers
from live.mcp_world import everything, own
from waiting import PATIENCE

pytestmark = pytest.mark.live
ANN = Principal("ann", "acme")
# Less than a person takes, and less than the tests do: only time that stands still makes a call survive it.
SWIFT = ToolSettings(tools_require_confirmation_for_side_effects=False, tools_per_tool_timeout_seconds=1.0)
FORMS = {"own_greet": own(), "every_trigger-elicitation-request": everything()}
SAMPLING = replace(everything(), sampling=SamplingLimits("smol", max_tokens=7))


@dataclass(frozen=True, slots=True)
class World:
    """An open gateway with one MCP server, and the engine that answers."""

    gateway: Gateway
    engine: FakeEngine

    def call(self, name: str, arguments: dict[str, Any] | None = None) -> asyncio.Task[Outcome]:
        executor = self.gateway.tool_catalog.executor(ANN)
        context = CallContext(call_id="call-1", principal=ANN)
        return asyncio.ensure_future(executor.run(ToolCall.of(name, arguments or {}, id="call-1"), context))  # pyright: ignore[reportReturnType]  # a coroutine becomes a task

    async def question(self) -> Approval:
        async with asyncio.timeout(PATIENCE):
            while not (waiting := await self.gateway.ledger.approvals(ApprovalState.PENDING)):
                await asyncio.sleep(0.02)
        return waiting[0]

    async def ended(self, id: str) -> Approval:
        async with asyncio.timeout(PATIENCE):
            while True:
                approval = await self.gateway.ledger.approval(id)
                assert approval is not None
                if approval.state is not ApprovalState.PENDING:
                    return approval
                await asyncio.sleep(0.02)

    async def decide(self, approval: Approval, approve: bool = True, answer: dict[str, Any] | None = None) -> None:
        asked: Any = loads(approval.arguments.decode())
        arguments = None if answer is None else {**asked, "answer": answer}
        await record_decision(self.gateway, approval, "bob", ApprovalDecision(approve, arguments=arguments))


@asynccontextmanager
async def world(server: Server, *replies: Reply, patience: float = 300.0) -> AsyncGenerator[World]:
    engine = FakeEngine(replies)
    config = Config(
        engines=(EngineConfig(name="smol", use="smol"),),
        server=ServerConfig(port=0, drain_seconds=1),
        sources=SourcesConfig(mcp_question_seconds=patience),
        tools=SWIFT,
    )
    source = McpServers([server], settle_seconds=PATIENCE)
    async with open_gateway(config, [source], load=lambda use: engine) as gateway:
        yield World(gateway, engine)


def text_of(outcome: Outcome) -> str:
    assert isinstance(outcome, Answered), outcome
    return json.dumps(outcome.content, ensure_ascii=False)


@pytest.mark.parametrize("tool", FORMS)
def test_a_person_answers_on_the_websocket_what_a_server_asks_in_mid_call(tool: str) -> None:
    async def run() -> None:
        replies = Reply((ToolCall.of(tool, {}, id="c1"),)), Reply((Text("I know your name."),))
        async with world(FORMS[tool], *replies) as here:
            started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            serving = asyncio.ensure_future(serve(application(here.gateway), ServerConfig(port=0), started.set_result))
            frames: list[dict[str, Any]] = []
            async with connect(f"ws://127.0.0.1:{await started}/v1/stream", proxy=None) as connection:
                body = {"messages": [{"role": "user", "content": "Greet me."}], "ferrule": {"tools": [tool]}}
                await connection.send(json.dumps({"type": "ask", "body": body}))
                async for data in connection:
                    frame = json.loads(data)
                    frames.append(frame)
                    assert frame["type"] != "error", frame
                    if frame["type"] == "confirmation_required":
                        approval = await here.gateway.ledger.approval(frame["approval"])
                        assert approval is not None
                        asked: Any = loads(approval.arguments.decode())
                        arguments = {**asked, "answer": {"name": "Bo"}}
                        # Longer than the tool may take.
                        await asyncio.sleep(2 * SWIFT.tools_per_tool_timeout_seconds)
                        confirm = {"approval": approval.id, "approve": True, "arguments": arguments}
                        await connection.send(json.dumps({"type": "confirm", **confirm}))
                    if frame["type"] == "done":
                        break
            serving.cancel()
            await asyncio.gather(serving, return_exceptions=True)
            shown = [one for one in frames if one["type"] == "confirmation_required"]
            assert [one["tool"]["name"] for one in shown] == [f"{tool.partition('_')[0]} asks"]
            (result,) = [one for one in frames if one["type"] == "tool_result"]
            assert "Bo" in json.dumps(result["content"]), result
            assert not result.get("is_error")
            assert here.engine.requests[1].messages[-1].results

    asyncio.run(run())


def test_a_denial_declines() -> None:
    async def run() -> str:
        async with world(everything()) as here:
            call = here.call("every_trigger-elicitation-request")
            await here.decide(await here.question(), approve=False)
            return text_of(await call)

    assert "decline" in asyncio.run(run())


def test_silence_cancels_and_nobody_can_answer_any_more() -> None:
    async def run() -> tuple[str, list[Approval]]:
        async with world(everything(), patience=0.5) as here:
            text = text_of(await here.call("every_trigger-elicitation-request"))
            return text, list(await here.gateway.ledger.approvals())

    text, (approval,) = asyncio.run(run())
    assert "cancel" in text
    assert (approval.state, approval.expires_at < time.time()) == (ApprovalState.PENDING, True)


def test_without_time_for_questions_they_are_declined_and_nobody_is_asked() -> None:
    async def run() -> tuple[str, list[Approval]]:
        async with world(everything(), patience=0) as here:
            text = text_of(await here.call("every_trigger-elicitation-request"))
            return text, list(await here.gateway.ledger.approvals())

    text, approvals = asyncio.run(run())
    assert "decline" in text
    assert approvals == []


def test_an_address_is_shown_with_its_host_and_never_opened() -> None:
    async def run() -> tuple[Any, str]:
        async with world(everything()) as here:
            call = here.call("every_trigger-url-elicitation", {"url": "http://good.example@127.0.0.1:9/pay"})
            approval = await here.question()
            await here.decide(approval)
            return question_view(approval), text_of(await call)

    view, text = asyncio.run(run())
    assert (view["kind"], view["host"], view["server"]) == ("url", "127.0.0.1", "every")
    assert "accept" in text


@pytest.mark.parametrize("tool", FORMS)
def test_a_server_that_dies_takes_its_question_with_it(tool: str) -> None:
    async def run() -> tuple[Approval, Outcome]:
        async with world(FORMS[tool]) as here:
            call = here.call(tool)
            approval = await here.question()
            for process in _children("server-everything" if tool.startswith("every") else "mcp_server.py"):
                os.kill(process, signal.SIGKILL)
            return await here.ended(approval.id), await call

    approval, outcome = asyncio.run(run())
    assert (approval.state, approval.decided_by) == (ApprovalState.DENIED, WITHDRAWN_BY)
    assert not (isinstance(outcome, Answered) and not outcome.is_error)


def test_a_gateway_that_drains_waits_for_no_answer() -> None:
    async def run() -> tuple[Approval, str]:
        async with world(own()) as here:
            call = here.call("own_greet")
            approval = await here.question()
            here.gateway.telemetry.drain.begin()
            return await here.ended(approval.id), text_of(await call)

    approval, text = asyncio.run(run())
    assert approval.why == "this process is stopping"
    assert text


def test_an_approved_sample_is_written_by_the_configured_model_without_tools() -> None:
    async def run() -> tuple[World, str]:
        async with world(SAMPLING, Reply((Text("A fine day."),))) as here:
            call = here.call("every_trigger-sampling-request", {"prompt": "Say it.", "maxTokens": 900})
            approval = await here.question()
            view = question_view(approval)
            assert view is not None
            assert (view["kind"], view["model"], here.engine.requests) == ("sampling", "smol", [])
            await here.decide(approval)
            return here, text_of(await call)

    here, text = asyncio.run(run())
    assert "A fine day." in text
    (request,) = here.engine.requests
    assert (request.tools, request.max_tokens) == ((), 7)
    assert "Say it." in request.messages[-1].content


def test_a_server_is_not_told_of_sampling_unless_its_entry_has_it() -> None:
    async def run() -> list[str]:
        async with world(everything()) as here:
            return list(here.gateway.tool_catalog.tools)

    assert "every_trigger-sampling-request" not in asyncio.run(run())


def _children(program: str) -> list[int]:
    """The processes of a program that this one has started."""
    found: list[int] = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", encoding="utf-8") as stat, open(f"/proc/{entry}/cmdline", "rb") as line:
                parent = int(stat.read().rpartition(")")[2].split()[1])
                command = line.read().decode(errors="replace")
        except OSError:
            continue
        if parent == os.getpid() and program in command:
            found.append(int(entry))
    assert found, sys.platform
    return found
