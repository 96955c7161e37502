"""`/v1/conversations`: who sees which conversation, and that a changed record is reported."""

from __future__ import annotations

from pathlib import Path

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from server.keys import bearer
from server.tool_world import World, run_story


async def _list_conversations(world: World, who: str, query: str = "") -> list[str]:
    answer = await world.client.get(f"/v1/conversations{query}", bearer(who))
    assert answer.status == 200, answer.body
    return [one["id"] for one in answer.json()["data"]]


async def _call_tool(world: World, place: str, who: str = "ann") -> str:
    """The conversation in the ledger that a call was written into."""
    before = await _list_conversations(world, who)
    await world.call("look", {"place": place}, who=who)
    return next(id for id in await _list_conversations(world, who) if id not in before)


def test_a_principal_sees_its_own_conversations_and_an_admin_the_tenants() -> None:
    async def story(world: World) -> None:
        anns, robs, eves = [await _call_tool(world, "x", who) for who in ("ann", "rob", "eve")]
        assert await _list_conversations(world, "ann") == [anns]
        assert await _list_conversations(world, "boss") == [robs, anns]
        assert await _list_conversations(world, "boss", "?principal=rob") == [robs]
        assert await _list_conversations(world, "rob", "?principal=ann") == [robs]
        statuses = {
            who: [(await world.client.get(f"/v1/conversations/{id}", bearer(who))).status for id in (anns, robs, eves)]
            for who in ("ann", "rob", "boss", "eve")
        }
        assert statuses == {
            "ann": [200, 404, 404],
            "rob": [404, 200, 404],
            "boss": [200, 200, 404],
            "eve": [404, 404, 200],
        }

    run_story(story)


def test_pages_go_back_in_time() -> None:
    async def story(world: World) -> None:
        ids = [await _call_tool(world, f"p{number}") for number in range(4)]
        newest = list(reversed(ids))
        first = (await world.client.get("/v1/conversations?limit=3", bearer("ann"))).json()
        assert ([one["id"] for one in first["data"]], first["has_more"]) == (newest[:3], True)
        assert await _list_conversations(world, "ann", f"?limit=3&after={newest[2]}") == newest[3:]
        for query in ("?limit=0", "?limit=101", "?after=never", "?text=%00", f"?text={'x' * 1001}"):
            assert (await world.client.get(f"/v1/conversations{query}", bearer("ann"))).status == 400

    run_story(story)


def test_a_call_is_shown_with_its_state_its_approval_and_an_audit_that_holds() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")).json()
        id = waiting["approval"]["conversation"]
        path = f"/v1/conversations/{id}"
        before = (await world.client.get(path, bearer("ann"))).json()
        assert [(one["id"], one["state"]) for one in before["calls"]] == [("c", "awaiting_approval")]
        await world.decide(waiting["approval"]["id"], approve=True)
        await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")
        body = (await world.client.get(path, bearer("ann"))).json()
        assert body["within"] == "trip"
        assert body["calls"][0]["state"] == "done"
        assert body["calls"][0]["outcome"]["content"] == "paid 3"
        assert [(one["state"], one["decided_by"]) for one in body["approvals"]] == [("redeemed", "boss")]
        kinds = [row["kind"] for row in body["audit"]["rows"]]
        steps = ("opened", "proposed", "awaiting_approval", "approved", "started", "done")
        assert [kind for kind in kinds if kind in steps] == list(steps)
        assert body["audit"]["chain"] == {"holds": True, "breach": ""}
        assert await _list_conversations(world, "ann", "?tool=pay") == [id]
        assert await _list_conversations(world, "ann", "?tool=look") == []

    run_story(story)


def test_a_chat_is_shown_with_its_messages_and_found_by_their_text() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "user", "content": "How is Bern?"}]}
        assert (await world.client.post("/v1/chat/completions", body, bearer("ann"))).status == 200
        (id,) = await _list_conversations(world, "ann", "?text=quiet+in+bern")
        view = (await world.client.get(f"/v1/conversations/{id}", bearer("ann"))).json()
        assert [one["role"] for one in view["messages"]] == ["user", "assistant", "tool", "assistant"]
        assert not view["is_unfinished"]
        assert await _list_conversations(world, "ann", "?text=loud") == []

    run_story(story, replies=[Reply.of(ToolCall.of("look", {"place": "Bern"}, "k")), "It is quiet in Bern."])


def test_the_title_is_the_first_user_message_or_the_called_tool() -> None:
    async def story(world: World) -> None:
        call = await _call_tool(world, "x")
        messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "How is\nBern?\u202e"}]
        assert (await world.client.post("/v1/chat/completions", {"messages": messages}, bearer("ann"))).status == 200
        body = (await world.client.get("/v1/conversations", bearer("ann"))).json()["data"]
        assert [one["title"] for one in body] == ["How is Bern?\\u202e", "look"]
        assert body[1]["id"] == call
        for line in body:
            detail = (await world.client.get(f"/v1/conversations/{line['id']}", bearer("ann"))).json()
            assert {key: detail[key] for key in line} == {**line, "is_held": detail["is_held"]}

    run_story(story)


def test_a_changed_audit_row_is_reported(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        id = await _call_tool(world, "x")
        world.execute("UPDATE ferrule_audit SET decided_by = 'x' WHERE conversation = ? AND seq = 2", id)
        chain = (await world.client.get(f"/v1/conversations/{id}", bearer("ann"))).json()["audit"]["chain"]
        assert chain == {"holds": False, "breach": f"row 2 of {id!r} was changed"}

    run_story(story, ledger=str(tmp_path / "ledger.db"))


def test_unknown_ids_are_not_found() -> None:
    async def story(world: World) -> None:
        for id in ("never", "%00", "..", "%2e%2e", "a%2Fb"):
            assert (await world.client.get(f"/v1/conversations/{id}", bearer("ann"))).status == 404
        assert (await world.client.get("/v1/conversations")).status == 401

    run_story(story)
