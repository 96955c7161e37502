"""What a person sees beside an approval, and trying out arguments before he says yes to them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ThroughApprovals
from ferrule.sources.mcp.elicitation import Elicitation
from server.keys import bearer
from server.tool_world import World, living


async def _waiting(world: World, amount: int = 3, call_id: str = "c") -> str:
    return (await world.call("pay", {"amount": amount}, call_id=call_id)).json()["approval"]["id"]


async def _shown(world: World, id: str) -> Any:
    return (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()


async def _checked(world: World, id: str, arguments: object, who: str = "boss") -> Any:
    return await world.client.post(f"/v1/approvals/{id}/check", {"arguments": arguments}, bearer(who))


def test_an_approval_is_shown_with_the_tool_as_it_is_now() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        tools = world.client.gateway.toolbox.tools
        told = (await _shown(world, id))["definition"]
        assert told == {
            "description": "Pays an amount.",
            "shown_description": "Pays an amount.",
            "parameters": tools["pay"].parameters,
            "source": "python",
            "side_effects": True,
            "fingerprint": tools["pay"].fingerprint,
            "is_same": True,
        }
        tools["pay"] = replace(tools["pay"], description="Pays\u202e twice.\ud800")
        changed = (await _shown(world, id))["definition"]
        assert changed["is_same"] is False
        assert changed["description"] == "Pays\u202e twice.\ud800"
        assert changed["shown_description"].isprintable()
        assert "\\u202e" in changed["shown_description"]
        del tools["pay"]
        assert (await _shown(world, id))["definition"] is None

    living(story)


def test_an_approval_is_shown_with_the_leave_that_was_given_for_the_tool_last() -> None:
    async def story(world: World) -> None:
        first = await _waiting(world, 1, "c1")
        assert (await _shown(world, first))["last"] is None
        told = (await world.decide(first, approve=True, arguments={"amount": 2})).json()
        assert told["last"] is None
        assert told["definition"]["is_same"]
        denied = await _waiting(world, 5, "c2")
        await world.decide(denied, approve=False)
        third = await _waiting(world, 3, "c3")
        last = (await _shown(world, third))["last"]
        assert last.pop("decided_at") == pytest.approx(time.time(), abs=60)
        assert last == {
            "id": first,
            "decided_by": "boss",
            "fingerprint": told["fingerprint"],
            "arguments": '{"amount":2}',
            "is_same_definition": True,
        }
        # Of one that was decided on, the last before it; another tool's is none.
        assert (await _shown(world, first))["last"] is None
        assert (await _shown(world, denied))["last"]["id"] == first
        slow = (await world.call("pay_slowly", {"amount": 1}, call_id="s")).json()["approval"]["id"]
        assert (await _shown(world, slow))["last"] is None
        listed = (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]
        lasts = {one["id"]: one["last"] and one["last"]["id"] for one in listed}
        assert lasts == {first: None, denied: first, third: first, slow: None}

    living(story)


def test_leave_that_was_given_for_another_definition_says_so() -> None:
    async def story(world: World) -> None:
        await world.decide(await _waiting(world, 1, "c1"), approve=True)
        tools = world.client.gateway.toolbox.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        shown = await _shown(world, await _waiting(world, 1, "c2"))
        assert shown["last"]["is_same_definition"] is False
        assert shown["definition"]["is_same"] is True

    living(story)


def test_another_tenants_leave_is_nobodys_last() -> None:
    async def story(world: World) -> None:
        theirs = (await world.call("pay", {"amount": 1}, who="eve", call_id="e")).json()["approval"]["id"]
        assert (await world.decide(theirs, who="eve", approve=True)).status == 200
        assert (await _shown(world, await _waiting(world)))["last"] is None

    living(story)


def test_arguments_are_tried_out_as_often_as_one_likes_and_decide_nothing() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        good = (await _checked(world, id, {"amount": 7})).json()
        assert good == {"object": "approval.check", "fits": True, "faults": []}
        wrong = (await _checked(world, id, {"amount": "7", "more": 1})).json()
        assert wrong["fits"] is False
        assert sorted(one["path"] for one in wrong["faults"]) == ["", "/amount"]
        assert all(one["message"] for one in wrong["faults"])
        # A number that is JSON, and that no float holds.
        huge = b'{"arguments": {"amount": 1e999}}'
        unkept = (await world.client.post(f"/v1/approvals/{id}/check", huge, bearer("boss"))).json()
        assert (unkept["fits"], unkept["faults"][0]["path"]) == (False, "")
        shown = await _shown(world, id)
        assert (shown["state"], shown["arguments"]) == ("pending", '{"amount":3}')

    living(story)


@pytest.mark.parametrize("arguments", [{"amount": 1}, {}, {"amount": "3"}, {"amount": 1, "b": 2}, {"amount": 2.5}])
def test_arguments_fit_exactly_when_deciding_would_take_them(arguments: dict[str, Any]) -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        fits = (await _checked(world, id, arguments)).json()["fits"]
        decided = await world.decide(id, approve=True, arguments=arguments)
        assert (decided.status == 200) is fits

    living(story)


def test_what_is_no_object_another_tenants_or_cannot_be_checked_is_refused() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        for odd in ([], "x", 3, None):
            assert (await _checked(world, id, odd)).status == 400
        assert (await world.client.post(f"/v1/approvals/{id}/check", {}, bearer("boss"))).status == 400
        assert (await _checked(world, id, {}, "ann")).status == 403
        assert (await _checked(world, id, {}, "eve")).status == 404
        assert (await _checked(world, "never", {})).status == 404
        tools = world.client.gateway.toolbox.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        refused = await _checked(world, id, {"amount": 1})
        assert (refused.status, refused.json()["error"]["code"]) == (409, "approval_tool_changed")

    living(story)


def test_the_answer_to_a_servers_question_is_tried_out_within_its_form() -> None:
    async def story(world: World) -> None:
        form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        asked = Elicitation("files", "Really?", form, context=CallContext(principal=Principal("ann", "acme")))
        answering = asyncio.ensure_future(ThroughApprovals(world.client.gateway.ledger, poll_seconds=0.01)(asked))
        while not (found := (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]):
            await asyncio.sleep(0.01)
        assert (found[0]["definition"], found[0]["last"]) == (None, None)
        question: Any = loads(found[0]["arguments"])
        wrong = (await _checked(world, found[0]["id"], {**question, "answer": {"sure": 1}})).json()
        assert [one["path"] for one in wrong["faults"]] == ["/answer/sure"]
        other = (await _checked(world, found[0]["id"], {**question, "message": "Other?", "answer": {}})).json()
        assert "only answer may be changed" in other["faults"][0]["message"]
        good = await _checked(world, found[0]["id"], {**question, "answer": {"sure": True}})
        assert good.json()["fits"]
        await world.decide(found[0]["id"], approve=False)
        await answering

    living(story)
