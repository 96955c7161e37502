"""Tasks of `/mcp`, in both generations: whose they are, how they end, and that an effect happens once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import Principal
from ferrule.dialects.mcp_server import MODERN, TASKS
from ferrule.errors import IdempotencyError
from ferrule.run.executor import ToolSettings
from ferrule.run.ledger.search import ConversationQuery
from ferrule.server.tools import call_tasks
from ferrule.server.tools.call_tasks import CallTasks
from ferrule.server.tools.service import ToolService
from server.keys import bearer
from server.tool_world import CONFIG, World, run_story, world_of
from waiting import PATIENCE, until

_META = "io.modelcontextprotocol/"
FREE = ToolSettings(tools_require_confirmation_for_side_effects=False)
UNKNOWN = (-32602, "unknown task")
OVER = ("completed", "failed", "cancelled")


async def core(world: World, method: str, who: str = "ann", **params: Any) -> Any:
    """The answer of a request of 2025-11-25."""
    return (await world.rpc(method, params, who, **{"mcp-protocol-version": "2025-11-25"})).json()


async def modern(world: World, method: str, who: str = "ann", *, forms: bool = False, **params: Any) -> Any:
    """The answer of a request of 2026-07-28, of a client that takes tasks."""
    capabilities: dict[str, Any] = {"extensions": {TASKS: {}}, **({"elicitation": {}} if forms else {})}
    meta = {f"{_META}protocolVersion": MODERN[0], f"{_META}clientCapabilities": capabilities}
    name = params.get("name") or params.get("taskId")
    headers = {"mcp-protocol-version": MODERN[0], "mcp-method": method, **({"mcp-name": name} if name else {})}
    more = params.pop("_meta", {})
    return (await world.rpc(method, {**params, "_meta": {**more, **meta}}, who, **headers)).json()


async def begin(world: World, name: str, arguments: Any = None, who: str = "ann", **more: Any) -> Any:
    """The task that a client of 2025-11-25 makes of a call."""
    answer = await core(world, "tools/call", who, name=name, arguments=arguments or {}, **{"task": {}, **more})
    return answer["result"]["task"]


async def wait_for(world: World, id: str, *statuses: str, who: str = "ann") -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            state = (await modern(world, "tasks/get", who, taskId=id))["result"]
            if state["status"] in statuses:
                return state
            await asyncio.sleep(0.02)


async def approval_of(world: World, id: str) -> str:
    """The approval that a task waits for."""
    async with asyncio.timeout(PATIENCE):
        while True:
            state = (await core(world, "tasks/get", taskId=id))["result"]
            if approval := state.get("_meta", {}).get("ferrule.dev/approval"):
                assert approval in state["statusMessage"]
                assert state["status"] == "working"
                return approval
            await asyncio.sleep(0.02)


def error_of(answer: Mapping[str, Any]) -> tuple[int, str]:
    return answer["error"]["code"], answer["error"]["message"]


@pytest.mark.parametrize("who", ["eve", "boss", "rob"])
def test_nobody_else_sees_or_ends_a_task(who: str) -> None:
    async def story(world: World) -> None:
        task = await begin(world, "wait")
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert error_of(await core(world, method, who, taskId=task["taskId"])) == UNKNOWN
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            assert error_of(await modern(world, method, who, taskId=task["taskId"])) == UNKNOWN
        assert (await core(world, "tasks/list", who))["result"]["tasks"] == []
        world.gate.set()
        assert (await wait_for(world, task["taskId"], *OVER))["status"] == "completed"

    run_story(story)


def test_a_narrower_key_of_the_same_principal_does_not_see_the_task_of_a_tool_it_may_not_use() -> None:
    async def story(world: World) -> None:
        id = (await begin(world, "wait"))["taskId"]
        tasks = CallTasks(world.client.gateway, ToolService(world.client.gateway))
        assert await tasks.find(Principal("ann", "acme", frozenset({"look"})), id, resumes=False) is None
        assert await tasks.find(Principal("ann", "acme", frozenset({"wait"})), id, resumes=False) is not None
        assert await tasks.find(Principal("ann", "evil"), id, resumes=False) is None
        world.gate.set()
        await wait_for(world, id, *OVER)

    run_story(story)


@pytest.mark.parametrize("id", ["", "x", "call_" + "0" * 40, "call_\x00", "call_" + "0" * 40 + "\n", 3, None, {}, []])
def test_an_id_that_was_never_given_is_an_unknown_task(id: Any) -> None:
    async def story(world: World) -> None:
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert error_of(await core(world, method, taskId=id)) == UNKNOWN
        assert error_of(await core(world, "tasks/get")) == UNKNOWN

    run_story(story)


def test_a_call_that_is_no_task_is_an_unknown_task() -> None:
    async def story(world: World) -> None:
        await world.call("look", {"place": "x"}, call_id="mine")
        rows = await world.client.gateway.ledger.conversations_of("acme", ConversationQuery())
        assert len(rows) == 1
        assert error_of(await core(world, "tasks/get", taskId=rows[0].id)) == UNKNOWN
        assert (await core(world, "tasks/list"))["result"]["tasks"] == []

    run_story(story)


def test_each_generation_is_offered_tasks_in_its_own_shape() -> None:
    async def story(world: World) -> None:
        for version, has_tasks in (("2025-11-25", True), ("2025-06-18", False)):
            result = (await world.rpc("initialize", {"protocolVersion": version, "capabilities": {}})).json()["result"]
            assert ("tasks" in result["capabilities"]) is has_tasks
            listed = (await world.rpc("tools/list", {}, "ann", **{"mcp-protocol-version": version})).json()["result"]
            assert all(("execution" in tool) is has_tasks for tool in listed["tools"])
        capabilities = (await core(world, "initialize", protocolVersion="2025-11-25"))["result"]["capabilities"]
        assert capabilities["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        capabilities = (await modern(world, "server/discover"))["result"]["capabilities"]
        assert capabilities["extensions"] == {TASKS: {}}
        assert "tasks" not in capabilities
        for method in ("tasks/result", "tasks/list"):
            assert (await modern(world, method, taskId="x"))["error"]["code"] == -32601
        assert (await core(world, "tasks/update", taskId="x"))["error"]["code"] == -32601
        old = await world.rpc("tasks/get", {"taskId": "x"}, "ann", **{"mcp-protocol-version": "2025-06-18"})
        assert old.json()["error"]["code"] == -32601

    run_story(story)


def test_a_client_that_does_not_take_tasks_gets_none() -> None:
    async def story(world: World) -> None:
        meta = {f"{_META}protocolVersion": MODERN[0], f"{_META}clientCapabilities": {}}
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            headers = {"mcp-protocol-version": MODERN[0], "mcp-method": method, "mcp-name": "x"}
            answer = await world.rpc(method, {"taskId": "x", "_meta": meta}, "ann", **headers)
            assert (answer.status, answer.json()["error"]["code"]) == (400, -32021)
            assert answer.json()["error"]["data"] == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        # A task of the core is no parameter of the other versions.
        old = {"name": "look", "arguments": {"place": "x"}, "task": {}}
        answer = await world.rpc("tools/call", old, "ann", **{"mcp-protocol-version": "2025-06-18"})
        assert answer.json()["result"]["structuredContent"] == {"place": "x", "seen": True}

    run_story(story)


def test_a_task_is_answered_at_once_and_its_result_is_waited_for() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "wait", task={"ttl": 120_000})
        assert (task["status"], task["ttl"], task["pollInterval"]) == ("working", 120_000, 1000)
        assert (await core(world, "tasks/get", taskId=task["taskId"]))["result"]["status"] == "working"
        waiting = asyncio.ensure_future(core(world, "tasks/result", taskId=task["taskId"]))
        world.gate.set()
        result = (await waiting)["result"]
        assert (result["isError"], result["content"][0]["text"]) == (False, "done")
        assert result["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": task["taskId"]}
        assert (await core(world, "tasks/get", taskId=task["taskId"]))["result"]["status"] == "completed"
        listed = (await core(world, "tasks/list"))["result"]
        assert [one["taskId"] for one in listed["tasks"]] == [task["taskId"]]
        assert "nextCursor" not in listed
        assert (await core(world, "tasks/cancel", taskId=task["taskId"]))["error"]["code"] == -32602

    run_story(story)


@pytest.mark.parametrize("ttl, kept", [(1, 60_000), (1e18, 86_400_000), ("x", 86_400_000), (True, 86_400_000)])
def test_the_time_to_live_is_bounded(ttl: Any, kept: int) -> None:
    async def story(world: World) -> None:
        assert (await begin(world, "look", {"place": "x"}, task={"ttl": ttl}))["ttl"] == kept

    run_story(story)


def test_a_task_is_unknown_when_its_time_is_over(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        task = await begin(world, "look", {"place": "x"}, task={"ttl": 60_000})
        await wait_for(world, task["taskId"], *OVER)
        world.execute("UPDATE ferrule_request SET begun_at = begun_at - 61")
        assert error_of(await core(world, "tasks/get", taskId=task["taskId"])) == UNKNOWN
        assert error_of(await core(world, "tasks/result", taskId=task["taskId"])) == UNKNOWN

    run_story(story, ledger=str(tmp_path / "ledger.db"))


def test_in_2026_only_what_takes_long_or_waits_becomes_a_task() -> None:
    async def story(world: World) -> None:
        quick = (await modern(world, "tools/call", name="look", arguments={"place": "x"}, task={"ttl": 1}))["result"]
        assert (quick["resultType"], quick["structuredContent"]) == ("complete", {"place": "x", "seen": True})
        task = (await modern(world, "tools/call", name="wait", arguments={}))["result"]
        assert (task["resultType"], task["status"], task["pollIntervalMs"]) == ("task", "working", 1000)
        assert not {"task", "ttl", "result", "requestState"} & set(task)
        world.gate.set()
        state = await wait_for(world, task["taskId"], *OVER)
        assert (state["resultType"], state["status"]) == ("complete", "completed")
        assert state["result"]["content"][0]["text"] == "done"
        assert (await modern(world, "tasks/cancel", taskId=task["taskId"]))["result"]["resultType"] == "complete"

    run_story(story)


def test_a_call_that_may_not_run_is_refused_before_it_is_a_task() -> None:
    async def story(world: World) -> None:
        for name, arguments, who in (("fly", {}, "ann"), ("look", {}, "ann"), ("pay", {"amount": 1}, "rob")):
            answer = await core(world, "tools/call", who, name=name, arguments=arguments, task={})
            assert answer["error"]["code"] == -32602
            result = (await modern(world, "tools/call", who, name=name, arguments=arguments))["result"]
            assert (result["resultType"], result["isError"]) == ("complete", True)
        assert not world.done

    run_story(story)


def test_a_tool_that_fails_completes_its_task_with_an_error() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "fail", {"words": "no paper"})
        state = await wait_for(world, task["taskId"], *OVER)
        assert (state["status"], state["result"]["isError"]) == ("completed", True)
        assert "no paper" in state["result"]["content"][0]["text"]

    run_story(story)


def test_a_task_that_waits_for_approval_says_so_and_its_effect_happens_once() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "pay", {"amount": 3})
        approval = await approval_of(world, task["taskId"])
        waiting = asyncio.ensure_future(core(world, "tasks/result", taskId=task["taskId"]))
        await world.decide(approval, approve=True)
        assert (await waiting)["result"]["content"][0]["text"] == "paid 3"
        for _ in range(3):
            assert (await wait_for(world, task["taskId"], *OVER))["result"]["content"][0]["text"] == "paid 3"
        assert world.done["pay"] == 1

    run_story(story)


def test_a_denied_task_completes_with_the_denial() -> None:
    async def story(world: World) -> None:
        task = (await modern(world, "tools/call", name="pay", arguments={"amount": 3}))["result"]
        assert (task["resultType"], task["status"]) == ("task", "working")
        await world.decide(task["_meta"]["ferrule.dev/approval"], approve=False, why="too much")
        state = await wait_for(world, task["taskId"], *OVER)
        assert (state["status"], state["result"]["content"][0]["text"]) == ("completed", "denied: too much")
        assert not world.done

    run_story(story)


def test_a_client_whose_key_may_approve_is_asked_by_the_task() -> None:
    async def story(world: World) -> None:
        call: dict[str, Any] = {"name": "pay", "arguments": {"amount": 3}}
        task = (await modern(world, "tools/call", "boss", forms=True, **call))["result"]
        assert task["resultType"] == "task"
        id = task["taskId"]
        state = (await modern(world, "tasks/get", "boss", forms=True, taskId=id))["result"]
        assert state["status"] == "input_required"
        ((question, request),) = state["inputRequests"].items()
        assert request["params"]["message"] == 'Allow pay with {"amount":3}?'
        yes = {"action": "accept", "content": {"approve": True}}
        # An answer to another question, and one that is none.
        for answers in ({"other": yes}, {question: {"action": "cancel"}}, {question: 3}, [], {}):
            ack = await modern(world, "tasks/update", "boss", forms=True, taskId=id, inputResponses=answers)
            assert ack["result"]["resultType"] == "complete"
            assert "status" not in ack["result"]
        assert not world.done
        for _ in range(2):
            await modern(world, "tasks/update", "boss", forms=True, taskId=id, inputResponses={question: yes})
        state = await wait_for(world, id, *OVER, who="boss")
        assert state["result"]["content"][0]["text"] == "paid 3"
        assert world.done["pay"] == 1

    run_story(story)


def test_a_forged_answer_of_a_key_that_may_not_approve_has_no_effect() -> None:
    async def story(world: World) -> None:
        task = (await modern(world, "tools/call", forms=True, name="pay", arguments={"amount": 3}))["result"]
        state = (await modern(world, "tasks/get", forms=True, taskId=task["taskId"]))["result"]
        assert state["status"] == "working"
        approval = state["_meta"]["ferrule.dev/approval"]
        yes = {approval: {"action": "accept", "content": {"approve": True}}}
        answer = await modern(world, "tasks/update", forms=True, taskId=task["taskId"], inputResponses=yes)
        assert answer["error"]["data"]["code"] == "token_scope_insufficient"
        kept = await world.client.gateway.ledger.approval(approval)
        assert kept is not None
        assert kept.state.value == "pending"
        assert not world.done

    run_story(story)


@pytest.mark.parametrize("name", ["wait", "pay_slowly"])
def test_cancelling_ends_the_call_that_runs(name: str) -> None:
    async def story(world: World) -> None:
        task = await begin(world, name, {"amount": 3} if name == "pay_slowly" else {})
        cancelled = (await core(world, "tasks/cancel", taskId=task["taskId"]))["result"]
        assert cancelled["taskId"] == task["taskId"]
        state = await wait_for(world, task["taskId"], *OVER)
        assert state["status"] == "cancelled"
        assert "result" not in state
        world.gate.set()
        assert (await core(world, "tasks/result", taskId=task["taskId"]))["result"]["isError"]
        assert not world.done

    run_story(story, tools=FREE)


def test_cancelling_withdraws_what_waits_for_approval() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "pay", {"amount": 3})
        approval = await approval_of(world, task["taskId"])
        assert (await core(world, "tasks/cancel", taskId=task["taskId"]))["result"]["status"] == "cancelled"
        assert (await world.decide(approval, approve=True)).status == 409
        assert (await wait_for(world, task["taskId"], *OVER))["status"] == "cancelled"
        assert not world.done

    run_story(story)


def test_an_effect_that_was_approved_can_still_be_cancelled_while_it_runs() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "pay_slowly", {"amount": 3})
        await world.decide(await approval_of(world, task["taskId"]), approve=True)
        # Nobody asks for the task: what follows a decision runs it.
        await until(world.has_started.is_set)
        await core(world, "tasks/cancel", taskId=task["taskId"])
        assert (await wait_for(world, task["taskId"], *OVER))["status"] == "cancelled"
        assert not world.done

    run_story(story)


def test_one_idempotency_key_has_one_task() -> None:
    async def story(world: World) -> None:
        meta = {"ferrule.dev/idempotency-key": "mine"}
        tasks = await asyncio.gather(*(begin(world, "pay", {"amount": 3}, _meta=meta) for _ in range(4)))
        (id,) = {task["taskId"] for task in tasks}
        again = (await modern(world, "tools/call", name="pay", arguments={"amount": 3}, _meta=meta))["result"]
        assert again["taskId"] == id
        await world.decide(await approval_of(world, id), approve=True)
        await wait_for(world, id, *OVER)
        # The same call without a task, and one with other arguments.
        plain = (await core(world, "tools/call", name="pay", arguments={"amount": 3}, _meta=meta))["result"]
        assert plain["content"][0]["text"] == "paid 3"
        other: dict[str, Any] = {"name": "pay", "arguments": {"amount": 9}, "_meta": meta}
        refused = await core(world, "tools/call", **other, task={})
        assert refused["error"]["data"]["code"] == IdempotencyError.code
        refused = (await modern(world, "tools/call", **other))["result"]
        assert refused["_meta"]["ferrule.dev/code"] == IdempotencyError.code
        assert world.done["pay"] == 1

    run_story(story)


def test_the_number_of_running_tasks_is_bounded_for_each_principal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_tasks, "MAX_RUNNING", 2)

    async def story(world: World) -> None:
        tasks = [await begin(world, "wait") for _ in range(2)]
        refused = await core(world, "tools/call", name="wait", arguments={}, task={})
        assert refused["error"]["data"]["code"] == "too_many_requests"
        # Another principal has its own number.
        other = await begin(world, "wait", who="boss")
        # In 2026-07-28 the server decides: the call stays open.
        plain = asyncio.ensure_future(modern(world, "tools/call", name="wait", arguments={}))
        world.gate.set()
        assert (await plain)["result"]["resultType"] == "complete"
        for id, who in (*((task["taskId"], "ann") for task in tasks), (other["taskId"], "boss")):
            assert (await wait_for(world, id, *OVER, who=who))["status"] == "completed"
        assert (await begin(world, "wait"))["taskId"]

    run_story(story)


def test_a_stopped_gateway_leaves_its_tasks_to_the_next_one(tmp_path: Path) -> None:
    config = replace(CONFIG, ledger=str(tmp_path / "ledger.db"))

    async def run() -> None:
        async with world_of(config) as first:
            reads = await begin(first, "wait")
            pays = await begin(first, "pay", {"amount": 3})
            approval = await approval_of(first, pays["taskId"])
            cancelled = await begin(first, "pay", {"amount": 4})
            await approval_of(first, cancelled["taskId"])
            await core(first, "tasks/cancel", taskId=cancelled["taskId"])
        async with world_of(config) as second:
            assert (await wait_for(second, reads["taskId"], "working"))["taskId"] == reads["taskId"]
            second.gate.set()
            await second.decide(approval, approve=True)
            assert (await wait_for(second, reads["taskId"], *OVER))["result"]["content"][0]["text"] == "done"
            assert (await wait_for(second, pays["taskId"], *OVER))["result"]["content"][0]["text"] == "paid 3"
            assert (await wait_for(second, cancelled["taskId"], *OVER))["status"] == "cancelled"
            assert len((await core(second, "tasks/list"))["result"]["tasks"]) == 3
            assert second.done["pay"] == 1

    asyncio.run(run())


def test_what_a_tool_reports_is_the_message_of_its_task() -> None:
    async def story(world: World) -> None:
        body = {
            "jsonrpc": "2.0",
            "id": 5,
            "method": "tools/call",
            "params": {"name": "tell", "arguments": {"steps": 2}, "_meta": {"progressToken": "p"}, "task": {}},
        }
        accepts = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        *_, last = (await world.client.post("/mcp", body, {**bearer("ann"), **accepts})).events()
        state = await wait_for(world, last["result"]["task"]["taskId"], *OVER)
        assert state["result"]["content"][0]["text"] == "told"

    run_story(story)


def test_a_conversation_cannot_be_resumed_from_the_request_of_a_task() -> None:
    async def story(world: World) -> None:
        task = await begin(world, "pay", {"amount": 3})
        await approval_of(world, task["taskId"])
        body = {"messages": [], "ferrule": {"resume": task["taskId"]}}
        answer = await world.client.post("/v1/chat/completions", {**body, "model": "e0"}, bearer("ann"))
        assert 400 <= answer.status < 500
        assert not world.done

    run_story(story)
