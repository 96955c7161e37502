"""Tasks of `/mcp`, called by the SDK in both generations, and by our client while the gateway is killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

import httpx2
import pytest
from mcp import MCPError, types
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim

from ferrule.core.context import CallContext, Progress, TaskRecord
from ferrule.core.outcome import Answered, Outcome
from ferrule.sources.mcp.config import HttpTransport, Server, Timeouts
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.mcp.tasks import TASKS
from live.mcp_world import free_port
from live.test_gateway_tools import client, living
from server.gateway_process import ANN, GatewayProcess, gateway_with_config
from server.keys import bearer, key
from server.tool_world import World
from waiting import PATIENCE, until

pytestmark = pytest.mark.live
BOSS = "boss-of-acme"
Params = types.GetTaskRequestParams


# --- The protocol's own client ---


def test_the_protocols_own_client_makes_a_call_a_task_in_2025() -> None:
    async def story(world: World, url: str) -> None:
        async with client(url, "legacy") as mcp:
            assert mcp.server_capabilities.tasks == types.ServerTasksCapability(
                list=types.TasksListCapability(),
                cancel=types.TasksCancelCapability(),
                requests=types.ServerTasksRequestsCapability(
                    tools=types.TasksToolsCapability(call=types.TasksCallCapability())
                ),
            )
            listed = (await mcp.list_tools()).tools
            assert {tool.execution.task_support for tool in listed if tool.execution is not None} == {"optional"}

            async def begin(name: str, arguments: Any = None) -> types.Task:
                # The SDK has the types, but takes no task as the answer to this method.
                params = {"name": name, "arguments": arguments or {}, "task": {"ttl": 600_000}}
                body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
                async with httpx2.AsyncClient(headers={**bearer("ann"), "mcp-protocol-version": "2025-11-25"}) as web:
                    answer = (await web.post(url, json=body)).json()
                return types.CreateTaskResult.model_validate(answer["result"], by_name=False).task

            async def get(id: str) -> types.GetTaskResult:
                return await mcp.session.send_request(
                    types.GetTaskRequest(params=Params(task_id=id)), types.GetTaskResult
                )

            slow, pays = await begin("wait"), await begin("pay", {"amount": 3})
            assert (slow.status, slow.ttl) == ("working", 600_000)
            assert (await get(slow.task_id)).status == "working"
            world.gate.set()
            for task in (slow, pays):
                if task is pays:
                    pending = (await world.client.gateway.ledger.approvals())[-1]
                    assert pending.id in ((await get(pays.task_id)).status_message or "")
                    await world.decide(pending.id, approve=True)
                request = types.GetTaskPayloadRequest(params=types.GetTaskPayloadRequestParams(task_id=task.task_id))
                result = await mcp.session.send_request(request, types.CallToolResult)
                assert isinstance(result.content[0], types.TextContent)
                assert result.content[0].text == {slow.task_id: "done", pays.task_id: "paid 3"}[task.task_id]
                assert (await get(task.task_id)).status == "completed"
            tasks = (await mcp.session.send_request(types.ListTasksRequest(), types.ListTasksResult)).tasks
            assert {task.task_id for task in tasks} == {slow.task_id, pays.task_id}

            other = await begin("pay", {"amount": 4})
            cancel = types.CancelTaskRequest(params=types.CancelTaskRequestParams(task_id=other.task_id))
            assert (await mcp.session.send_request(cancel, types.CancelTaskResult)).status == "cancelled"
        async with client(url, "legacy", "eve") as mcp:
            with pytest.raises(MCPError, match="unknown task"):
                await mcp.session.send_request(
                    types.GetTaskRequest(params=Params(task_id=slow.task_id)), types.GetTaskResult
                )
        assert world.done["pay"] == 1

    living(story)


class _CreatedTask(types.Result):
    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class _TaskState(types.Result):
    model_config: ClassVar[Any] = {"extra": "allow"}
    status: str
    result: types.CallToolResult | None = None


class _ModernGet(types.Request[Params, Literal["tasks/get"]]):
    name_param: ClassVar[str | None] = "taskId"
    method: Literal["tasks/get"] = "tasks/get"
    params: Params


class Tasks(ClientExtension):
    """The extension, in the words of the SDK."""

    identifier = TASKS

    def __init__(self, on_task: Callable[[str], None]) -> None:
        self._on_task = on_task

    def claims(self) -> list[ResultClaim[_CreatedTask]]:
        return [ResultClaim(result_type="task", model=_CreatedTask, resolve=self._resolve)]

    async def _resolve(self, created: _CreatedTask, context: ClaimContext) -> types.CallToolResult:
        self._on_task(created.task_id)
        while True:
            request = _ModernGet(params=Params(task_id=created.task_id))
            state = await context.session.send_request(request, _TaskState)
            if state.result is not None:
                return state.result
            assert state.status == "working"
            await asyncio.sleep(0.05)


def test_the_protocols_own_client_is_given_a_task_in_2026() -> None:
    async def story(world: World, url: str) -> None:
        created: list[str] = []
        async with client(url, "2026-07-28", extensions=[Tasks(created.append)]) as mcp:
            await mcp.call_tool("look", {"place": "Bern"})
            assert not created
            slow = asyncio.ensure_future(mcp.call_tool("wait", {}))
            await until(lambda: len(created) == 1)
            world.gate.set()
            answers = [await slow]
            pays = asyncio.ensure_future(mcp.call_tool("pay", {"amount": 3}))
            await until(lambda: len(created) == 2)
            await world.decide((await world.client.gateway.ledger.approvals())[-1].id, approve=True)
            answers.append(await pays)
        texts = [one.content[0].text for one in answers if isinstance(one.content[0], types.TextContent)]
        assert texts == ["done", "paid 3"]
        assert world.done["pay"] == 1

    living(story)


# --- Our client, and a gateway that is killed ---

_TOOLS = """
import asyncio
from pathlib import Path

