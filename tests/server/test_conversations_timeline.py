"""The timeline of a conversation over HTTP."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import Principal
from ferrule.core.event import Usage
from ferrule.core.message import ChatMessage, messages_as_json
from ferrule.core.outcome import Answered
from ferrule.core.reply import Reply
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.reply_record import ReplyCost, ReplyRecord
from server.keys import bearer
from server.tool_world import World, run_story

FIELDS = {"at", "seconds", "kind", "title", "call_id", "tool", "approval", "tokens", "bytes", "is_error", "message"}
ROUNDS = 500


async def _get_conversation(world: World, id: str) -> dict[str, Any]:
    answer = await world.client.get(f"/v1/conversations/{id}", bearer("ann"))
    assert answer.status == 200, answer.body
    return answer.json()


async def _newest(world: World) -> str:
    return (await world.client.get("/v1/conversations", bearer("ann"))).json()["data"][0]["id"]


def test_the_timeline_of_a_chat_with_a_call_has_times_and_tokens() -> None:
    async def story(world: World) -> None:
        body = {"messages": [{"role": "user", "content": "How is Bern?"}]}
        assert (await world.client.post("/v1/chat/completions", body, bearer("ann"))).status == 200
        view = await _get_conversation(world, await _newest(world))
        entries = view["timeline"]
        assert [one["kind"] for one in entries] == ["user", "model", "tool", "model"]
        assert all(set(one) == FIELDS for one in entries)
        assert entries[1]["tokens"] == {"prompt": 7, "completion": 3}
        assert entries[3]["tokens"] is None, "this answer's engine told none"
        assert entries[2]["call_id"] == "1.1.0"
        assert all(one["seconds"] >= 0 for one in entries[1:])
        assert [one["at"] for one in entries] == sorted(one["at"] for one in entries)
        assert [one["message"] for one in entries] == [0, 1, None, 3]
        roles = [view["messages"][one["message"]]["role"] for one in entries if one["message"] is not None]
        assert roles == ["user", "assistant", "assistant"]

    call = replace(Reply.of(ToolCall.of("look", {"place": "Bern"}, "k")), usage=Usage(7, 3))
    run_story(story, replies=[call, "It is quiet in Bern."])


def test_a_call_that_a_person_allowed_names_its_approval() -> None:
    async def story(world: World) -> None:
        waiting = (await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")).json()
        approval = waiting["approval"]
        await world.decide(approval["id"], approve=True)
        await world.call("pay", {"amount": 3}, call_id="c", conversation="trip")
        approval_entry, tool_entry = (await _get_conversation(world, approval["conversation"]))["timeline"]
        assert (approval_entry["kind"], approval_entry["approval"], approval_entry["title"]) == (
            "approval",
            approval["id"],
            "pay approved by boss",
        )
        assert approval_entry["seconds"] > 0
        assert (tool_entry["kind"], tool_entry["tool"], tool_entry["call_id"], tool_entry["bytes"]) == (
            "tool",
            "pay",
            "c",
            len("paid 3"),
        )

    run_story(story)


def test_a_damaged_audit_row_hides_nothing_else(tmp_path: Path) -> None:
    async def story(world: World) -> None:
        await world.call("look", {"place": "x"})
        id = await _newest(world)
        world.execute("UPDATE ferrule_audit SET at = 'soon' WHERE conversation = ? AND seq = 3", id)
        view = await _get_conversation(world, id)
        assert not view["audit"]["chain"]["holds"]
        assert view["calls"][0]["state"] == "done"

    run_story(story, ledger=str(tmp_path / "ledger.db"))


def test_ten_times_the_events_are_shown_in_proportion() -> None:
    async def story(world: World) -> None:
        for id, rounds in (("short", ROUNDS // 10), ("long", ROUNDS)):
            await _record(world.client.gateway.ledger, id, rounds)
        spent, view = dict[str, float](), dict[str, Any]()
        # By turns, and the least of each: another program may take the caches for a while.
        for id in ("short", "long") * 3:
            started = time.process_time()
            view = await _get_conversation(world, id)
            spent[id] = min(spent.get(id, math.inf), time.process_time() - started)
        assert len(view["audit"]["rows"]) >= 4 * ROUNDS
        assert [one["kind"] for one in view["timeline"]] == ["user", *["model", "tool"] * ROUNDS]
        # A view that looks at each event for each event costs a hundred times as much.
        assert spent["long"] < 20 * spent["short"], spent

    run_story(story)


async def _record(ledger: Ledger, id: str, rounds: int) -> None:
    """Write a conversation of so many rounds, each with one call."""
    await ledger.open(id, Principal("ann", "acme"), "one", 1e6, now=0)
    messages = [ChatMessage.user("go on")]
    for round in range(1, rounds + 1):
        call = ToolCall.of("look", {"place": f"p{round}"}, f"k{round}")
        messages += [ChatMessage.assistant("", [call]), ChatMessage.tool(call.id, "seen " * 20, "look")]
        claim = Claim(id, f"1.{round}.0", "acme", "ann", "look", "f", canonical_bytes(call.arguments))
        await ledger.record_reply(
            ReplyRecord(id, f"1.{round}", "m", None, ReplyCost(0.5, Usage(9, 3), 20)), 1, now=round
        )
        await ledger.propose(claim, 1, side_effects=False, needs_approval=False, now=round)
        await ledger.start(claim, 1, now=round)
        await ledger.finish(id, claim.call_id, 1, Answered("seen " * 20), now=round + 0.25)
    state = {"version": 1, "messages": messages_as_json(messages), "loop": None}
    await ledger.save(id, 1, state, now=rounds + 1)
