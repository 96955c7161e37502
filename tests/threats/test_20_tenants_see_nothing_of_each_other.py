"""Row 20: everything is kept by tenant, principal and id, from the key that was verified. Ids alone open nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.server.app import routes_of
from server.client import Client, speaking
from server.keys import bearer
from threats.house import ANN, BOB, EVE, bodies, call, chat, closed_routes, endless, filled, house, tools


async def made(client: Client, who: str) -> dict[str, str]:
    """Everything with an id that somebody can make."""
    told = (await chat(client, who)).json()
    found = next(one["waiting"] for one in told["ferrule"]["asides"] if "waiting" in one)
    ids = {"conversation": found["conversation"], "approval": found["approvals"][0]}
    stored = (await client.post("/v1/responses", {"model": "e0", "input": "Hi."}, bearer(who))).json()
    return {**ids, "response": stored.get("id", "resp_none")}


def naming(id: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("conversation", "previous_response_id", "call_id"), id),
        "ferrule": {"resume": id},
        "input": [{"type": "mcp_approval_response", "approval_request_id": id, "approve": True}],
    }


def test_every_id_of_one_tenant_is_to_another_as_if_it_were_not_there() -> None:
    async def scenario() -> None:
        source = tools()
        replies = [call("send", to="x"), *["Done."] * 400]
        async with house(*replies, source=source) as client:
            ids = await made(client, ANN)
            for route in closed_routes(client):
                if "{" not in route.path:
                    continue
                for id in ids.values():
                    theirs = await client.ask(route.method, filled(route.path, id), {"approve": True}, bearer(EVE))
                    nobodys = await client.ask(route.method, filled(route.path, "none"), {"approve": True}, bearer(EVE))
                    assert theirs.status == nobodys.status == 404, (route.path, theirs.status, theirs.body)
                    assert theirs.body.replace(id.encode(), b"none") == nobodys.body
            for route in (one for one in routes_of(client.gateway) if one.method == "POST" and "{" not in one.path):
                for kind, id in ids.items():
                    for name, value in naming(id).items():
                        for body in bodies(route, **{name: value}):
                            await client.ask(route.method, route.path, body, bearer(EVE))
                    assert source.called == [] or {one[2].principal.tenant for one in source.called} == {"evil"}, kind
            # And nothing of it was changed meanwhile.
            assert (await client.get(f"/v1/approvals/{ids['approval']}", bearer(ANN))).json()["state"] == "pending"
            assert (await client.get(f"/v1/conversations/{ids['conversation']}", bearer(ANN))).status == 200

    asyncio.run(scenario())


def test_lists_hold_what_is_ones_own() -> None:
    async def scenario() -> dict[str, int]:
        async with house(call("send", to="x"), *["Done."] * 9) as client:
            ids = await made(client, ANN)
            seen: dict[str, int] = {}
            for route in routes_of(client.gateway):
                if route.method == "GET" and "{" not in route.path:
                    body = (await client.get(route.path, bearer(EVE))).body.decode()
                    seen[route.path] = sum(id in body for id in ids.values())
            return seen

    assert set(asyncio.run(scenario()).values()) == {0}


def test_within_a_tenant_a_conversation_is_its_principals() -> None:
    async def scenario() -> list[int]:
        async with house(call("send", to="x"), *["Done."] * 9) as client:
            ids = await made(client, ANN)
            path = f"/v1/conversations/{ids['conversation']}"
            resumed = await chat(client, BOB, ferrule={"resume": ids["conversation"]})
            return [(await client.get(path, bearer(BOB))).status, resumed.status]

    assert asyncio.run(scenario()) == [404, 404]


@settings(max_examples=10)
@given(st.lists(st.sampled_from([ANN, BOB, EVE]), min_size=2, max_size=6), st.sampled_from(["1", "same", "call_1"]))
def test_clients_that_choose_the_same_ids_get_their_own_answers(who: list[str], id: str) -> None:
    async def scenario() -> list[tuple[str, str]]:
        source = tools()
        async with house(engine=endless(), source=source) as client:
            body = {"name": "read", "arguments": {"what": "x"}, "call_id": id, "conversation": id}
            await asyncio.gather(*(client.post("/v1/tools/call", body, bearer(one)) for one in who))
            rpc = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
            answers = await asyncio.gather(*(client.post("/mcp", rpc, bearer(one)) for one in who))
            assert all(answer.json()["id"] == id for answer in answers if answer.status == 200)
            return [(context.principal.name, context.principal.tenant) for _, _, context in source.called]

    ran = asyncio.run(scenario())
    assert {name for name, _ in ran} == set(who)
    assert all(tenant == ("evil" if name == EVE else "acme") for name, tenant in ran)


def test_nothing_in_a_request_says_who_asks() -> None:
    async def scenario() -> list[str]:
        source = tools()
        async with house(engine=speaking(call("read", what="x"), "Done."), source=source) as client:
            claims = {
                "user": "root",
                "tenant": "evil",
                "principal": EVE,
                "metadata": {"user_id": EVE, "tenant": "evil"},
            }
            headers = {"x-tenant": "evil", "x-user": EVE, "openai-organization": "evil", "openai-project": "evil"}
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hi."}], **claims}
            await client.post("/v1/chat/completions", body, {**headers, **bearer(BOB)})
            return [f"{context.principal.name} of {context.principal.tenant}" for _, _, context in source.called]

    assert asyncio.run(scenario()) == [f"{BOB} of acme"]
