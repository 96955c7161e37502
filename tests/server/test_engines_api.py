"""`/v1/engines`, and the enforcement of a tool's schema on each engine."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolDefinition
from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Enforcement, Engine, Traits, no_enforcement
from ferrule.engines.fake import FakeGenerator
from ferrule.engines.profile import Finding, Profile, Verdict, save_profile
from ferrule.engines.text.engine import TextEngine, TextOptions
from ferrule.errors import EngineUnavailableError
from ferrule.server.app import application
from ferrule.server.config.config import Config, EngineConfig, ModelConfig
from ferrule.server.startup import open_gateway
from ferrule.server.tools import enforcement
from ferrule.sources.fake import FakeSource
from server.client import Client, scripted_engine
from server.keys import bearer, key
from server.test_openapi import fits

LIMITED = {"amount": {"type": "integer", "minimum": 1}, "note": {"type": "string", "format": "odd"}}
PAY = ToolDefinition("pay", "Pays.", {"type": "object", "properties": LIMITED, "required": ["amount"]})
KEYS = (
    key("ann", tools=("*",)),
    key("rob", models=("smol",), tools=("look",)),
    key("tom", models=(), tools=("*",)),
    key("boss", tools=("*",), admin=True),
)


class Silent(Engine):
    """Does not answer, or says why it cannot."""

    traits = Traits(name="silent", honours=frozenset({"auto", "required"}))

    def __init__(self, failure: EngineUnavailableError | None = None) -> None:
        self.failure = failure
        self.query_count = 0

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise EngineUnavailableError("http://ann:secret@far:1 is down")
        yield

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        self.query_count += 1
        if self.failure:
            raise self.failure
        await asyncio.sleep(60)
        return no_enforcement(tool)

    async def close(self) -> None:
        return


def _text_engine() -> TextEngine:
    return TextEngine(FakeGenerator(["hello"]), TextOptions(format="hermes"))


@asynccontextmanager
async def _client(**engines: Engine | tuple[str, Engine]) -> AsyncGenerator[Client]:
    """Engines by name, the first two behind the model `smol`; one with a string of its own is a pair."""
    pairs = {name: one if isinstance(one, tuple) else (name, one) for name, one in engines.items()}
    config = Config(
        engines=tuple(EngineConfig(name=name, use=use) for name, (use, _) in pairs.items()),
        models=(ModelConfig(name="smol", engines=tuple(pairs)[:2]),),
        keys=KEYS,
    )
    by_use = dict(pairs.values())
    async with open_gateway(config, [FakeSource([PAY, ToolDefinition("look")])], load=by_use.__getitem__) as gateway:
        yield Client(application(gateway), gateway)


async def _engines(client: Client, who: str = "ann") -> list[dict[str, Any]]:
    answer = await client.get("/v1/engines", bearer(who))
    assert answer.status == 200
    fits("Engines", answer.json())
    return answer.json()["data"]


async def _tool(client: Client, who: str = "ann", name: str = "pay") -> Any:
    answer = await client.get(f"/v1/tools/{name}", bearer(who))
    assert answer.status == 200
    fits("ToolDetail", answer.json())
    return answer.json()


def test_each_engine_of_each_model_that_the_key_may_use_is_listed() -> None:
    async def story() -> None:
        async with _client(a=_text_engine(), b=scripted_engine("hello"), other=scripted_engine("hello")) as client:
            first, second, third = await _engines(client)
            assert first == {
                **{"object": "engine", "model": "smol", "engine": "a", "kind": "fake", "targets": ["lark"]},
                **{"honours": ["allowed", "auto", "none", "one", "required"], "goes_on_cheaply": False},
                **{"state": "ready", "why": "", "profile": None},
            }
            assert (second["model"], second["engine"], second["targets"]) == ("smol", "b", [])
            assert (third["model"], third["engine"]) == ("other", "other")
            assert [one["engine"] for one in await _engines(client, "rob")] == ["a", "b"]
            assert (await client.get("/v1/engines", bearer("tom"))).status == 403

    asyncio.run(story())


def test_an_engine_that_has_just_failed_rests_and_only_an_admin_reads_why() -> None:
    async def story() -> None:
        async with _client(a=Silent(), b=scripted_engine("hello")) as client:
            body = {"model": "smol", "messages": [{"role": "user", "content": "Hello."}]}
            assert (await client.post("/v1/chat/completions", body, bearer("ann"))).status == 200
            assert [(one["state"], one["why"]) for one in await _engines(client)] == [("resting", ""), ("ready", "")]
            why = (await _engines(client, "boss"))[0]["why"]
            assert "is down" in why
            assert "secret" not in why

    asyncio.run(story())


def test_the_doctors_findings_are_shown_with_the_engine_and_its_address_to_admins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    findings = (Finding("required", Verdict.HONOURED, "It called each time."),)
    save_profile(Profile("http://far:1", "small", "2026-01-31", findings, 2.5))
    save_profile(Profile("http://far:1", "large", "2026-02-01"))

    async def story() -> None:
        named = ("openai:small?url=http://far:1/v1&key=secret", scripted_engine("hello"))
        async with _client(a=named, b=("llama-server:http://far:1", scripted_engine("hello"))) as client:
            tool_view = [one["profile"] for one in await _engines(client, "boss")]
            assert tool_view[0] == {
                **{"url": "http://far:1", "model": "small", "date": "2026-01-31"},
                "findings": [{"name": "required", "verdict": "honoured", "evidence": "It called each time."}],
                "continuation_cost": 2.5,
            }
            # It does not say which model, so the newest counts.
            assert tool_view[1]["model"] == "large"
            assert [one["profile"]["url"] for one in await _engines(client)] == ["", ""]

    asyncio.run(story())


def test_a_tool_is_shown_with_its_enforcement_on_each_engine() -> None:
    async def story() -> None:
        async with _client(a=_text_engine(), b=scripted_engine("hello"), other=scripted_engine("hello")) as client:
            tool_view = await _tool(client)
            listed = (await client.get("/v1/tools", bearer("ann"))).json()["data"]
            assert {**tool_view, "enforcement": None} == {**listed[1], "enforcement": None}
            enforced, checked, other = tool_view["enforcement"]
            assert (enforced["model"], enforced["engine"], enforced["target"], enforced["why"]) == (
                "smol",
                "a",
                "lark",
                "",
            )
            assert {"minimum", "required", "type"} <= set(enforced["enforced"])
            assert enforced["unchecked"] == checked["unchecked"] == ["format:odd"]
            assert (checked["target"], checked["enforced"]) == ("", [])
            assert {"minimum", "required", "type"} <= set(checked["checked"])
            assert other == {**checked, "model": "other", "engine": "other"}
            assert (await _tool(client, "tom"))["enforcement"] == []
            assert [one["engine"] for one in (await _tool(client, "rob", "look"))["enforcement"]] == ["a", "b"]

    asyncio.run(story())


def test_a_forbidden_tool_looks_like_a_missing_one() -> None:
    async def story() -> None:
        async with _client(a=scripted_engine("hello")) as client:
            for who, name in (("rob", "pay"), ("rob", "never"), ("ann", "never"), ("ann", "%00"), ("ann", "call")):
                refused = await client.get(f"/v1/tools/{name}", bearer(who))
                assert (refused.status, refused.json()["error"]["code"]) == (404, "tool_not_found")
            assert (await client.post("/v1/tools/pay", {}, bearer("ann"))).status == 404

    asyncio.run(story())


def test_of_an_engine_that_does_not_answer_nothing_is_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(enforcement, "ANSWER_SECONDS", 0.05)

    async def story() -> None:
        down = Silent(EngineUnavailableError("http://ann:secret@far:1 is down"))
        async with _client(a=Silent(), b=down) as client:
            tool_view = (await _tool(client))["enforcement"]
            assert [one["why"] for one in tool_view] == [
                "the engine has not answered yet",
                "the engine could not be queried",
            ]
            assert all(one["checked"] and not one["enforced"] for one in tool_view)
            why = (await _tool(client, "boss"))["enforcement"][1]["why"]
            assert "is down" in why
            assert "secret" not in why
            count_before = down.query_count
            client.gateway.router.models["smol"].replicas[1].health.record_failure(EngineUnavailableError("down"))
            assert (await _tool(client))["enforcement"][1]["why"] == "the engine is resting after a failure"
            assert down.query_count == count_before

    asyncio.run(story())