from ferrule import tool

FOLDER = Path({folder!r})


async def work(name: str) -> str:
    with (FOLDER / f"{{name}}.begun").open("a") as file:
        file.write("begun\\n")
    while not (FOLDER / "finish").exists():
        await asyncio.sleep(0.02)
    return f"{{name}} is done"


@tool(side_effects=True)
async def send() -> str:
    \"\"\"Sends something, once.\"\"\"
    return await work("send")


@tool(side_effects=False)
async def read() -> str:
    \"\"\"Reads for long.\"\"\"
    return await work("read")


TOOLS = [send, read]
"""
# The command line's settings have no lease: it ends ten seconds after the process.
_CONFIG = """
[engines.e0]
use = "fake:Hello."

[server]
port = {port}
ledger = "{folder}/ledger.db"

[tools]
tools_per_tool_timeout_seconds = 600
tools_require_confirmation_for_side_effects = {approval}

[sources]
functions = ["{folder}/tools.py:TOOLS"]

[keys.ann]
sha256 = "{sha256}"
tenant = "acme"
tools = ["*"]

[keys.boss]
sha256 = "{boss}"
tenant = "acme"
approve = true
"""


@dataclass(slots=True)
class Serving:
    """A gateway that serves its tools at the same address after each start, and one call of our client."""

    folder: Path
    port: int
    stack: ExitStack
    processes: list[GatewayProcess] = field(default_factory=list[GatewayProcess])
    recorded: list[str] = field(default_factory=list[str])
    heard: list[Progress] = field(default_factory=list[Progress])

    def write(self, *, approval: bool) -> str:
        (self.folder / "tools.py").write_text(_TOOLS.format(folder=str(self.folder)), encoding="utf-8")
        return _CONFIG.format(
            port=self.port,
            folder=self.folder,
            approval=str(approval).lower(),
            sha256=key(ANN).sha256,
            boss=key(BOSS).sha256,
        )

    async def start(self, *, approval: bool) -> None:
        text = self.write(approval=approval)
        starting = asyncio.to_thread(self.stack.enter_context, gateway_with_config(self.folder, text))
        self.processes.append(await starting)

    def kill(self) -> None:
        self.processes[-1].process.kill()
        self.processes[-1].process.wait()

    def begun(self, name: str) -> int:
        file = self.folder / f"{name}.begun"
        return file.read_text(encoding="utf-8").count("\n") if file.exists() else 0

    @property
    def client(self) -> McpServers:
        transport = HttpTransport(f"http://127.0.0.1:{self.port}/mcp", bearer(ANN))
        timeouts = Timeouts(call=PATIENCE, task=PATIENCE)
        return McpServers([Server("inner", transport, True, timeouts)], settle_seconds=PATIENCE)

    def call(self, source: McpServers, name: str) -> asyncio.Task[Outcome]:
        async def write(handle: str) -> None:
            self.recorded.append(handle)

        context = CallContext(call_id="c1", on_progress=self.heard.append, task=TaskRecord(write=write))
        return asyncio.ensure_future(source.call(f"inner_{name}", {}, context))

    async def approve(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while not (waiting := (await self.request("GET", "/v1/approvals?state=pending"))["data"]):
                await asyncio.sleep(0.05)
        assert len(waiting) == 1
        await self.request("POST", f"/v1/approvals/{waiting[0]['id']}", {"approve": True})

    async def request(self, method: str, path: str, body: Any = None) -> Any:
        status, answer = await asyncio.to_thread(self.processes[-1].request, method, path, body, BOSS)
        assert status == 200, answer
        return answer


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with ExitStack() as stack:
        yield Serving(tmp_path, free_port(), stack)


def run(serving: Serving, story: Callable[[Serving, McpServers], Any], *, approval: bool = False) -> None:
    async def work() -> None:
        await serving.start(approval=approval)
        source = serving.client
        async with source:
            await source.tools()
            await story(serving, source)
            assert len(set(serving.recorded)) == 1

    asyncio.run(work())


def test_a_gateway_that_is_killed_while_its_task_waits_for_approval_runs_it_once(serving: Serving) -> None:
    async def story(serving: Serving, source: McpServers) -> None:
        call = serving.call(source, "send")
        await until(lambda: any("waits for a person's approval" in one.message for one in serving.heard))
        serving.kill()
        await serving.start(approval=True)
        (serving.folder / "finish").touch()
        await serving.approve()
        outcome = await asyncio.wait_for(call, PATIENCE)
        assert isinstance(outcome, Answered), outcome
        assert (outcome.content, outcome.is_error, serving.begun("send")) == ("send is done", False, 1)

    run(serving, story, approval=True)


def test_a_gateway_that_is_killed_in_the_middle_of_an_effect_does_not_begin_it_again(serving: Serving) -> None:
    async def story(serving: Serving, source: McpServers) -> None:
        call = serving.call(source, "send")
        await until(lambda: serving.begun("send") == 1 and bool(serving.recorded))
        serving.kill()
        (serving.folder / "finish").touch()
        await serving.start(approval=False)
        outcome = await asyncio.wait_for(call, PATIENCE)
        assert serving.begun("send") == 1
        # It may have been sent, and nobody can know: the result says so.
        assert isinstance(outcome, Answered), outcome
        assert outcome.is_error

    run(serving, story)


def test_a_gateway_that_is_killed_while_its_task_reads_reads_again(serving: Serving) -> None:
    async def story(serving: Serving, source: McpServers) -> None:
        call = serving.call(source, "read")
        await until(lambda: serving.begun("read") == 1 and bool(serving.recorded))
        serving.kill()
        (serving.folder / "finish").touch()
        await serving.start(approval=False)
        outcome = await asyncio.wait_for(call, PATIENCE)
        assert isinstance(outcome, Answered), outcome
        assert (outcome.content, outcome.is_error, serving.begun("read")) == ("read is done", False, 2)

    run(serving, story)


def test_our_client_cancels_the_task_of_a_call_that_is_cancelled(serving: Serving) -> None:
    async def story(serving: Serving, source: McpServers) -> None:
        call = serving.call(source, "send")
        await until(lambda: any("waits for a person's approval" in one.message for one in serving.heard))
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        assert (await serving.request("GET", "/v1/approvals?state=pending"))["data"] == []
        assert serving.begun("send") == 0

    run(serving, story, approval=True)
