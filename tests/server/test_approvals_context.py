"""The context of an approval, and checking arguments before approving them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ApprovalElicitationHandler
from ferrule.sources.mcp.elicitation import Elicitation
from server.keys import bearer
from server.tool_world import World, run_story


async def _pending_approval(world: World, amount: int = 3, call_id: str = "c") -> str:
    return (await world.call("pay", {"amount": amount}, call_id=call_id)).json()["approval"]["id"]


async def _get_approval(world: World, id: str) -> Any:
    return (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()


async def _check(world: World, id: str, arguments: object, who: str = "boss") -> Any:
    return await world.client.post(f"/v1/approvals/{id}/check", {"arguments": arguments}, bearer(who))


def test_an_approval_is_shown_with_the_tool_as_it_is_now() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        tools = world.client.gateway.tool_catalog.tools
        view = (await _get_approval(world, id))["definition"]
        assert view == {
            "description": "Pays an amount.",
            "shown_description": "Pays an amount.",
            "parameters": tools["pay"].parameters,
            "source": "python",
            "side_effects": True,
            "fingerprint": tools["pay"].fingerprint,
            "is_same": True,
        }
        tools["pay"] = replace(tools["pay"], description="Pays\u202e twice.\ud800")
        changed = (await _get_approval(world, id))["definition"]
        assert changed["is_same"] is False
        assert changed["description"] == "Pays\u202e twice.\ud800"
        assert changed["shown_description"].isprintable()
        assert "\\u202e" in changed["shown_description"]
        del tools["pay"]
        assert (await _get_approval(world, id))["definition"] is None

    run_story(story)


def test_an_approval_is_shown_with_the_last_approval_of_the_tool() -> None:
    async def story(world: World) -> None:
        first = await _pending_approval(world, 1, "c1")
        assert (await _get_approval(world, first))["last"] is None
        view = (await world.decide(first, approve=True, arguments={"amount": 2})).json()
        assert view["last"] is None
        assert view["definition"]["is_same"]
        denied = await _pending_approval(world, 5, "c2")
        await world.decide(denied, approve=False)
        third = await _pending_approval(world, 3, "c3")
        last = (await _get_approval(world, third))["last"]
        assert last.pop("decided_at") == pytest.approx(time.time(), abs=60)
        assert last == {
            "id": first,
            "decided_by": "boss",
            "fingerprint": view["fingerprint"],
            "arguments": '{"amount":2}',
            "is_same_definition": True,
        }
        # Of one that was decided on, the last before it; another tool's is none.
        assert (await _get_approval(world, first))["last"] is None
        assert (await _get_approval(world, denied))["last"]["id"] == first
        slow = (await world.call("pay_slowly", {"amount": 1}, call_id="s")).json()["approval"]["id"]
        assert (await _get_approval(world, slow))["last"] is None
        listed = (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]
        lasts = {one["id"]: one["last"] and one["last"]["id"] for one in listed}
        assert lasts == {first: None, denied: first, third: first, slow: None}

    run_story(story)


def test_the_last_approval_says_whether_it_was_for_another_definition() -> None:
    async def story(world: World) -> None:
        await world.decide(await _pending_approval(world, 1, "c1"), approve=True)
        tools = world.client.gateway.tool_catalog.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        view = await _get_approval(world, await _pending_approval(world, 1, "c2"))
        assert view["last"]["is_same_definition"] is False
        assert view["definition"]["is_same"] is True

    run_story(story)


def test_the_last_approval_is_never_another_tenants() -> None:
    async def story(world: World) -> None:
        theirs = (await world.call("pay", {"amount": 1}, who="eve", call_id="e")).json()["approval"]["id"]
        assert (await world.decide(theirs, who="eve", approve=True)).status == 200
        assert (await _get_approval(world, await _pending_approval(world)))["last"] is None

    run_story(story)


def test_checking_arguments_decides_nothing() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        good = (await _check(world, id, {"amount": 7})).json()
        assert good == {"object": "approval.check", "fits": True, "faults": []}
        wrong = (await _check(world, id, {"amount": "7", "more": 1})).json()
        assert wrong["fits"] is False
        assert sorted(one["path"] for one in wrong["faults"]) == ["", "/amount"]
        assert all(one["message"] for one in wrong["faults"])
        # A number that is JSON, and that no float holds.
        huge = b'{"arguments": {"amount": 1e999}}'
        oversized = (await world.client.post(f"/v1/approvals/{id}/check", huge, bearer("boss"))).json()
        assert (oversized["fits"], oversized["faults"][0]["path"]) == (False, "")
        view = await _get_approval(world, id)
        assert (view["state"], view["arguments"]) == ("pending", '{"amount":3}')

    run_story(story)


@pytest.mark.parametrize("arguments", [{"amount": 1}, {}, {"amount": "3"}, {"amount": 1, "b": 2}, {"amount": 2.5}])
def test_arguments_fit_exactly_when_deciding_would_take_them(arguments: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        fits = (await _check(world, id, arguments)).json()["fits"]
        decision = await world.decide(id, approve=True, arguments=arguments)
        assert (decision.status == 200) is fits

    run_story(story)


def test_what_is_no_object_another_tenants_or_cannot_be_checked_is_refused() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        for odd in ([], "x", 3, None):
            assert (await _check(world, id, odd)).status == 400
        assert (await world.client.post(f"/v1/approvals/{id}/check", {}, bearer("boss"))).status == 400
        assert (await _check(world, id, {}, "ann")).status == 403
        assert (await _check(world, id, {}, "eve")).status == 404
        assert (await _check(world, "never", {})).status == 404
        tools = world.client.gateway.tool_catalog.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        refused = await _check(world, id, {"amount": 1})
        assert (refused.status, refused.json()["error"]["code"]) == (409, "approval_tool_changed")

    run_story(story)


def test_the_answer_to_a_servers_question_is_tried_out_within_its_form() -> None:
    async def story(world: World) -> None:
        form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        elicitation = Elicitation("files", "Really?", form, context=CallContext(principal=Principal("ann", "acme")))
        answering = asyncio.ensure_future(
            ApprovalElicitationHandler(world.client.gateway.ledger, poll_seconds=0.01)(elicitation)
        )
        while not (approvals := (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]):
            await asyncio.sleep(0.01)
        assert (approvals[0]["definition"], approvals[0]["last"]) == (None, None)
        question: Any = loads(approvals[0]["arguments"])
        wrong = (await _check(world, approvals[0]["id"], {**question, "answer": {"sure": 1}})).json()
        assert [one["path"] for one in wrong["faults"]] == ["/answer/sure"]
        other = (await _check(world, approvals[0]["id"], {**question, "message": "Other?", "answer": {}})).json()
        assert "only answer may be changed" in other["faults"][0]["message"]
        good = await _check(world, approvals[0]["id"], {**question, "answer": {"sure": True}})
        assert good.json()["fits"]
        await world.decide(approvals[0]["id"], approve=False)
        await answering

    run_story(story)
