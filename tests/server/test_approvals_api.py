"""`/v1/approvals`: who sees an approval, what it shows, and that it is decided once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ApprovalElicitationHandler
from ferrule.sources.mcp.elicitation import ElicitAnswer, Elicitation
from server.keys import bearer
from server.tool_world import World, run_story


async def _pending_approval(world: World, amount: int = 3, call_id: str = "c") -> str:
    return (await world.call("pay", {"amount": amount}, call_id=call_id)).json()["approval"]["id"]


async def _list_approvals(world: World, query: str = "") -> tuple[list[str], bool]:
    body = (await world.client.get(f"/v1/approvals{query}", bearer("boss"))).json()
    return [one["id"] for one in body["data"]], body["has_more"]


def test_approvals_are_listed_oldest_first_by_state_and_in_pages() -> None:
    async def story(world: World) -> None:
        ids = [await _pending_approval(world, call_id=f"c{number}") for number in range(3)]
        await world.decide(ids[1], approve=False)

        assert await _list_approvals(world) == (ids, False)
        assert await _list_approvals(world, "?state=pending") == ([ids[0], ids[2]], False)
        assert await _list_approvals(world, "?state=denied") == ([ids[1]], False)
        assert await _list_approvals(world, "?limit=2") == (ids[:2], True)
        assert await _list_approvals(world, f"?limit=2&after={ids[1]}") == (ids[2:], False)
        for query in ("?state=odd", "?order=odd", "?order=", "?limit=0", "?limit=x", "?limit=201", "?after=never"):
            assert (await world.client.get(f"/v1/approvals{query}", bearer("boss"))).status == 400

    run_story(story)


def test_approvals_are_listed_newest_first_on_request_and_paged_in_that_order() -> None:
    async def story(world: World) -> None:
        ids = [await _pending_approval(world, call_id=f"c{number}") for number in range(5)]
        newest = ids[::-1]
        assert await _list_approvals(world, "?order=asc") == (ids, False)
        assert await _list_approvals(world, "?order=desc") == (newest, False)
        approvals: list[str] = []
        has_more = True
        while has_more:
            after = f"&after={approvals[-1]}" if approvals else ""
            page, has_more = await _list_approvals(world, f"?order=desc&limit=2{after}")
            approvals += page
        assert approvals == newest
        await world.decide(ids[1], approve=False)
        assert await _list_approvals(world, "?order=desc&state=pending&limit=3") == ([ids[4], ids[3], ids[2]], True)
        assert await _list_approvals(world, f"?order=desc&state=pending&after={ids[2]}") == ([ids[0]], False)

    run_story(story)


def test_a_client_that_sends_no_limit_gets_a_page_and_the_next_one_begins_where_it_ended() -> None:
    async def story(world: World) -> None:
        ids = [await _pending_approval(world, call_id=f"c{number}") for number in range(53)]
        page, has_more = await _list_approvals(world, "?state=pending")
        assert (page, has_more) == (ids[:50], True)
        # The last one of the page is no longer pending when the next page is read.
        await world.decide(ids[49], approve=True)
        assert await _list_approvals(world, f"?state=pending&after={ids[49]}") == (ids[50:], False)
        assert await _list_approvals(world, "?text=pay&limit=52") == (ids[:52], True)
        assert await _list_approvals(world, "?text=nothing") == ([], False)
        for query in ("?tool=%00", "?text=%00", "?after=%00", "?conversation=%00"):
            assert (await world.client.get(f"/v1/approvals{query}", bearer("boss"))).status == 400
        assert (await world.client.get(f"/v1/approvals?after={ids[0]}", bearer("eve"))).status == 400

    run_story(story)


def test_decided_lists_every_approval_that_a_person_approved_or_denied(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        names = ("waits", "ran_out", "denied", "approved", "used", "ran_out_unused", "asked_anew", "asked_anew_unused")
        ids = {name: await _pending_approval(world, call_id=name) for name in names}
        for name in ("approved", "used", "ran_out_unused", "asked_anew_unused"):
            await world.decide(ids[name], approve=True)
        await world.decide(ids["denied"], approve=False)
        assert (await world.call("pay", {"amount": 3}, call_id="used")).status == 200
        for name in ("ran_out", "ran_out_unused", "asked_anew", "asked_anew_unused"):
            world.execute("UPDATE ferrule_approval SET expires_at = 1 WHERE id = ?", ids[name])
        again = [await _pending_approval(world, call_id=name) for name in ("asked_anew", "asked_anew_unused")]
        body = (await world.client.get("/v1/approvals?state=decided", bearer("boss"))).json()["data"]
        assert [(one["id"], one["state"]) for one in body] == [
            (ids["denied"], "denied"),
            (ids["approved"], "approved"),
            (ids["used"], "redeemed"),
            (ids["ran_out_unused"], "expired"),
            (ids["asked_anew_unused"], "replaced"),
        ]
        assert all(one["decided_by"] == "boss" for one in body)
        newest, _ = await _list_approvals(world, "?state=decided&order=desc&limit=2")
        assert newest == [ids["asked_anew_unused"], ids["ran_out_unused"]]
        assert await _list_approvals(world, "?state=pending") == ([ids["waits"], *again], False)
        assert await _list_approvals(world, "?state=expired") == ([ids["ran_out"], ids["ran_out_unused"]], False)

    run_story(story, ledger=str(tmp_path / "ledger.db"))


def test_only_approvers_are_admitted_and_approvals_of_other_tenants_are_missing() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        for ask in (
            world.client.get("/v1/approvals", bearer("ann")),
            world.client.get(f"/v1/approvals/{id}", bearer("ann")),
            world.decide(id, who="ann", approve=True),
        ):
            assert (await ask).status == 403
        assert (await world.client.get("/v1/approvals", bearer("eve"))).json()["data"] == []
        for ask in (world.client.get(f"/v1/approvals/{id}", bearer("eve")), world.decide(id, who="eve", approve=True)):
            refusal = await ask
            assert (refusal.status, refusal.json()["error"]["code"]) == (404, "approval_unknown")
        assert (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()["state"] == "pending"
        assert (await world.client.get("/v1/approvals/%00", bearer("boss"))).status == 404

    run_story(story)


def test_shown_arguments_have_no_hidden_characters() -> None:
    async def story(world: World) -> None:
        hidden = "pay 1\u202e\u200b\x1b[2J\n\u00a0"
        answer = await world.call("pay", {"amount": 1, "note": hidden}, call_id="c")
        assert answer.status == 400
        config = world.client.gateway
        tool = config.tool_catalog.tools["pay"]
        open_end = {**tool.parameters, "additionalProperties": True}
        config.tool_catalog.tools = {**config.tool_catalog.tools, "pay": replace(tool, parameters=open_end)}
        body = (await world.call("pay", {"amount": 1, "note": hidden}, call_id="c")).json()["approval"]
        assert body["shown"].isprintable()
        assert "\\u202e" in body["shown"]
        assert loads(body["arguments"]) == {"amount": 1, "note": hidden}

    run_story(story)


def test_a_decision_is_made_once() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        answers = await asyncio.gather(*(world.decide(id, approve=bool(number % 2)) for number in range(6)))
        assert sorted(one.status for one in answers) == [200, *[409] * 5]
        assert (await world.decide(id, approve=True)).json()["error"]["code"] == "approval_decided"

    run_story(story)


def test_an_expired_approval_is_a_conflict_and_is_requested_again(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        ledger = world.client.gateway.ledger
        world.execute("UPDATE ferrule_approval SET expires_at = 1 WHERE id = ?", id)
        refusal = await world.decide(id, approve=True)
        assert (refusal.status, refusal.json()["error"]["code"]) == (409, "approval_expired")
        assert (await world.client.get("/v1/approvals?state=expired", bearer("boss"))).json()["data"][0]["id"] == id
        again = await _pending_approval(world)
        assert again != id
        assert (await world.decide(again, approve=True)).status == 200
        assert await ledger.verify() is None

    run_story(story, ledger=str(tmp_path / "ledger.db"))


@pytest.mark.parametrize("arguments", [{}, {"amount": "3"}, {"amount": 1e999}, {"amount": 1, "b": 2}, [], "x", 3])
def test_changed_arguments_that_do_not_fit_the_tool_are_refused_and_nothing_is_decided(arguments: object) -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        assert (await world.decide(id, approve=True, arguments=arguments)).status == 400
        assert (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()["state"] == "pending"

    run_story(story)


def test_arguments_with_a_denial_and_invalid_decisions_are_refused() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        words: tuple[dict[str, Any], ...] = (
            {"approve": False, "arguments": {"amount": 1}},
            {"approve": "yes"},
            {},
            {"approve": None},
        )
        for word in words:
            assert (await world.decide(id, **word)).status == 400
        assert (await world.decide(id, approve=False, why="\x00\ud800 odd")).status == 200

    run_story(story)


def test_a_changed_tool_takes_no_changed_arguments_and_its_old_approval_runs_nothing() -> None:
    async def story(world: World) -> None:
        id = await _pending_approval(world)
        other = (await world.call("pay", {"amount": 4}, call_id="d")).json()["approval"]["id"]
        assert (await world.decide(id, approve=True)).status == 200
        tools = world.client.gateway.tool_catalog.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        refusal = await world.decide(other, approve=True, arguments={"amount": 1})
        assert (refusal.status, refusal.json()["error"]["code"]) == (409, "approval_tool_changed")
        body = (await world.call("pay", {"amount": 3}, call_id="c")).json()
        assert (body["is_error"], body["code"]) == (True, "approval_tool_changed")
        assert not world.done

    run_story(story)


def test_what_an_mcp_server_asks_is_answered_within_its_form() -> None:
    async def story(world: World) -> None:
        form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        elicitation = Elicitation("files", "Really?", form, context=CallContext(principal=Principal("ann", "acme")))
        answering = asyncio.ensure_future(
            ApprovalElicitationHandler(world.client.gateway.ledger, poll_seconds=0.01)(elicitation)
        )
        while not (approvals := (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]):
            await asyncio.sleep(0.01)
        question = loads(approvals[0]["arguments"])
        assert isinstance(question, dict)
        for wrong in ({"sure": 1}, {}, None):
            assert (
                await world.decide(approvals[0]["id"], approve=True, arguments={**question, "answer": wrong})
            ).status == 400
        other = {**question, "message": "Something else?", "answer": {"sure": True}}
        assert (await world.decide(approvals[0]["id"], approve=True, arguments=other)).status == 400
        answer = {**question, "answer": {"sure": True}}
        assert (await world.decide(approvals[0]["id"], approve=True, arguments=answer)).status == 200
        assert await answering == ElicitAnswer("accept", {"sure": True})

    run_story(story)
