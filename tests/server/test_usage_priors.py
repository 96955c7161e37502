"""What a tenant's models do with tools moves its searches: a little, later, and never those of another tenant."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ferrule.core.call import ToolCall
from ferrule.core.context import CallContext, Principal
from ferrule.core.outcome import Answered, Outcome
from ferrule.core.reply import Reply
from ferrule.core.request import ToolCallRequest
from ferrule.core.tool import ToolDefinition
from ferrule.engines.fake import FakeEngine
from ferrule.run.conversation import ToolConversation
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.server.observability.telemetry import Telemetry
from ferrule.server.usage_priors import REFRESH_SECONDS, UsagePriors
from ferrule.sources.fake import FakeSource
from ferrule.sources.search.tool_index import ToolIndex
from run.ledger_databases import fresh_name
from server.tool_world import World, run_story

ALIKE = tuple(ToolDefinition(f"weather_{name}", "The weather of a city.") for name in ("bern", "kyiv", "rome"))


def answer(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
    return Answered("sunny")


async def call_often(ledger: Ledger, tool: str, times: int, tenant: str, now: float | None = None) -> None:
    """One reply with calls that differ, and one that ends the turn."""
    calls = [ToolCall.of(tool, {"n": number}, id=f"c{number}") for number in range(times)]
    talk = await ToolConversation.open(
        ledger,
        fresh_name(),
        FakeEngine([Reply.of(*calls), Reply.of("Done.")]),
        FakeSource(ALIKE, answer),
        clock=time.time if now is None else lambda: now,
        context=CallContext(principal=Principal("ann", tenant)),
        request=ToolCallRequest(messages=()),
    )
    await talk.send_message("go")
    await talk.close()


async def settled(priors: UsagePriors, tenant: str) -> Mapping[str, float]:
    """The prior after what is being read in the background was read."""
    priors.prior(tenant)
    await asyncio.gather(*priors._tasks.values())  # pyright: ignore[reportPrivateUsage]
    return priors.prior(tenant)


def order(prior: Mapping[str, float]) -> list[str]:
    return [match.tool.name for match in ToolIndex(ALIKE).search("weather", prior=prior)]


def test_two_processes_on_one_ledger_learn_from_each_other(tmp_path: Path) -> None:
    async def scenario() -> None:
        path = str(tmp_path / "ledger.db")
        mine, other = await open_ledger(path), await open_ledger(path)
        await call_often(other, "weather_rome", 20, "acme")
        priors = UsagePriors(mine, Telemetry(), 14.0)
        assert priors.prior("acme") == {}, "the first search does not wait for the database"
        assert order(await settled(priors, "acme")) == ["weather_rome", "weather_bern", "weather_kyiv"]
        await mine.close()
        await other.close()

    asyncio.run(scenario())


def test_no_key_of_one_tenant_moves_the_searches_of_another(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await open_ledger(str(tmp_path / "ledger.db"))
        await call_often(ledger, "weather_rome", 200, "evil")
        priors = UsagePriors(ledger, Telemetry(), 14.0)
        assert await settled(priors, "acme") == {}
        assert (await settled(priors, "evil"))["weather_rome"] > 1
        await ledger.close()

    asyncio.run(scenario())


def test_a_prior_is_read_again_only_when_it_is_old_and_once_at_a_time(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await open_ledger(str(tmp_path / "ledger.db"))
        now = [time.time()]
        priors = UsagePriors(ledger, Telemetry(), 14.0, clock=lambda: now[0])
        assert await settled(priors, "acme") == {}
        await call_often(ledger, "weather_kyiv", 20, "acme")
        now[0] += REFRESH_SECONDS - 1
        assert await settled(priors, "acme") == {}
        now[0] += 2
        for _ in range(100):
            assert priors.prior("acme") == {}
        assert len(priors._tasks) == 1  # pyright: ignore[reportPrivateUsage]
        assert order(await settled(priors, "acme"))[0] == "weather_kyiv"
        await ledger.close()

    asyncio.run(scenario())


def test_a_ledger_that_cannot_be_read_keeps_the_last_prior_and_is_reported(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger, telemetry, now = await open_ledger(str(tmp_path / "ledger.db")), Telemetry(), [time.time()]
        await call_often(ledger, "weather_kyiv", 20, "acme")
        priors = UsagePriors(ledger, telemetry, 14.0, clock=lambda: now[0])
        before = await settled(priors, "acme")
        await ledger.close()
        now[0] += REFRESH_SECONDS + 1
        assert await settled(priors, "acme") == before != {}
        assert "ferrule_ledger_errors" in str(telemetry.counts)

    asyncio.run(scenario())


def test_usage_is_not_read_where_it_is_turned_off(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = await open_ledger(str(tmp_path / "ledger.db"))
        priors = UsagePriors(ledger, Telemetry(), 0.0)
        await call_often(ledger, "weather_kyiv", 20, "acme")
        assert await settled(priors, "acme") == {}
        assert not priors._priors  # pyright: ignore[reportPrivateUsage]
        await ledger.close()

    asyncio.run(scenario())


def test_a_gateway_finds_the_tool_first_that_its_models_call() -> None:
    async def story(world: World) -> None:
        gateway = world.client.gateway
        catalog = gateway.tool_catalog
        catalog.tools = {tool.name: tool for tool in ALIKE}
        ann = Principal("boss", "acme")

        async def found() -> list[str]:
            return [match.tool.name for match in await catalog.search(ann, "weather", 5)]

        assert await found() == ["weather_bern", "weather_kyiv", "weather_rome"]
        await call_often(gateway.ledger, "weather_rome", 20, "acme")
        owner: Any = catalog.prior_of
        await owner.__self__.refresh("acme")
        assert await found() == ["weather_rome", "weather_bern", "weather_kyiv"]
        # A model's search counts usage, and the list at the front of a prompt does not.
        assert (await catalog.find("weather", 5, catalog.tools, tenant="acme"))[0] == "weather_rome"
        assert (await catalog.find("weather", 5, catalog.tools, tenant="evil"))[0] == "weather_bern"
        assert (await catalog.find("weather", 5, catalog.tools))[0] == "weather_bern"

    run_story(story)
