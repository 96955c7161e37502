"""Row 29: an admin administers one tenant. What concerns the whole gateway needs an operator, in every route."""

from __future__ import annotations

import asyncio

from ferrule.server.http import OPERATOR
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from threats.gateway_fixture import ANN, CHAT, EVE, EVERYTHING, KEYS, USER, call, keyed_routes, tools

OPS = "ops-of-the-gateway"
NARROW = key(EVE, tenant="evil", **{**EVERYTHING, "tools": ("read",)})
OPERATOR_KEY = key(OPS, tenant="ops", **EVERYTHING, operator=True)


async def _act(client: Client) -> list[str]:
    """Let acme use a tool that evil may not use. Returns what only acme and the operator may read of it."""
    body = {"model": "e0", "messages": USER}
    answer = (await client.post(CHAT, body, {**bearer(ANN), "x-request-id": "x"})).json()
    waiting = next(one["waiting"] for one in answer["ferrule"]["events"] if "waiting" in one)
    await client.gateway.traces.flush()
    return ['"send"', waiting["conversation"], waiting["approvals"][0], ANN, "acme", "ferrule_calls_total"]


async def _read_all(client: Client, who: str) -> bytes:
    """What a key reads of all routes that need nothing but a key, and of a reload."""
    routes = [one for one in keyed_routes(client) if "{" not in one.path]
    pages = [await client.get(one.path, bearer(who)) for one in routes if one.method == "GET"]
    pages += [await client.post(one.path, None, bearer(who)) for one in routes if one.scope == OPERATOR]
    return b"\n".join(page.body for page in pages)


def test_no_page_shows_an_admin_what_another_tenant_does() -> None:
    async def scenario() -> None:
        config = config_with_keys(*KEYS[:2], NARROW, OPERATOR_KEY)
        async with gateway_of(scripted_engine(call("send", to="x")), sources=[tools()], config=config) as client:
            secrets = await _act(client)
            text = await _read_all(client, EVE)
            assert [one for one in secrets if one.encode() in text] == []
            # They are there to be read.
            own, all_of_it = await _read_all(client, ANN), await _read_all(client, OPS)
            assert [one for one in secrets[:-1] if one.encode() not in own] == []
            assert b"ferrule_calls_total" in all_of_it
            assert [one for one in secrets[1:5] if one.encode() in all_of_it] == []

    asyncio.run(scenario())


def test_what_concerns_the_whole_gateway_is_refused_to_the_admin_of_one_of_its_tenants() -> None:
    async def scenario() -> None:
        config = config_with_keys(*KEYS, OPERATOR_KEY)
        async with gateway_of(scripted_engine(), sources=[tools()], config=config) as client:
            routes = [one for one in keyed_routes(client) if one.scope == OPERATOR]
            assert {one.path for one in routes} == {"/metrics", "/v1/reload"}
            for route in routes:
                for who in (ANN, EVE):
                    refused = await client.request(route.method, route.path, None, bearer(who))
                    assert (refused.status, refused.json()["error"]["code"]) == (403, "token_scope_insufficient")
                assert (await client.request(route.method, route.path, None, bearer(OPS))).status != 403

    asyncio.run(scenario())


def test_an_admin_cannot_become_an_operator_with_the_keys_that_it_makes() -> None:
    async def scenario() -> None:
        config = config_with_keys(*KEYS, OPERATOR_KEY)
        async with gateway_of(scripted_engine(), config=config) as client:
            made = await client.post("/v1/keys", {"name": "x", "admin": True}, bearer(EVE))
            assert made.status == 201
            for who in (EVE, made.json()["key"]):
                for tenant in ("evil", "acme", "ops"):
                    body = {"name": "x", "operator": True, "tenant": tenant}
                    assert (await client.post("/v1/keys", body, bearer(who))).status == 403
                assert (await client.get("/metrics", bearer(who))).status == 403

    asyncio.run(scenario())
