"""`/v1/tools`: which tools a key sees, and calls that are validated, approved and run once."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.core.outcome import Answered, NotDelivered, Outcome, Unknown
from ferrule.core.tool import ToolDefinition
from ferrule.run.executor import ToolSettings
from ferrule.server.apis.tools import HOPS, wire_code
from ferrule.sources.functions import Functions
from server.client import gateway_of, scripted_engine
from server.keys import bearer
from server.tool_world import World, run_story, world_of
from waiting import until


def test_a_principal_sees_exactly_the_tools_that_it_may_use() -> None:
    async def story(world: World) -> None:
        for who, names in {"ann": ["fail", "look", "pay", "pay_slowly", "tell", "wait"], "rob": ["look"]}.items():
            body = (await world.client.get("/v1/tools", bearer(who))).json()
            assert [one["name"] for one in body["data"]] == names
        look = (await world.client.get("/v1/tools", bearer("rob"))).json()["data"][0]
        assert look["parameters"]["required"] == ["place"]
        assert (look["source"], look["side_effects"], len(look["fingerprint"])) == ("python", False, 64)

    run_story(story)


def test_notices_are_for_operators() -> None:
    async def story(world: World) -> None:
        # Eve is an admin of another tenant.
        for who in ("ann", "eve"):
            assert (await world.client.get("/v1/tools", bearer(who))).json()["notices"] == []
        assert (await world.client.get("/v1/tools", bearer("boss"))).json()["notices"] == ["gone does not exist"]

    run_story(story, tools=ToolSettings(tools_default_set=("look", "gone")))


def test_a_call_that_reads_is_answered_at_once_with_its_value() -> None:
    async def story(world: World) -> None:
        answer = await world.call("look", {"place": "Zürich"}, call_id="c1", conversation="trip")
        assert answer.status == 200
        body = answer.json()
        assert (body["content"], body["is_error"], body["call_id"]) == ({"place": "Zürich", "seen": True}, False, "c1")
        assert world.contexts[0].conversation == "trip"
        assert world.contexts[0].principal.name == "ann"

    run_story(story)


@pytest.mark.parametrize("arguments", [{}, {"place": 3}, "{", "[]", {"place": 1e999}, '{"place": NaN}', [], "3"])
def test_arguments_that_do_not_fit_are_a_bad_request_and_nothing_runs(arguments: object) -> None:
    async def story(world: World) -> None:
        answer = await world.call("look", arguments)
        assert (answer.status, answer.json()["error"]["code"]) == (400, "bad_request")
        assert not world.done

    run_story(story)


def test_an_unknown_tool_is_a_bad_request_and_a_forbidden_name_is_refused_whether_or_not_it_exists() -> None:
    async def story(world: World) -> None:
        unknown = await world.call("fly")
        assert (unknown.status, unknown.json()["error"]["code"]) == (400, "bad_request")
        refused = [await world.call(name, {"amount": 1}, who="rob") for name in ("pay", "fly")]
        assert {(one.status, one.json()["error"]["code"]) for one in refused} == {(403, "token_scope_insufficient")}
        assert "pay" not in refused[1].json()["error"]["message"]
        assert not world.done

    run_story(story)


def test_the_same_call_twice_runs_once_and_gives_the_same_answer() -> None:
    async def story(world: World) -> None:
        answers = [await world.call("look", {"place": "x"}, call_id="c") for _ in range(3)]
        assert len({one.body for one in answers}) == 1
        assert world.done["look"] == 1
        assert (await world.call("look", {"place": "x"}, call_id="c", conversation="other")).status == 200
        assert (await world.call("look", {"place": "x"}, call_id="c", who="boss")).status == 200
        assert world.done["look"] == 3

    run_story(story)


def test_another_call_under_the_same_id_is_a_conflict() -> None:
    async def story(world: World) -> None:
        await world.call("look", {"place": "x"}, call_id="c")
        for other in (await world.call("look", {"place": "y"}, call_id="c"), await world.call("wait", call_id="c")):
            assert (other.status, other.json()["error"]["code"]) == (409, "call_id_taken")

    run_story(story)


def test_a_call_with_side_effects_waits_for_approval_and_then_runs_once() -> None:
    async def story(world: World) -> None:
        waiting = [await world.call("pay", {"amount": 3}, call_id="c") for _ in range(2)]
        assert [one.status for one in waiting] == [202, 202]
        assert waiting[0].body == waiting[1].body
        approval = waiting[0].json()["approval"]
        assert (approval["state"], approval["shown"]) == ("pending", '{"amount":3}')
        assert waiting[0].headers["location"] == f"/v1/approvals/{approval['id']}"
        assert (await world.decide(approval["id"], approve=True)).json()["state"] == "approved"
        assert not world.done
        done = await asyncio.gather(*(world.call("pay", {"amount": 3}, call_id="c") for _ in range(5)))
        assert {one.status for one in done} <= {200, 409}
        last = await world.call("pay", {"amount": 3}, call_id="c")
        assert (last.status, last.json()["content"]) == (200, "paid 3")
        assert world.done["pay"] == 1

    run_story(story)


def test_a_call_without_an_id_gets_one_for_the_retry() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3})).json()
        await world.decide(waiting["approval"]["id"], approve=True)
        assert (await world.call("pay", {"amount": 3}, call_id=waiting["call_id"])).json()["content"] == "paid 3"
        assert (await world.call("pay", {"amount": 3})).status == 202

    run_story(story)


def test_a_denied_call_says_why_and_never_runs() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3}, call_id="c")).json()
        await world.decide(waiting["approval"]["id"], approve=False, why="not before Monday")
        body = (await world.call("pay", {"amount": 3}, call_id="c")).json()
        assert (body["is_error"], body["code"], body["content"]) == (True, "denied", "denied: not before Monday")
        assert not world.done

    run_story(story)


def test_arguments_that_a_person_changed_are_those_that_run() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 300}, call_id="c")).json()
        await world.decide(waiting["approval"]["id"], approve=True, arguments={"amount": 2})
        body = (await world.call("pay", {"amount": 300}, call_id="c")).json()
        assert (body["content"], body["arguments"]) == ("paid 2", '{"amount": 2}')
        assert (await world.call("pay", {"amount": 300}, call_id="c")).json()["content"] == "paid 2"
        assert world.done["pay"] == 1

    run_story(story)


def test_a_caller_that_disconnects_does_not_stop_a_call_with_side_effects() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay_slowly", {"amount": 3}, call_id="c")).json()
        await world.decide(waiting["approval"]["id"], approve=True)
        leaves = asyncio.Event()
        body = {"name": "pay_slowly", "arguments": {"amount": 3}, "call_id": "c"}
        call = world.client.request("POST", "/v1/tools/call", body, bearer("ann"), leaves)
        request = asyncio.ensure_future(call)
        await world.has_started.wait()
        meanwhile = await world.call("pay_slowly", {"amount": 3}, call_id="c")
        assert (meanwhile.status, meanwhile.json()["error"]["code"]) == (409, "call_running")
        leaves.set()
        await request
        world.gate.set()
        while (answer := await world.call("pay_slowly", {"amount": 3}, call_id="c")).status == 409:
            await asyncio.sleep(0.01)
        assert answer.json()["content"] == "paid 3"
        assert world.done["pay_slowly"] == 1

    run_story(story)


def test_without_required_approval_a_call_runs_at_once_and_still_once() -> None:
    async def story(world: World) -> None:
        answers = [await world.call("pay", {"amount": 1}, call_id="c") for _ in range(2)]
        assert [one.json()["content"] for one in answers] == ["paid 1", "paid 1"]
        assert world.done["pay"] == 1

    run_story(story, tools=ToolSettings(tools_require_confirmation_for_side_effects=False))


def test_a_passed_deadline_starts_nothing_and_one_that_passes_is_a_timeout() -> None:
    async def story(world: World) -> None:
        late = await world.call("look", {"place": "x"}, deadline=time.time() - 1)
        assert (late.status, late.json()["error"]["code"]) == (408, "timeout")
        assert not world.done
        slow = await world.call("wait", deadline=time.time() + 0.2)
        assert (slow.status, slow.json()["error"]["code"]) == (504, "timeout")

    run_story(story)


def test_hops_run_out_and_cannot_be_raised() -> None:
    async def story(world: World) -> None:
        body = {"name": "look", "arguments": {"place": "x"}}
        for hops, remaining in {"1": 0, "3": 2, "99": 5}.items():
            answer = await world.client.post("/v1/tools/call", body, {**bearer("ann"), HOPS: hops})
            assert (answer.status, world.contexts[-1].hops) == (200, remaining)
        none = await world.client.post("/v1/tools/call", body, {**bearer("ann"), HOPS: "0"})
        assert (none.status, none.json()["error"]["code"]) == (429, "budget_exhausted")
        odd = await world.client.post("/v1/tools/call", body, {**bearer("ann"), HOPS: "-1"})
        assert odd.status == 400

    run_story(story)


def test_the_message_of_a_tool_error_is_returned_and_of_other_exceptions_only_the_type() -> None:
    async def story(world: World) -> None:
        body = (await world.call("fail", {"words": "no such place"})).json()
        assert (body["is_error"], body["code"], body["content"]) == (True, "tool_failed", "no such place")
        silent = await world.call("fail", {"words": ""})
        assert silent.json()["is_error"]
        assert b"secret" not in silent.body

    run_story(story)


def test_a_text_of_arguments_is_bounded_like_a_body() -> None:
    async def story(world: World) -> None:
        deep = '{"place": ' + "[" * 5_000 + "]" * 5_000 + "}"
        assert (await world.call("look", deep)).status == 413
        assert (await world.call("look", '{"place": "x"}')).status == 200

    run_story(story)


@pytest.mark.parametrize("deadline", [10**400, -(10**400), 1e300])
def test_no_number_is_too_large_for_a_deadline(deadline: float) -> None:
    async def story(world: World) -> None:
        answer = await world.call("look", {"place": "x"}, deadline=deadline)
        assert answer.status == (200 if deadline > 0 else 408)

    run_story(story)


@pytest.mark.parametrize("call_id", ["", "a\nb", "x" * 201, 3, "\x00"])
def test_an_id_that_no_ledger_keeps_is_a_bad_request(call_id: object) -> None:
    async def story(world: World) -> None:
        assert (await world.call("look", {"place": "x"}, call_id=call_id)).status == 400

    run_story(story)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("ab"), st.integers(0, 1)), max_size=8))
def test_however_calls_are_repeated_each_runs_once(calls: list[tuple[str, str, int]]) -> None:
    async def story(world: World) -> None:
        first: dict[tuple[str, str], int] = {}
        for id, conversation, amount in calls:
            body = {"name": "pay", "arguments": {"amount": amount}, "call_id": id, "conversation": conversation}
            expected = first.setdefault((id, conversation), amount)
            answer = await world.client.post("/v1/tools/call", body, bearer("ann"))
            assert answer.status == (200 if expected == amount else 409)
        assert world.done["pay"] == len(first)

    async def told() -> None:
        free = ToolSettings(tools_require_confirmation_for_side_effects=False)
        async with world_of(tools=free) as world:
            await story(world)

    asyncio.run(told())


@pytest.mark.parametrize(
    "outcome, code",
    [
        (Answered("x"), ""),
        (Answered("x", is_error=True, code="tool_failed"), ""),
        (Answered("x", is_error=True, code="timeout"), "timeout"),
        (NotDelivered("x"), "internal_error"),
        (NotDelivered("x", code="bad_request"), "bad_request"),
        (Unknown("x", code="timeout"), "timeout"),
        (Unknown("x"), "internal_error"),
    ],
)
def test_every_outcome_has_one_of_the_four_error_codes_or_is_an_answer(outcome: Outcome, code: str) -> None:
    assert wire_code(outcome) == code


@pytest.mark.parametrize("call_id", ["", "order-1"])
def test_a_call_that_finds_no_free_thread_is_refused_with_a_retryable_code(call_id: str) -> None:
    opened = threading.Event()

    def hang() -> None:
        """Hangs."""
        opened.wait()

    async def scenario() -> None:
        async with gateway_of(scripted_engine(), sources=[Functions([hang], threads=1)]) as client:
            body = {"name": "hang", "arguments": {}}
            first = await client.post("/v1/tools/call", {**body, "deadline": time.time() + 0.2})
            assert first.json()["error"]["code"] == "timeout"
            refused = await client.post("/v1/tools/call", {**body, **({"call_id": call_id} if call_id else {})})
            assert (refused.status, refused.headers["retry-after"]) == (503, "1")
            assert refused.json()["error"]["code"] == "tool_busy"
            assert refused.json()["outcome"] == "not_delivered"
            # With the same call_id a client may get the recorded refusal again, so that it should not retry by itself.
            assert refused.headers["x-should-retry"] == ("false" if call_id else "true")
            opened.set()
            await until(lambda: not client.gateway.tool_catalog.source.loads)
            # A refusal by a tool that hangs is not recorded.
            assert (await client.post("/v1/tools/call", {**body, "call_id": call_id or "other"})).status == 200

    asyncio.run(scenario())


def test_a_search_lists_the_best_tools_that_the_key_may_use() -> None:
    async def story(world: World) -> None:
        body = (await world.client.get("/v1/tools?text=pays+an+amount", bearer("ann"))).json()
        assert body["data"][0]["name"] == "pay"
        assert body["data"][0]["score"] > 0
        assert (await world.client.get("/v1/tools?text=pays+an+amount", bearer("rob"))).json()["data"] == []
        limited = (await world.client.get("/v1/tools?text=pays&limit=1", bearer("ann"))).json()
        assert len(limited["data"]) == 1

    run_story(story)


@pytest.mark.parametrize("query", ["text=pay&limit=0", "text=pay&limit=x", f"text={'x' * 2000}"])
def test_an_invalid_search_is_refused(query: str) -> None:
    async def story(world: World) -> None:
        assert (await world.client.get(f"/v1/tools?{query}", bearer("ann"))).status == 400

    run_story(story)


def test_a_tool_that_was_added_is_found_at_once() -> None:
    async def story(world: World) -> None:
        assert (await world.client.get("/v1/tools?text=sheep", bearer("ann"))).json()["data"] == []
        catalog = world.client.gateway.tool_catalog
        catalog.tools = {**catalog.tools, "count_sheep": ToolDefinition("count_sheep", "Counts sheep.")}
        body = (await world.client.get("/v1/tools?text=sheep", bearer("ann"))).json()
        assert [one["name"] for one in body["data"]] == ["count_sheep"]

    run_story(story)
