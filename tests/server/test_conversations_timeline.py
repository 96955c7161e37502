"""What happened in a conversation, moment by moment, over HTTP."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.event import Usage
from ferrule.core.message import ChatMessage
from ferrule.core.message_json import messages_as_json
from ferrule.core.outcome import Answered
from ferrule.core.reply import Reply
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.reply_record import Replied, Took
from pace import within
from server.keys import bearer
from server.tool_world import World, living

FIELDS = {"at", "seconds", "kind", "title", "call_id", "tool", "approval", "tokens", "bytes", "is_error", "message"}
ROUNDS = 500


async def _shown(world: World, id: str) -> dict[str, Any]:
    answer = await world.client.get(f"/v1/conversations/{id}", bearer("ann"))
    assert answer.status == 200, answer.body
    return answer.json()


async def _newest(world: World) -> str:
    return (await world.client.get("/v1/conversations", bearer("ann"))).json()["data"][0]["id"]


def test_a_chat_with_a_call_is_told_with_times_and_tokens() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "user", "content": "How is Bern?"}]}
        assert (await world.client.post("/v1/chat/completions", body, bearer("ann"))).status == 200
        shown = await _shown(world, await _newest(world))
        told = shown["timeline"]
        assert [one["kind"] for one in told] == ["user", "model", "tool", "model"]
        assert all(set(one) == FIELDS for one in told)
        assert told[1]["tokens"] == {"prompt": 7, "completion": 3}
        assert told[3]["tokens"] is None, "this answer's engine told none"
        assert told[2]["call_id"] == "1.1.0"
        assert all(one["seconds"] >= 0 for one in told[1:])
        assert [one["at"] for one in told] == sorted(one["at"] for one in told)
        assert [one["message"] for one in told] == [0, 1, None, 3]
        said = [shown["messages"][one["message"]]["role"] for one in told if one["message"] is not None]
        assert said == ["user", "assistant", "assistant"]

    call = replace(Reply.of(ToolCall.of("look", {"place": "Bern"}, "k")), usage=Usage(7, 3))
    living(story, replies=[call, "It is quiet in Bern."])


def test_a_call_that_a_person_allowed_names_its_approval() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")).json()
        approval = waiting["approval"]
        await world.decide(approval["id"], approve=True)
        await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")
        leave, ran = (await _shown(world, approval["conversation"]))["timeline"]
        assert (leave["kind"], leave["approval"], leave["title"]) == (
            "approval",
            approval["id"],
            "pay approved by boss",
        )
        assert leave["seconds"] > 0
        assert (ran["kind"], ran["tool"], ran["call_id"], ran["bytes"]) == ("tool", "pay", "c", len("paid 3"))

    living(story)


def test_a_row_that_somebody_spoiled_takes_nothing_else_away(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.call("look", {"place": "x"})
        id = await _newest(world)
        world.execute("UPDATE ferrule_audit SET at = 'soon' WHERE conversation = ? AND seq = 3", id)
        shown = await _shown(world, id)
        assert not shown["audit"]["chain"]["holds"]
        assert shown["calls"][0]["state"] == "done"

    living(story, ledger=str(tmp_path / "ledger.db"))


def test_two_thousand_events_are_told_in_well_under_a_second() -> None:
    async def story(world: World) -> None:
        ledger, ann = world.client.gateway.ledger, Principal("ann", "acme")
        await ledger.open("long", ann, "one", 1e6, now=0)
        messages = [ChatMessage.user("go on")]
        for round in range(1, ROUNDS + 1):
            call = ToolCall.of("look", {"place": f"p{round}"}, f"k{round}")
            messages += [ChatMessage.assistant("", [call]), ChatMessage.tool(call.id, "seen " * 20, "look")]
            claim = Claim("long", f"1.{round}.0", "acme", "ann", "look", "f", canonical_bytes(call.arguments))
            await ledger.note_reply(Replied("long", f"1.{round}", "m", None, Took(0.5, Usage(9, 3), 20)), 1, now=round)
            await ledger.propose(claim, 1, side_effects=False, needs_leave=False, now=round)
            await ledger.start(claim, 1, now=round)
            await ledger.finish("long", claim.call_id, 1, Answered("seen " * 20), now=round + 0.25)
        state = {"version": 1, "messages": messages_as_json(messages), "loop": None}
        await ledger.save("long", 1, state, now=ROUNDS + 1)
        with within(0.8):
            shown = await _shown(world, "long")
        assert len(shown["audit"]["rows"]) >= 4 * ROUNDS
        assert [one["kind"] for one in shown["timeline"]] == ["user", *["model", "tool"] * ROUNDS]

    living(story)
