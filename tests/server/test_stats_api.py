"""`/v1/stats`: who sees which figures, and what they count."""

from __future__ import annotations

from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from server.keys import bearer
from server.test_openapi import fits
from server.tool_world import World, run_story

ASKED = {"messages": [{"role": "user", "content": "How is Bern?"}], "model": "whatever-the-client-calls-it"}
LOOKS = Reply.of(ToolCall.of("look", {"place": "Bern"}, "k"))


async def _get_stats(world: World, who: str, query: str = "") -> Any:
    answer = await world.client.get(f"/v1/stats{query}", bearer(who))
    assert answer.status == 200, answer.body
    fits("ToolStatsPage", answer.json())
    return answer.json()


async def _picked_counts(world: World, who: str, query: str = "") -> dict[str, int]:
    return {one["tool"]: one["picked"] for one in (await _get_stats(world, who, query))["data"]}


def test_a_principal_sees_its_own_figures_and_an_admin_the_tenants() -> None:
    async def story(world: World) -> None:
        for who in ("ann", "rob", "eve"):
            assert (await world.client.post("/v1/chat/completions", ASKED, bearer(who))).status == 200
        assert (await _picked_counts(world, "ann"))["look"] == 1
        assert await _picked_counts(world, "rob") == {"look": 1}, "rob was never offered another tool and sees none"
        assert (await _picked_counts(world, "boss"))["look"] == 2
        assert await _picked_counts(world, "boss", "?principal=rob") == {"look": 1}
        assert await _picked_counts(world, "rob", "?principal=ann") == {"look": 1}
        assert (await _picked_counts(world, "eve"))["look"] == 1
        assert (await world.client.get("/v1/stats")).status == 401

    run_story(story, replies=[LOOKS, "Quiet."] * 3)


def test_a_line_is_of_one_model_as_it_is_configured_and_one_definition_as_it_is_listed() -> None:
    async def story(world: World) -> None:
        await world.client.post("/v1/chat/completions", ASKED, bearer("ann"))
        (line,) = (await _get_stats(world, "ann", "?tool=look"))["data"]
        tools = (await world.client.get("/v1/tools", bearer("ann"))).json()["data"]
        (listed,) = [one for one in tools if one["name"] == "look"]
        assert (line["fingerprint"], line["description"]) == (listed["fingerprint"], listed["description"])
        assert line["model"] == next(iter(world.client.gateway.router.models))
        assert (line["offered"], line["picked"], line["wrong"], line["wrong_share"]) == (2, 1, 0, 0.0)
        assert line["first_at"] <= line["last_at"]

    run_story(story, replies=[LOOKS, "Quiet."])


def test_a_summary_has_one_line_for_each_tool_of_the_principal() -> None:
    async def story(world: World) -> None:
        for who in ("ann", "rob", "eve"):
            assert (await world.client.post("/v1/chat/completions", ASKED, bearer(who))).status == 200

        async def summary(who: str, query: str = "") -> dict[str, Any]:
            answer = await world.client.get(f"/v1/stats/tools{query}", bearer(who))
            assert answer.status == 200, answer.body
            fits("ToolSummaryPage", answer.json())
            return {one["tool"]: one for one in answer.json()["data"]}

        ann, rob, boss = await summary("ann"), await summary("rob"), await summary("boss")
        assert (ann["look"]["loaded"], ann["look"]["called"], ann["look"]["failed"]) == (2, 1, 0)
        assert ann["look"]["seconds_p50"] >= 0
        assert ann["look"]["definition_tokens"] > 0
        assert ann["pay"]["seconds_p50"] is None
        assert rob.keys() == {"look"}, "rob was never offered another tool and sees none"
        assert boss["look"]["called"] == 2
        assert (await summary("boss", "?principal=rob"))["look"]["called"] == 1
        assert (await summary("rob", "?principal=ann"))["look"]["called"] == 1
        assert await summary("ann", "?since=1e12") == {}
        page = (await world.client.get("/v1/stats/tools?limit=1", bearer("ann"))).json()
        assert ([one["tool"] for one in page["data"]], page["has_more"]) == (["look"], True)
        assert (await world.client.get("/v1/stats/tools?limit=0", bearer("ann"))).status == 400

    run_story(story, replies=[LOOKS, "Quiet."] * 3)


def test_invented_tool_names_are_shown_with_the_nearest_tool() -> None:
    async def story(world: World) -> None:
        await world.client.post("/v1/chat/completions", ASKED, bearer("ann"))
        body = await _get_stats(world, "ann")
        assert [(one["wrote"], one["tool"], one["count"]) for one in body["misnamed"]] == [("look_at", "look", 1)]
        assert {one["tool"]: one["missed"] for one in body["data"]}["look"] == 1

    run_story(story, replies=[Reply.of(ToolCall.of("look_at", {}, "k")), "Sorry."])


def test_pages_start_with_the_most_used_and_since_excludes_earlier_calls() -> None:
    async def story(world: World) -> None:
        await world.client.post("/v1/chat/completions", ASKED, bearer("ann"))
        first = await _get_stats(world, "ann", "?limit=1")
        assert ([one["tool"] for one in first["data"]], first["has_more"]) == (["look"], True)
        assert (await _get_stats(world, "ann", "?since=1e12"))["data"] == []
        assert await _picked_counts(world, "ann", "?since=0.5") == await _picked_counts(world, "ann")

    run_story(story, replies=[LOOKS, "Quiet."])


@pytest.mark.parametrize(
    "query", ["since=-1", "since=now", "since=inf", "since=1_0", "limit=0", "tool=%00", f"tool={'x' * 257}"]
)
def test_invalid_queries_are_refused(query: str) -> None:
    async def story(world: World) -> None:
        assert (await world.client.get(f"/v1/stats?{query}", bearer("boss"))).status == 400

    run_story(story)
