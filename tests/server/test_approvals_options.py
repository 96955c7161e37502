"""Approvals beyond one click: what the user asked, changed tools, several approvers, several decisions, live events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.errors import DefinitionError
from ferrule.run.approval_policy import ApprovalRule
from ferrule.server.config.loader import load_config
from server.keys import bearer, config_with_keys, key
from server.tool_world import World, run_story
from waiting import PATIENCE

# Ann and Rob ask, Boss, Cat and Dan approve; Cat and Dan can do nothing else. Eve is in another tenant.
CONFIG = config_with_keys(
    key("ann", tenant="acme", tools=("*",)),
    key("rob", tenant="acme", tools=("*",), approve=True),
    key("boss", tenant="acme", tools=("*",), approve=True, admin=True),
    key("cat", tenant="acme", models=(), approve=True),
    key("dan", tenant="acme", models=(), approve=True, rate=3),
    key("eve", tenant="evil", tools=("*",), approve=True, admin=True),
)
LARGE = ApprovalRule(
    name="large", tools=("pay",), arguments={"properties": {"amount": {"minimum": 1000}}}, approvers=2, four_eyes=True
)
SMALL = ApprovalRule(
    name="small",
    tools=("pay",),
    arguments={"properties": {"amount": {"maximum": 10}}, "required": ["amount"]},
    approvers=0,
)


async def _pending(world: World, amount: int, call_id: str = "c", who: str = "ann") -> Any:
    return (await world.call("pay", {"amount": amount}, who, call_id=call_id)).json()["approval"]


async def _get(world: World, path: str, who: str = "cat") -> Any:
    return (await world.client.get(path, bearer(who))).json()


def _code(answer: Any) -> tuple[int, str]:
    return answer.status, answer.json().get("error", {}).get("code", "")


def test_an_approver_sees_what_the_user_asked_and_the_calls_before() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "system", "content": "A secret."}, {"role": "user", "content": "Pay\u202e Bob."}]}
        await world.client.post("/v1/chat/completions", body, bearer("ann"))
        listed = (await _get(world, "/v1/approvals?state=pending"))["data"][0]
        assert "request" not in listed
        request = (await _get(world, f"/v1/approvals/{listed['id']}"))["request"]
        assert request["asked"] == "Pay\\u202e Bob."
        assert request["calls"] == [
            {
                "tool": "look",
                "arguments": '{"place": "bank"}',
                "result": '{"place": "bank", "seen": true}',
                "is_error": False,
            }
        ]
        assert "secret" not in json.dumps(request)

    calls = [ToolCall.of("look", {"place": "bank"}, id="c1"), ToolCall.of("pay", {"amount": 3}, id="c1")]
    run_story(story, config=CONFIG, replies=[Reply.of(calls[0]), Reply.of(calls[1]), "Paid."])


def test_a_long_turn_and_many_calls_are_cut() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "user", "content": "x" * 10_000}]}
        await world.client.post("/v1/chat/completions", body, bearer("ann"))
        listed = (await _get(world, "/v1/approvals"))["data"][0]
        request = (await _get(world, f"/v1/approvals/{listed['id']}"))["request"]
        assert len(request["asked"]) < 4_100
        assert request["asked_chars"] == 10_000
        assert len(request["calls"][0]["result"]) < 600

    look = ToolCall.of("look", {"place": "p" * 2_000}, id="c1")
    run_story(story, config=CONFIG, replies=[Reply.of(look), Reply.of(ToolCall.of("pay", {"amount": 3}, id="c"))])


def test_an_approver_reads_a_conversation_only_while_something_in_it_waits() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "user", "content": "Pay."}]}
        await world.client.post("/v1/chat/completions", body, bearer("ann"))
        approval = (await _get(world, "/v1/approvals"))["data"][0]
        path = f"/v1/conversations/{approval['conversation']}"
        assert (await _get(world, path))["messages"][0]["role"] == "user"
        # Not another tenant's, and not a principal's who may not approve.
        assert (await world.client.get(path, bearer("eve"))).status == 404
        await world.decide(approval["id"], "cat", approve=False)
        assert (await world.client.get(path, bearer("cat"))).status == 404
        assert (await world.client.get(path, bearer("ann"))).status == 200

    run_story(story, config=CONFIG, replies=[Reply.of(ToolCall.of("pay", {"amount": 3}, id="c"))])


@pytest.mark.parametrize("change, code", [("changed", "approval_tool_changed"), ("removed", "approval_tool_missing")])
def test_a_tool_that_changed_or_is_gone_cannot_be_approved(change: str, code: str) -> None:
    async def story(world: World) -> None:
        approval = await _pending(world, 3)
        catalog = world.client.gateway.tool_catalog
        tools = dict(catalog.tools)
        if change == "changed":
            tools["pay"] = replace(tools["pay"], description="Pays twice.")
        else:
            del tools["pay"]
        catalog.tools = tools
        assert _code(await world.decide(approval["id"], approve=True)) == (409, code)
        assert (await _get(world, f"/v1/approvals/{approval['id']}"))["state"] == "pending"
        assert (await world.decide(approval["id"], approve=False)).status == 200

    run_story(story, config=CONFIG)


def test_rules_decide_by_the_arguments_whether_and_by_how_many_a_call_is_approved() -> None:
    async def story(world: World) -> None:
        assert (await world.call("pay", {"amount": 10})).json()["content"] == "paid 10"
        middle = await _pending(world, 100, "m")
        assert (middle["needed"], middle["four_eyes"]) == (1, False)
        large = await _pending(world, 1000, "l")
        assert (large["needed"], large["votes"], large["four_eyes"]) == (2, 0, True)
        first = (await world.decide(large["id"], "boss", approve=True)).json()
        assert (first["state"], first["votes"]) == ("pending", 1)
        assert _code(await world.decide(large["id"], "boss", approve=True)) == (409, "approval_voted")
        assert (await world.call("pay", {"amount": 1000}, call_id="l")).status == 202
        assert (await _get(world, f"/v1/approvals/{large['id']}"))["approved_by"] == ["boss"]
        assert (await world.decide(large["id"], "cat", approve=True)).json()["state"] == "approved"
        assert (await world.call("pay", {"amount": 1000}, call_id="l")).json()["content"] == "paid 1000"
        assert world.done["pay"] == 2

    run_story(story, config=CONFIG, approvals=(LARGE, SMALL))


def test_with_four_eyes_nobody_approves_what_they_asked_for_and_may_still_deny_it() -> None:
    async def story(world: World) -> None:
        own = await _pending(world, 5, "o", "rob")
        assert _code(await world.decide(own["id"], "rob", approve=True)) == (409, "approval_own_call")
        assert (await world.decide(own["id"], "cat", approve=True)).status == 200
        other = await _pending(world, 6, "p", "rob")
        assert (await world.decide(other["id"], "rob", approve=False)).status == 200

    run_story(story, config=CONFIG, approvals=(ApprovalRule(name="all", four_eyes=True),))


def test_a_vote_counts_only_for_the_arguments_that_its_voter_saw() -> None:
    async def story(world: World) -> None:
        id = (await _pending(world, 1000))["id"]
        await world.decide(id, "boss", approve=True)
        changed = (await world.decide(id, "cat", approve=True, arguments={"amount": 2000})).json()
        assert (changed["state"], changed["votes"], changed["arguments"]) == ("pending", 1, '{"amount":2000}')
        # Rob saw the earlier arguments, or does not say what he saw.
        for seen in ({}, {"arguments_sha256": "0" * 64}):
            late = await world.decide(id, "rob", approve=True, **seen)
            assert _code(late) == (409, "approval_arguments_changed")
        sha256 = changed["arguments_sha256"]
        done = (await world.decide(id, "boss", approve=True, arguments_sha256=sha256)).json()
        assert done["state"] == "approved"
        assert (await world.call("pay", {"amount": 1000}, call_id="c")).json()["content"] == "paid 2000"

    run_story(story, config=CONFIG, approvals=(LARGE,))


def test_an_approver_cannot_raise_an_amount_past_a_rule_alone() -> None:
    async def story(world: World) -> None:
        id = (await _pending(world, 100))["id"]
        raised = (await world.decide(id, "cat", approve=True, arguments={"amount": 5000})).json()
        assert (raised["state"], raised["needed"], raised["four_eyes"]) == ("pending", 2, True)
        assert world.done["pay"] == 0

    run_story(story, config=CONFIG, approvals=(LARGE,))


def test_an_approver_may_lower_an_amount_to_one_that_needs_no_approval() -> None:
    async def story(world: World) -> None:
        id = (await _pending(world, 100))["id"]
        await world.decide(id, "cat", approve=True, arguments={"amount": 5})
        assert (await world.call("pay", {"amount": 100}, call_id="c")).json()["content"] == "paid 5"

    run_story(story, config=CONFIG, approvals=(SMALL,))


def test_a_rule_says_how_long_an_approval_can_be_given() -> None:
    async def story(world: World) -> None:
        approval = await _pending(world, 5)
        assert approval["expires_at"] - approval["requested_at"] == pytest.approx(60, abs=1)

    run_story(story, config=CONFIG, approvals=(ApprovalRule(name="all", expires_seconds=60),))


def test_racing_approvers_are_counted_once_each() -> None:
    async def story(world: World) -> None:
        id = (await _pending(world, 1000))["id"]
        answers = await asyncio.gather(*(world.decide(id, "boss", approve=True) for _ in range(8)))
        assert sorted(answer.status for answer in answers) == [200, *[409] * 7]
        assert (await _get(world, f"/v1/approvals/{id}"))["votes"] == 1

    run_story(story, config=CONFIG, approvals=(LARGE,))


def test_rules_are_read_from_the_configuration_file(tmp_path: Any) -> None:
    path = tmp_path / "ferrule.toml"
    head = '[engines.e0]\nuse = "fake:Hello."\n[approvals.large]\ntools = ["pay"]\n'
    path.write_text(head + "approvers = 2\nfour_eyes = true\narguments = {properties = {amount = {minimum = 1000}}}\n")
    assert load_config(str(path), {}).config.approvals == (LARGE,)
    path.write_text(head + "approvers = 0\narguments = {properties = {amount = {maximum = 10}}}\n")
    with pytest.raises(DefinitionError, match="arguments has to require amount"):
        load_config(str(path), {})
    path.write_text(head + 'arguments = {"$ref" = "https://example.com/schema"}\n')
    with pytest.raises(DefinitionError, match="arguments is not a usable JSON Schema"):
        load_config(str(path), {})


def test_several_decisions_in_one_request_each_have_a_result() -> None:
    async def story(world: World) -> None:
        ids = [(await _pending(world, number + 1, f"c{number}"))["id"] for number in range(3)]
        decisions = [
            {"id": ids[0], "approve": True},
            {"id": ids[1], "approve": False, "why": "no"},
            {"id": "missing", "approve": True},
            {"id": ids[0], "approve": True},
            {"id": ids[2], "approve": True, "arguments": {"amount": "x"}},
        ]
        answer = await world.client.post("/v1/approvals/decisions", {"decisions": decisions}, bearer("cat"))
        results = answer.json()["data"]
        assert [(one["id"], one["status"]) for one in results] == [
            *((ids[0], 200), (ids[1], 200), ("missing", 404), (ids[0], 409), (ids[2], 400))
        ]
        assert results[1]["approval"]["state"] == "denied"
        assert results[3]["error"]["code"] == "approval_decided"
        # One mistake in the form, and nothing is decided.
        wrong = {"decisions": [{"id": ids[2], "approve": False}, {"id": ids[2]}]}
        assert (await world.client.post("/v1/approvals/decisions", wrong, bearer("cat"))).status == 400
        assert (await _get(world, f"/v1/approvals/{ids[2]}"))["state"] == "pending"
        assert (await world.client.post("/v1/approvals/decisions", {"decisions": []}, bearer("cat"))).status == 400
        assert (await world.client.post("/v1/approvals/decisions", wrong, bearer("ann"))).status == 403

    run_story(story, config=CONFIG)


def test_approvals_are_filtered_by_tool_principal_conversation_and_text() -> None:
    async def story(world: World) -> None:
        first = await _pending(world, 11, "a")
        second = await _pending(world, 22, "b", "rob")
        third = (await world.call("pay_slowly", {"amount": 11}, call_id="c")).json()["approval"]

        async def ids(query: str) -> list[str]:
            return [one["id"] for one in (await _get(world, f"/v1/approvals?{query}"))["data"]]

        assert await ids("tool=pay") == [first["id"], second["id"]]
        assert await ids("principal=rob") == [second["id"]]
        assert await ids(f"conversation={third['conversation']}") == [third["id"]]
        assert await ids("text=11") == [first["id"], third["id"]]
        assert await ids("text=SLOW&state=pending") == [third["id"]]
        assert await ids("tool=pay&text=SLOW") == []

    run_story(story, config=CONFIG)


@asynccontextmanager
async def _following(world: World, who: str) -> AsyncGenerator[asyncio.Queue[tuple[str, Any]]]:
    """Follow the events of approvals over a connection that stays open."""
    events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
    disconnected = asyncio.Event()
    incoming = [{"type": "http.request", "body": b"", "more_body": False}]

    async def receive() -> dict[str, Any]:
        if incoming:
            return incoming.pop()
        await disconnected.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        for block in message.get("body", b"").decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
            if lines:
                events.put_nowait((lines["event"], json.loads(lines["data"])))

    path = "/v1/approvals/events"
    headers = {**world.client.headers, **bearer(who)}
    scope = {
        **{"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "scheme": "http"},
        **{"path": path, "raw_path": path.encode(), "root_path": "", "query_string": b""},
        "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
        **{"client": ("127.0.0.1", 40000), "server": ("127.0.0.1", 8000)},
    }
    task = asyncio.ensure_future(world.client.app(scope, receive, send))
    try:
        yield events
    finally:
        disconnected.set()
        await asyncio.wait_for(task, PATIENCE)


async def _until(events: asyncio.Queue[tuple[str, Any]], kind: str) -> Any:
    async with asyncio.timeout(PATIENCE):
        while True:
            name, data = await events.get()
            if name == kind:
                return data


def test_an_approver_follows_approvals_without_using_up_the_rate_of_the_key() -> None:
    async def story(world: World) -> None:
        before = await _pending(world, 3, "a")
        await world.call("pay", {"amount": 9}, "eve", call_id="e")
        # Dan's key allows three requests in a minute. This is the first.
        async with _following(world, "dan") as events:
            assert (await _until(events, "approval.pending"))["id"] == before["id"]
            await _until(events, "approval.synced")
            for number in range(5):
                id = (await _pending(world, number, f"c{number}"))["id"]
                added = await _until(events, "approval.pending")
                assert (added["id"], added["definition"]["is_same"]) == (id, True)
                await world.decide(id, "cat", approve=number % 2 == 0)
                closed = await _until(events, "approval.closed")
                assert (closed["id"], closed["state"]) == (id, "denied" if number % 2 else "approved")
            assert (await world.decide(before["id"], "dan", approve=True)).status == 200
            await _until(events, "approval.closed")

    run_story(story, config=CONFIG)


def test_the_oldest_approvals_are_followed_and_others_when_these_are_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ferrule.server.tools.approval_feed.MAX_FOLLOWED", 2)

    async def story(world: World) -> None:
        ids = [(await _pending(world, 3, f"c{number}"))["id"] for number in range(4)]
        async with _following(world, "dan") as events:
            sent = [(await _until(events, "approval.pending"))["id"] for _ in range(2)]
            assert (sent, (await _until(events, "approval.synced"))["pending"]) == (ids[:2], 2)
            await world.decide(ids[0], "cat", approve=True)
            assert (await _until(events, "approval.closed"))["id"] == ids[0]
            assert (await _until(events, "approval.pending"))["id"] == ids[2]

    run_story(story, config=CONFIG)


def test_the_events_end_when_the_gateway_drains_and_need_the_right_to_approve() -> None:
    async def story(world: World) -> None:
        assert (await world.client.get("/v1/approvals/events", bearer("ann"))).status == 403
        async with _following(world, "cat") as events:
            await _until(events, "approval.synced")
            world.client.gateway.telemetry.drain.begin()

    run_story(story, config=CONFIG)
