"""Leave over HTTP: who sees what waits, what exactly it is, and deciding on it once."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import CallContext, Principal
from ferrule.core.json_text import loads
from ferrule.run.elicitation import ThroughApprovals
from ferrule.sources.mcp_elicit import ElicitAnswer, Elicitation
from server.keys import bearer
from server.tool_world import World, living


async def _waiting(world: World, amount: int = 3, call_id: str = "c") -> str:
    return (await world.call("pay", {"amount": amount}, call_id=call_id)).json()["approval"]["id"]


def test_approvals_are_listed_oldest_first_by_state_and_in_pages() -> None:
    async def story(world: World) -> None:
        ids = [await _waiting(world, call_id=f"c{number}") for number in range(3)]
        await world.decide(ids[1], approve=False)

        async def listed(query: str = "") -> tuple[list[str], bool]:
            told = (await world.client.get(f"/v1/approvals{query}", bearer("boss"))).json()
            return [one["id"] for one in told["data"]], told["has_more"]

        assert await listed() == (ids, False)
        assert await listed("?state=pending") == ([ids[0], ids[2]], False)
        assert await listed("?state=denied") == ([ids[1]], False)
        assert await listed("?limit=2") == (ids[:2], True)
        assert await listed(f"?limit=2&after={ids[1]}") == (ids[2:], False)
        for query in ("?state=odd", "?limit=0", "?limit=x", "?limit=201", "?after=never"):
            assert (await world.client.get(f"/v1/approvals{query}", bearer("boss"))).status == 400

    living(story)


def test_only_who_may_give_leave_comes_in_and_another_tenants_is_not_there() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        for ask in (
            world.client.get("/v1/approvals", bearer("ann")),
            world.client.get(f"/v1/approvals/{id}", bearer("ann")),
            world.decide(id, who="ann", approve=True),
        ):
            assert (await ask).status == 403
        assert (await world.client.get("/v1/approvals", bearer("eve"))).json()["data"] == []
        for ask in (world.client.get(f"/v1/approvals/{id}", bearer("eve")), world.decide(id, who="eve", approve=True)):
            refused = await ask
            assert (refused.status, refused.json()["error"]["code"]) == (404, "approval_unknown")
        assert (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()["state"] == "pending"
        assert (await world.client.get("/v1/approvals/%00", bearer("boss"))).status == 404

    living(story)


def test_what_is_shown_hides_no_character() -> None:
    async def story(world: World) -> None:
        hidden = "pay 1\u202e\u200b\x1b[2J\n\u00a0"
        answer = await world.call("pay", {"amount": 1, "note": hidden}, call_id="c")
        assert answer.status == 400
        config = world.client.gateway
        tool = config.toolbox.tools["pay"]
        open_end = {**tool.parameters, "additionalProperties": True}
        config.toolbox.tools["pay"] = replace(tool, parameters=open_end)
        told = (await world.call("pay", {"amount": 1, "note": hidden}, call_id="c")).json()["approval"]
        assert told["shown"].isprintable()
        assert "\\u202e" in told["shown"]
        assert loads(told["arguments"]) == {"amount": 1, "note": hidden}

    living(story)


def test_a_decision_is_made_once() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        answers = await asyncio.gather(*(world.decide(id, approve=bool(number % 2)) for number in range(6)))
        assert sorted(one.status for one in answers) == [200, *[409] * 5]
        assert (await world.decide(id, approve=True)).json()["error"]["code"] == "approval_decided"

    living(story)


def test_one_that_has_run_out_is_a_conflict_and_is_asked_for_anew(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        ledger = world.client.gateway.ledger
        world.execute("UPDATE ferrule_approval SET expires_at = 1 WHERE id = ?", id)
        refused = await world.decide(id, approve=True)
        assert (refused.status, refused.json()["error"]["code"]) == (409, "approval_expired")
        assert (await world.client.get("/v1/approvals?state=expired", bearer("boss"))).json()["data"][0]["id"] == id
        again = await _waiting(world)
        assert again != id
        assert (await world.decide(again, approve=True)).status == 200
        assert await ledger.verify() is None

    living(story, ledger=str(tmp_path / "ledger.db"))


@pytest.mark.parametrize("arguments", [{}, {"amount": "3"}, {"amount": 1e999}, {"amount": 1, "b": 2}, [], "x", 3])
def test_changed_arguments_that_do_not_fit_the_tool_are_refused_and_nothing_is_decided(arguments: object) -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        assert (await world.decide(id, approve=True, arguments=arguments)).status == 400
        assert (await world.client.get(f"/v1/approvals/{id}", bearer("boss"))).json()["state"] == "pending"

    living(story)


def test_arguments_with_a_no_and_words_that_are_none_are_refused() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        words: tuple[dict[str, Any], ...] = (
            {"approve": False, "arguments": {"amount": 1}},
            {"approve": "yes"},
            {},
            {"approve": None},
        )
        for word in words:
            assert (await world.decide(id, **word)).status == 400
        assert (await world.decide(id, approve=False, why="\x00\ud800 odd")).status == 200

    living(story)


def test_a_tool_that_has_changed_takes_no_changed_arguments_and_its_old_leave_runs_nothing() -> None:
    async def story(world: World) -> None:
        id = await _waiting(world)
        tools = world.client.gateway.toolbox.tools
        tools["pay"] = replace(tools["pay"], description="Pays twice.")
        refused = await world.decide(id, approve=True, arguments={"amount": 1})
        assert (refused.status, refused.json()["error"]["code"]) == (409, "approval_tool_changed")
        assert (await world.decide(id, approve=True)).status == 200
        told = (await world.call("pay", {"amount": 3}, call_id="c")).json()
        assert (told["is_error"], told["code"]) == (True, "approval_tool_changed")
        assert not world.done

    living(story)


def test_what_an_mcp_server_asks_is_answered_within_its_form() -> None:
    async def story(world: World) -> None:
        form = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}
        asked = Elicitation("files", "Really?", form, context=CallContext(principal=Principal("ann", "acme")))
        answering = asyncio.ensure_future(ThroughApprovals(world.client.gateway.ledger, poll_seconds=0.01)(asked))
        while not (found := (await world.client.get("/v1/approvals", bearer("boss"))).json()["data"]):
            await asyncio.sleep(0.01)
        question = loads(found[0]["arguments"])
        assert isinstance(question, dict)
        for wrong in ({"sure": 1}, {}, None):
            assert (
                await world.decide(found[0]["id"], approve=True, arguments={**question, "answer": wrong})
            ).status == 400
        other = {**question, "message": "Something else?", "answer": {"sure": True}}
        assert (await world.decide(found[0]["id"], approve=True, arguments=other)).status == 400
        given = {**question, "answer": {"sure": True}}
        assert (await world.decide(found[0]["id"], approve=True, arguments=given)).status == 200
        assert await answering == ElicitAnswer("accept", {"sure": True})

    living(story)
