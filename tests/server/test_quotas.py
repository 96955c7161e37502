"""Quotas: what is counted, for whom, and what a caller beyond one sees."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.context import Principal
from ferrule.core.event import Usage
from ferrule.core.reply import Reply
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.dialects.frames.server_frames import DoneFrame, ErrorFrame
from ferrule.errors import QuotaStoreError
from ferrule.server.config.config import Config, EngineConfig
from ferrule.server.config.quotas import (
    QuotaConfig,
    QuotaFallback,
    QuotaPeriod,
    QuotaScope,
    QuotaStoreConfig,
    QuotaUnit,
)
from ferrule.server.config.validation import find_errors, find_warnings
from ferrule.server.quotas import valkey_store
from ferrule.server.quotas.charge import Charge, QuotaUse
from ferrule.server.quotas.quotas import Quotas
from ferrule.server.quotas.rate_headers import rate_headers
from ferrule.server.quotas.store import MemoryQuotaStore, Taken
from ferrule.server.quotas.valkey_store import ValkeyQuotaStore
from server.client import ClientResponse, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.paced import Paced
from server.tool_world import CONFIG, World, run_story
from server.websocket_client import connect
from waiting import until

CHAT = {"model": "e0", "messages": [{"role": "user", "content": "hello"}]}
MESSAGES = {"model": "e0", "max_tokens": 10, "messages": [{"role": "user", "content": "hello"}]}
KEYS = config_with_keys(key("ann", tenant="acme"), key("bob", tenant="acme"), key("eve", tenant="evil"))
MORNING = 1_700_006_400.0


def quota(counts: str, most: float, per: str = "day", each: str = "key", **more: Any) -> QuotaConfig:
    return QuotaConfig(
        name=f"{counts}-{per}", counts=QuotaUnit(counts), most=most, per=QuotaPeriod(per), each=QuotaScope(each), **more
    )


def ask(
    *who: str, quotas: Sequence[QuotaConfig], config: Config = KEYS, reply: Reply | str = "hello"
) -> list[ClientResponse]:
    """Send a chat request with each of these keys, one after the other."""

    async def scenario() -> list[ClientResponse]:
        used = replace(config, quotas=tuple(quotas))
        async with gateway_of(scripted_engine(*[reply] * len(who)), config=used) as client:
            client.gateway.quotas.clock = lambda: MORNING
            return [await client.post("/v1/chat/completions", CHAT, bearer(one)) for one in who]

    return asyncio.run(scenario())


def statuses(responses: Sequence[ClientResponse]) -> list[int]:
    return [one.status for one in responses]


@pytest.mark.parametrize(
    "each, expected",
    [("key", [200, 429, 200, 200]), ("tenant", [200, 429, 429, 200]), ("gateway", [200, 429, 429, 429])],
)
def test_a_quota_has_a_count_for_each_key_or_tenant_or_one_for_all(each: str, expected: list[int]) -> None:
    assert statuses(ask("ann", "ann", "bob", "eve", quotas=[quota("requests", 1, each=each)])) == expected


def test_a_quota_is_only_for_the_keys_and_tenants_that_its_patterns_name() -> None:
    assert statuses(ask("ann", "ann", "bob", "bob", quotas=[quota("requests", 1, keys=("a*",))])) == [
        200,
        429,
        200,
        200,
    ]
    assert statuses(ask("ann", "ann", "eve", "eve", quotas=[quota("requests", 1, tenants=("ev*",))])) == [
        200,
        200,
        200,
        429,
    ]


def test_a_refused_request_says_which_quota_and_until_when() -> None:
    _, refused = ask("ann", "ann", quotas=[quota("requests", 1)])
    error = refused.json()["error"]
    assert (refused.status, error["code"], error["type"]) == (429, "quota_exceeded", "rate_limit_error")
    assert "the key 'ann' has used up the quota 'requests-day': 1 requests per day" in error["message"]
    assert int(refused.headers["retry-after"]) == 86_400 - MORNING % 86_400
    assert refused.headers["x-ratelimit-remaining-requests"] == "0"


def test_a_client_retries_by_itself_only_where_the_period_ends_soon() -> None:
    for per, retries in (("minute", "true"), ("day", "false")):
        _, refused = ask("ann", "ann", quotas=[quota("requests", 1, per)])
        assert refused.headers["x-should-retry"] == retries


def test_an_answer_says_what_is_left_in_the_headers_of_both_apis() -> None:
    (answer,) = ask("ann", quotas=[quota("requests", 5), quota("requests", 100, "minute"), quota("tokens", 1000)])
    assert answer.headers["x-ratelimit-limit-requests"] == answer.headers["anthropic-ratelimit-requests-limit"] == "5"
    assert answer.headers["x-ratelimit-remaining-requests"] == "4"
    assert answer.headers["anthropic-ratelimit-tokens-remaining"] == "1000"
    assert answer.headers["anthropic-ratelimit-requests-reset"].endswith("Z")


def test_a_stream_has_the_same_headers_and_errors_come_before_it_begins() -> None:
    async def scenario() -> list[ClientResponse]:
        config = replace(KEYS, quotas=(quota("requests", 1),))
        async with gateway_of(scripted_engine("hello"), config=config) as client:
            paths = [
                ("/v1/messages", MESSAGES),
                ("/v1/messages", MESSAGES),
                ("/v1/responses", {"model": "e0", "input": "a"}),
            ]
            return [await client.post(path, {**body, "stream": True}, bearer("ann")) for path, body in paths]

    first, second, third = asyncio.run(scenario())
    assert first.headers["anthropic-ratelimit-requests-remaining"] == "0"
    assert second.status == 429
    assert second.json()["error"]["type"] == "rate_limit_error"
    assert third.status == 429


def test_a_day_begins_at_midnight_of_utc() -> None:
    async def scenario() -> list[int]:
        config = replace(KEYS, quotas=(quota("requests", 1),))
        async with gateway_of(scripted_engine("a", "b", "c"), config=config) as client:
            codes: list[int] = []
            for now in (86_399.0, 86_399.9, 86_400.0, 86_401.0):
                client.gateway.quotas.clock = lambda now=now: now
                codes.append((await client.post("/v1/chat/completions", CHAT, bearer("ann"))).status)
            return codes

    assert asyncio.run(scenario()) == [200, 429, 200, 429]


REPLY = replace(Reply.of("hello"), usage=Usage(prompt_tokens=30, completion_tokens=20))


def test_the_answer_that_uses_up_the_tokens_is_finished_and_the_next_is_refused() -> None:
    first, second, third = ask("ann", "ann", "ann", quotas=[quota("tokens", 60)], reply=REPLY)
    assert statuses([first, second, third]) == [200, 200, 429]
    assert second.headers["x-ratelimit-remaining-tokens"] == "10"
    assert second.json()["choices"][0]["message"]["content"] == "hello"
    assert third.json()["error"]["code"] == "quota_exceeded"


def test_money_is_what_the_tokens_cost_by_the_prices_of_the_engine() -> None:
    config = replace(KEYS, engines=(EngineConfig(name="e0", use="e0", input_price=1e6, output_price=2e6),))
    # An answer costs 30 + 2 * 20.
    assert statuses(ask("ann", "ann", "ann", quotas=[quota("money", 71)], config=config, reply=REPLY)) == [
        200,
        200,
        429,
    ]


def test_a_client_that_leaves_before_the_end_has_used_tokens() -> None:
    async def scenario() -> int:
        engine, leaves = Paced(["word "] * 9, holds_after=6), asyncio.Event()
        async with gateway_of(engine, config=replace(KEYS, quotas=(quota("tokens", 6),))) as client:
            body = {**CHAT, "stream": True}
            stream = asyncio.ensure_future(client.request("POST", "/v1/chat/completions", body, bearer("ann"), leaves))
            while engine.written < 6:
                await asyncio.sleep(0)
            leaves.set()
            await stream
            assert engine.is_closed
            return (await client.post("/v1/chat/completions", CHAT, bearer("ann"))).status

    assert asyncio.run(scenario()) == 429


def test_a_retry_that_joins_its_answer_uses_nothing_of_a_quota() -> None:
    async def scenario() -> tuple[list[ClientResponse], Any]:
        config = replace(KEYS, quotas=(quota("requests", 1), quota("tokens", 60)))
        async with gateway_of(scripted_engine(REPLY, REPLY), config=config) as client:
            client.gateway.quotas.clock = lambda: MORNING
            keys = ("one", "one", "one", "two")
            headers = [{**bearer("ann"), "idempotency-key": text} for text in keys]
            answers = [await client.post("/v1/chat/completions", CHAT, one) for one in headers]
            return answers, (await client.get("/v1/me", bearer("ann"))).json()["quotas"]

    answers, uses = asyncio.run(scenario())
    assert statuses(answers) == [200, 200, 200, 429]
    assert [one.json()["choices"][0]["message"]["content"] for one in answers[:3]] == ["hello"] * 3
    assert [use["used"] for use in uses] == [1, 50]


def test_a_turn_on_a_websocket_is_a_request() -> None:
    async def scenario() -> list[str]:
        config = replace(KEYS, quotas=(quota("requests", 1),))
        async with (
            gateway_of(scripted_engine("one", "two"), config=config) as client,
            connect(client, bearer("ann")) as socket,
        ):
            ends: list[str] = []
            while len(ends) < 2:
                await socket.send(AskFrame({"messages": CHAT["messages"]}))
                while not isinstance(end := (await socket.next()).frame, DoneFrame | ErrorFrame):
                    pass
                ends.append(end.code if isinstance(end, ErrorFrame) else "done")
            return ends

    assert asyncio.run(scenario()) == ["done", "quota_exceeded"]


def test_me_shows_what_is_left() -> None:
    async def scenario() -> Any:
        config = replace(KEYS, quotas=(quota("requests", 5), quota("tokens", 100, each="tenant")))
        async with gateway_of(scripted_engine(REPLY, REPLY), config=config) as client:
            client.gateway.quotas.clock = lambda: MORNING
            for who in ("ann", "bob"):
                await client.post("/v1/chat/completions", CHAT, bearer(who))
            return (await client.get("/v1/me", bearer("ann"))).json()["quotas"]

    requests, tokens = asyncio.run(scenario())
    assert (requests["used"], requests["remaining"], requests["per"]) == (1, 4, "day")
    assert (tokens["used"], tokens["remaining"], tokens["each"]) == (100, 0, "tenant")


def test_a_call_beyond_its_quota_is_not_run_and_the_caller_reads_why() -> None:
    async def story(world: World) -> None:
        results = [(await world.call("look", {"place": "here"}, call_id=str(n))).json() for n in range(3)]
        assert [one["is_error"] for one in results] == [False, False, True]
        assert "quota_exceeded: the tool has used up the quota" in results[2]["content"]
        assert world.done["look"] == 2
        # Another tool has a count of its own.
        assert not (await world.call("tell", {"steps": 1})).json()["is_error"]

    run_story(story, quotas=(quota("calls", 2, each="tool"),))


def test_effects_are_calls_with_side_effects_and_the_same_call_again_is_none() -> None:
    async def story(world: World) -> None:
        pay = {"name": "pay", "arguments": {"amount": 1}}
        for n in range(3):
            assert not (await world.call("look", {"place": "here"}, call_id=f"look{n}")).json()["is_error"]
        for _ in range(3):
            assert (await world.call(**pay, call_id="one")).json()["content"] == "paid 1"
        assert "quota_exceeded" in (await world.call(**pay, call_id="two")).json()["content"]
        assert world.done == {"look": 3, "pay": 1}

    settings = replace(CONFIG.tools, tools_require_confirmation_for_side_effects=False)
    run_story(story, tools=settings, quotas=(quota("effects", 1, tools=("pay*",)),))


class AbsentStore:
    """A store that answers as often as it is told to."""

    answers = 0

    async def take(self, charges: Sequence[Charge], now: float) -> Taken:
        self.check()
        return Taken(None, (0.0,) * len(charges))

    async def add(self, charges: Sequence[Charge], now: float) -> None:
        self.check()

    async def used(self, charges: Sequence[Charge], now: float) -> tuple[float, ...]:
        self.check()
        return (0.0,) * len(charges)

    async def close(self) -> None:
        pass

    def check(self) -> None:
        if self.answers <= 0:
            raise QuotaStoreError("the quota store does not answer")
        self.answers -= 1


@pytest.mark.parametrize("when_away, expected", [("divide", [200, 429]), ("refuse", [503, 503])])
def test_without_its_store_a_gateway_counts_its_part_or_refuses(when_away: str, expected: list[int]) -> None:
    async def scenario() -> list[int]:
        store = QuotaStoreConfig(address="valkey://localhost:1/0", when_away=QuotaFallback(when_away), replicas=2)
        config = replace(KEYS, quotas=(quota("requests", 2),), quota_store=store)
        async with gateway_of(scripted_engine("a", "b"), config=config) as client:
            return [(await client.post("/v1/chat/completions", CHAT, bearer("ann"))).status for _ in range(2)]

    assert asyncio.run(scenario()) == expected


def test_an_absent_store_is_reported_once_until_it_answers_again() -> None:
    async def scenario() -> list[str]:
        failures: list[str] = []
        config = replace(KEYS, quotas=(quota("requests", 100),))
        store = AbsentStore()
        quotas = Quotas(config, on_failure=lambda error: failures.append(error.code), store=store)
        for answers in (0, 0, 1, 0):
            store.answers, quotas._away_until = answers, 0.0  # pyright: ignore[reportPrivateUsage]  # time passes
            await quotas.admit_request(Principal("ann", "acme"))
        return failures

    assert asyncio.run(scenario()) == ["quota_store_unavailable"] * 2


def test_a_reload_takes_up_quotas_and_keeps_what_was_counted() -> None:
    async def scenario() -> list[int]:
        codes: list[int] = []
        config = replace(KEYS, quotas=(quota("requests", 1),))
        async with gateway_of(scripted_engine("a", "b"), config=config) as client:
            for most in (1, 1, 2, 2):
                for take in client.gateway.on_config:
                    take(replace(KEYS, quotas=(quota("requests", most),)))
                codes.append((await client.post("/v1/chat/completions", CHAT, bearer("ann"))).status)
        return codes

    assert asyncio.run(scenario()) == [200, 429, 200, 429]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5), st.integers(0, 400)), max_size=60), st.integers(1, 8))
def test_no_period_holds_more_than_its_quota_and_refused_charges_add_nothing(
    steps: list[tuple[int, int, int]], most: int
) -> None:
    async def scenario() -> None:
        store, held = MemoryQuotaStore(), dict[tuple[int, int], int]()
        small, large = quota("requests", most, "minute"), quota("requests", most * 2, "hour")
        now = 0.0
        for owner, amount, wait in steps:
            now += wait
            charges = [Charge(small, str(owner), amount), Charge(large, str(owner), amount)]
            before = await store.used(charges, now)
            taken = await store.take(charges, now)
            if taken.refused is None:
                period = (owner, int(now // 60))
                held[period] = held.get(period, 0) + amount
                assert taken.used == tuple(one + amount for one in before)
            else:
                assert taken.used == before
        assert all(amount <= most for amount in held.values())

    asyncio.run(scenario())


@given(st.integers(1, 40), st.integers(1, 8))
def test_parts_of_a_quota_are_together_at_least_it_and_at_most_one_more_each(most: int, shares: int) -> None:
    async def scenario() -> int:
        admitted = 0
        for _ in range(shares):
            store = MemoryQuotaStore(shares)
            while (await store.take([Charge(quota("requests", most), "a", 1.0)], 0.0)).refused is None:
                admitted += 1
        return admitted

    assert most <= asyncio.run(scenario()) < most + shares


NAMES = st.text(max_size=6)


@given(st.tuples(NAMES, NAMES), st.tuples(NAMES, NAMES))
def test_two_principals_never_share_a_counter(one: tuple[str, str], other: tuple[str, str]) -> None:
    async def used() -> float:
        config = replace(KEYS, quotas=(quota("requests", 9),))
        quotas = Quotas(config, clock=lambda: MORNING)
        await quotas.admit_request(Principal(*one))
        return (await quotas.uses(Principal(*other)))[0].used

    assert asyncio.run(used()) == (1.0 if one == other else 0.0)


def test_counters_of_past_periods_are_forgotten() -> None:
    async def size() -> int:
        store = MemoryQuotaStore()
        for minute in range(10_000):
            await store.take([Charge(quota("requests", 9, "minute"), str(minute), 1.0)], minute * 60.0)
        return len(store._counters)  # pyright: ignore[reportPrivateUsage]  # what it keeps

    assert asyncio.run(size()) <= 4_096


@pytest.mark.parametrize(
    "seconds, text", [(0.2, "1s"), (59.6, "1m"), (61, "1m1s"), (3_600, "1h"), (86_399, "23h59m59s")]
)
def test_a_reset_is_written_as_the_openai_api_writes_it(seconds: float, text: str) -> None:
    assert rate_headers([QuotaUse(quota("tokens", 5), 1, seconds)])["x-ratelimit-reset-tokens"] == text


def test_a_reset_is_a_moment_for_anthropics_clients() -> None:
    before = datetime.now(UTC).replace(microsecond=0)
    reset = rate_headers([QuotaUse(quota("tokens", 5), 1, 90.0)])["anthropic-ratelimit-tokens-reset"]
    assert before <= datetime.strptime(reset, "%Y-%m-%dT%H:%M:%S%z") - timedelta(seconds=90) <= datetime.now(UTC)


def test_what_an_answer_used_is_counted_at_once_where_no_store_is_asked() -> None:
    async def used() -> float:
        ann = Principal("ann", "acme")
        quotas = Quotas(replace(KEYS, quotas=(quota("tokens", 100),)), clock=lambda: MORNING)
        await quotas.admit_request(ann)
        quotas.spend(ann, 30, 0.0)
        assert not quotas._additions  # pyright: ignore[reportPrivateUsage]  # no task for each request
        return (await quotas.uses(ann))[0].used

    assert asyncio.run(used()) == 30.0


def test_a_store_that_accepts_connections_and_says_nothing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(valkey_store, "_TIMEOUT_SECONDS", 0.05)
    ends = list[bool]()

    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(1_000):
            pass
        ends.append(True)
        writer.close()

    async def scenario() -> None:
        async with await asyncio.start_server(say_nothing, "127.0.0.1", 0) as server:
            store = ValkeyQuotaStore(f"valkey://127.0.0.1:{server.sockets[0].getsockname()[1]}/0")
            charges = [Charge(quota("requests", 9), "ann", 1.0)]
            # Each has a connection of its own: an answer that comes late must not be read as that of the next request.
            for request in (store.take, store.add, store.used):
                with pytest.raises(QuotaStoreError, match="does not answer"):
                    await request(charges, MORNING)
            await until(lambda: len(ends) == 3)
            await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "config, message",
    [
        (replace(KEYS, quotas=(quota("requests", 0),)), "most is not above 0"),
        (replace(KEYS, quotas=(quota("tokens", 1, tools=("a*",)),)), "tokens do not belong to a tool"),
        (replace(KEYS, quotas=(quota("requests", 1, each="tool"),)), "requests do not belong to a tool"),
        (replace(KEYS, quota_store=QuotaStoreConfig(address="memcached://a")), "it is not an address"),
        (replace(KEYS, quota_store=QuotaStoreConfig(replicas=0)), "it is less than 1"),
    ],
)
def test_quotas_that_cannot_be_counted_are_errors(config: Config, message: str) -> None:
    assert any(message in problem.message for problem in find_errors(config))


def test_a_check_says_that_quotas_are_divided_and_that_unpriced_engines_cost_nothing() -> None:
    config = replace(KEYS, quotas=(quota("money", 5),), server=replace(KEYS.server, workers=4))
    warnings = " ".join(find_warnings(config))
    assert "quotas are divided among 4 processes" in warnings
    assert "no quota counts the money of e0" in warnings
    shared = replace(config, quota_store=QuotaStoreConfig(address="valkey://127.0.0.1:6379/0"))
    assert "divided" not in " ".join(find_warnings(shared))


def test_a_refusal_is_counted_in_the_metrics() -> None:
    async def scenario() -> str:
        config = replace(KEYS, quotas=(quota("requests", 1),), keys=(*KEYS.keys, key("root", operator=True)))
        async with gateway_of(scripted_engine("a"), config=config) as client:
            for _ in range(2):
                await client.post("/v1/chat/completions", CHAT, bearer("ann"))
            return (await client.get("/metrics", bearer("root"))).body.decode()

    assert 'ferrule_quota_refusals_total{quota="requests-day"} 1' in asyncio.run(scenario())


def test_the_answer_of_a_refused_request_is_json_of_its_api() -> None:
    _, refused = ask("ann", "ann", quotas=[quota("requests", 1)])
    assert set(json.loads(refused.body)) == {"error"}
