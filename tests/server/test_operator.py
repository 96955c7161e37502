"""What the admin of one tenant may see and do on a gateway that others use too, and what its operator may."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule import ToolDefinition
from ferrule.core.event import Event
from ferrule.core.request import ToolCallRequest
from ferrule.engines.engine import Enforcement, Engine, Traits
from ferrule.engines.profile import Profile, save_profile
from ferrule.errors import EngineUnavailableError, LedgerUnavailableError
from ferrule.run.ledger.keys import KeyPermissions
from ferrule.server.app import application
from ferrule.server.auth.issued_keys import issue_key
from ferrule.server.config.config import Config, EngineConfig, KeyConfig, is_one_tenant
from ferrule.server.config.identity import IdentityConfig
from ferrule.server.gateway import ReloadReport
from ferrule.server.startup import open_gateway
from ferrule.sources.fake import FakeSource
from ferrule.sources.status import QuarantinedTool, SourceState, SourceStatus, ToolSnapshot, Trust
from server.client import Client, ClientResponse
from server.keys import bearer, key
from server.test_openapi import fits

LOOK, PAY = ToolDefinition("look"), ToolDefinition("pay", side_effects=True)
ADMIN: dict[str, Any] = {"tools": ("*",), "approve": True, "admin": True}
BOSS, EVE = key("boss", tenant="acme", **ADMIN), key("eve", tenant="evil", **ADMIN)
OPS = key("ops", tenant="ops", **ADMIN, operator=True)
SCRAPER = key("scraper", tenant="ops", models=(), operator=True)
FAR = "far.internal"


class Failing(Engine):
    """Its errors have an address that is nobody's business but the operator's."""

    traits = Traits(name="failing", honours=frozenset({"auto"}))

    async def stream_request(self, request: ToolCallRequest) -> AsyncGenerator[Event, None]:
        raise EngineUnavailableError(f"http://{FAR}:1 is down")
        yield

    async def enforcement(self, tool: ToolDefinition) -> Enforcement:
        raise EngineUnavailableError(f"http://{FAR}:1 is down")

    async def close(self) -> None:
        return


class Server(FakeSource):
    """A server elsewhere that has failed."""

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        changed = QuarantinedTool("send", "has changed", ToolSnapshot("Sends.", {}, "1"))
        names, why = tuple(one.name for one in self._tools), f"nats://{FAR} refused"
        return (SourceStatus(self.id, "elsewhere", Trust.UNTRUSTED, SourceState.FAILED, why, names, (changed,)),)


async def _reload() -> ReloadReport:
    return ReloadReport((), ("e0",), 2)


@asynccontextmanager
async def gateway(*keys: KeyConfig, ledger: str = "", **changes: Any) -> AsyncGenerator[Client]:
    config = Config(engines=(EngineConfig(name="e0", use="e0"),), keys=keys, ledger=ledger)
    odd = ToolDefinition("odd", "Odd.", {"type": "object", "maximum": float("nan")})
    sources = [Server([LOOK], id="near"), Server([PAY, odd], id="hidden")]
    async with open_gateway(replace(config, **changes), sources, load=lambda use: Failing()) as opened:
        opened.reload = _reload
        yield Client(application(opened), opened)


def run(story: Callable[[Client], Coroutine[Any, Any, None]], *keys: KeyConfig, **changes: Any) -> None:
    async def in_gateway() -> None:
        async with gateway(*keys, **changes) as client:
            await story(client)

    asyncio.run(in_gateway())


async def fail_a_request(client: Client, who: str) -> ClientResponse:
    body = {"model": "e0", "messages": [{"role": "user", "content": "Hello."}]}
    return await client.post("/v1/chat/completions", body, bearer(who))


async def add_key(client: Client, name: str, tenant: str, **permissions: Any) -> str:
    """Create a key as `ferrule keys create` does. Returns its text."""
    granted = KeyPermissions(**permissions)
    text, record = issue_key(name, tenant, granted, by="shell", expires_at=None, now=time.time())
    await client.gateway.ledger.add_key(record)
    await client.gateway.keys.refresh()
    return text


async def rights(client: Client, who: str) -> list[str]:
    return (await client.get("/v1/me", bearer(who))).json()["rights"]


OPERATING = (("GET", "/metrics"), ("POST", "/v1/reload"))


async def statuses(client: Client, who: str) -> list[int]:
    return [(await client.request(method, path, None, bearer(who))).status for method, path in OPERATING]


def test_of_several_tenants_no_admin_reads_metrics_or_reloads_and_the_error_says_who_may() -> None:
    async def story(client: Client) -> None:
        for who in ("boss", "eve"):
            assert await rights(client, who) == ["admin", "approve", "models", "tools"]
            for method, path in OPERATING:
                refused = await client.request(method, path, None, bearer(who))
                assert (refused.status, refused.json()["error"]["code"]) == (403, "token_scope_insufficient")
                message = refused.json()["error"]["message"]
                assert "operator = true" in message
                assert "/v1/traces" in message
                assert b"ferrule_" not in refused.body
        assert "operator" in await rights(client, "ops")
        assert await statuses(client, "ops") == await statuses(client, "scraper") == [200, 200]

    run(story, BOSS, EVE, OPS, SCRAPER)


def test_a_key_that_only_operates_manages_no_keys_and_sees_no_conversation_of_others() -> None:
    async def story(client: Client) -> None:
        await fail_a_request(client, "ops")
        assert await rights(client, "scraper") == ["operator"]
        for path in ("/v1/keys", "/v1/sources", "/v1/approvals", "/v1/engines"):
            assert (await client.get(path, bearer("scraper"))).status == 403
        assert (await client.get("/v1/traces", bearer("scraper"))).json()["data"] == []

    run(story, OPS, SCRAPER)


@pytest.mark.parametrize("who, sees_all", [("eve", False), ("boss", False), ("ops", True)])
def test_errors_of_engines_are_for_operators(who: str, sees_all: bool) -> None:
    async def story(client: Client) -> None:
        tool = await client.get("/v1/tools/look", bearer(who))
        assert (FAR in tool.json()["enforcement"][0]["why"]) is sees_all
        await fail_a_request(client, "boss")
        (engine,) = (await client.get("/v1/engines", bearer(who))).json()["data"]
        assert engine["state"] == "resting"
        assert (FAR in engine["why"]) is sees_all

    run(story, BOSS, EVE, OPS)


def test_addresses_of_engines_are_for_operators(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    save_profile(Profile(f"http://{FAR}:1", "small", "2026-01-31"))

    async def story(client: Client) -> None:
        for who, sees_all in (("eve", False), ("boss", False), ("ops", True)):
            (engine,) = (await client.get("/v1/engines", bearer(who))).json()["data"]
            assert (FAR in engine["profile"]["url"]) is sees_all

    run(story, BOSS, EVE, OPS, engines=(EngineConfig(name="e0", use=f"llama-server:http://{FAR}:1"),))


def test_a_tenants_admin_sees_the_sources_and_tools_that_its_key_may_use_and_no_server_answers() -> None:
    async def story(client: Client) -> None:
        listed = await client.get("/v1/sources", bearer("narrow"))
        fits("Sources", listed.json())
        (near,) = listed.json()["data"]
        assert (near["name"], near["state"], near["tools"]) == ("near", "failed", ["look"])
        assert (near["why"], near["quarantined"], listed.json()["notices"]) == ("", [], [])
        (_, hidden) = (await client.get("/v1/sources", bearer("eve"))).json()["data"]
        assert (hidden["tools"], hidden["why"], hidden["quarantined"]) == (["pay"], "", [])
        for who in ("narrow", "eve"):
            assert FAR.encode() not in (await client.get("/v1/sources", bearer(who))).body
            assert (await client.get("/v1/tools", bearer(who))).json()["notices"] == []
        everything = (await client.get("/v1/sources", bearer("ops"))).json()
        assert [FAR in one["why"] for one in everything["data"]] == [True, True]
        assert [one["tool"] for one in everything["data"][1]["quarantined"]] == ["send", "odd"]
        assert everything["notices"] == (await client.get("/v1/tools", bearer("ops"))).json()["notices"] != []

    narrow = key("narrow", tenant="narrow", **{**ADMIN, "sources": ("near",)})
    run(story, BOSS, EVE, OPS, narrow)


def test_an_admin_still_reads_what_an_engine_said_to_its_own_tenant_and_nothing_of_another_ones() -> None:
    async def story(client: Client) -> None:
        await fail_a_request(client, "boss")
        await client.gateway.traces.flush()
        (trace,) = (await client.get("/v1/traces", bearer("boss"))).json()["data"]
        shown = (await client.get(f"/v1/traces/{trace['id']}", bearer("boss"))).json()
        assert FAR in shown["requests"][0]["error"]["message"]
        for who in ("eve", "ops"):
            assert (await client.get("/v1/traces", bearer(who))).json()["data"] == []
            assert (await client.get(f"/v1/traces/{trace['id']}", bearer(who))).status == 404

    run(story, BOSS, EVE, OPS)


def test_with_one_tenant_its_admins_are_operators_as_before() -> None:
    async def story(client: Client) -> None:
        assert await rights(client, "boss") == ["admin", "approve", "models", "operator", "tools"]
        assert await statuses(client, "boss") == [200, 200]
        assert await statuses(client, "ann") == [403, 403]
        assert (await client.get("/v1/sources", bearer("boss"))).json()["notices"] != []
        # A key of the ledger too.
        made = (await client.post("/v1/keys", {"name": "second", "admin": True}, bearer("boss"))).json()
        assert await statuses(client, made["key"]) == [200, 200]

    run(story, BOSS, key("ann", tenant="acme", tools=("*",), approve=True))


def test_a_second_tenant_in_the_ledger_ends_that_and_its_last_key_does_not_bring_it_back(tmp_path: Path) -> None:
    ledger = str(tmp_path / "ledger.db")

    async def story(client: Client) -> None:
        assert await statuses(client, "boss") == [200, 200]
        mallory = await add_key(client, "mallory", "evil", admin=True)
        assert await statuses(client, "boss") == await statuses(client, mallory) == [403, 403]
        (one,) = (await client.get("/v1/keys", bearer(mallory))).json()["data"]
        assert (await client.post(f"/v1/keys/{one['id']}/revoke", None, bearer(mallory))).status == 200
        # What evil has done is still in the counters.
        assert await statuses(client, "boss") == [403, 403]

    async def after_a_restart(client: Client) -> None:
        assert await statuses(client, "boss") == [403, 403]
        assert await statuses(client, await add_key(client, "ops", "ops", operator=True)) == [200, 200]

    run(story, BOSS, ledger=ledger)
    run(after_a_restart, BOSS, ledger=ledger)


def test_keys_of_the_ledger_alone_count_as_tenants_too() -> None:
    async def story(client: Client) -> None:
        first = await add_key(client, "first", "acme", admin=True)
        assert await statuses(client, first) == [200, 200]
        second = await add_key(client, "second", "evil", admin=True)
        assert await statuses(client, first) == await statuses(client, second) == [403, 403]

    run(story)


def test_no_key_makes_an_operator_unless_it_was_made_one_itself() -> None:
    async def story(client: Client) -> None:
        wanted = {"name": "mine", "operator": True}
        for who in ("boss", "eve", "ops"):
            made = await client.post("/v1/keys", wanted, bearer(who))
            assert made.status == (201 if who == "ops" else 403), made.body
        # For another tenant not even an operator does.
        assert (await client.post("/v1/keys", {**wanted, "tenant": "evil"}, bearer("ops"))).status == 403
        # The text of an operator's key is not to be had by rotation.
        await add_key(client, "scraper", "evil", operator=True)
        (stored,) = (await client.get("/v1/keys", bearer("eve"))).json()["data"]
        fits("Key", stored)
        assert stored["operator"] is True
        refused = await client.post(f"/v1/keys/{stored['id']}/rotate", None, bearer("eve"))
        assert (refused.status, "operator" in refused.json()["error"]["message"]) == (403, True)

    run(story, BOSS, EVE, OPS)


def test_an_admin_of_the_only_tenant_makes_no_operator_that_outlives_this() -> None:
    async def story(client: Client) -> None:
        assert "operator" in await rights(client, "boss")
        assert (await client.post("/v1/keys", {"name": "later", "operator": True}, bearer("boss"))).status == 403

    run(story, BOSS)


def test_a_reload_with_a_second_tenant_takes_the_right_from_the_admins() -> None:
    async def story(client: Client) -> None:
        assert await statuses(client, "boss") == [200, 200]
        await client.gateway.keys.set_config(replace(client.gateway.config, keys=(BOSS, EVE)))
        assert await statuses(client, "boss") == await statuses(client, "eve") == [403, 403]

    run(story, BOSS)


def test_while_the_keys_could_not_be_read_an_admin_is_no_operator_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(client: Client) -> None:
        keys = client.gateway.keys
        monkeypatch.setattr(keys, "_number", None)

        async def fail() -> int:
            raise LedgerUnavailableError("the ledger is away")

        monkeypatch.setattr(client.gateway.ledger, "key_number", fail)
        assert await statuses(client, "boss") == [503, 503]
        assert await statuses(client, "ops") == [200, 200]

    run(story, BOSS, replace(OPS, tenant="acme"))


@pytest.mark.parametrize(
    "tenants, is_one", [(("acme",), True), (("acme", "evil"), False), (("acme-*",), False), (("*",), False)]
)
def test_a_tenant_claim_that_may_name_several_tenants_counts_as_several(tenants: tuple[str, ...], is_one: bool) -> None:
    provider = IdentityConfig(name="corp", issuer="https://far", audience=("us",), tenant_claim="org", tenants=tenants)
    config = Config(engines=(), identity=(provider,))
    assert is_one_tenant(config.tenants) is is_one
    of_one = replace(config, identity=(replace(provider, tenant_claim="", tenant="acme"),))
    assert is_one_tenant(of_one.tenants)
    assert not is_one_tenant(replace(of_one, keys=(EVE,)).tenants)
