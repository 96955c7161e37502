"""Row 20: records are looked up by tenant, principal and ID, from the verified key. An ID alone grants nothing."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from ferrule.server.app import routes_of
from server.client import Client, scripted_engine
from server.keys import bearer
from threats.gateway_fixture import (
    ANN,
    BOB,
    EVE,
    bodies,
    call,
    chat,
    endless_engine,
    fill_path,
    keyed_routes,
    threat_gateway,
    tools,
)


async def create_records(client: Client, who: str) -> dict[str, str]:
    """Create one record of each kind that has an ID."""
    response = (await chat(client, who)).json()
    pending = next(one["waiting"] for one in response["ferrule"]["events"] if "waiting" in one)
    ids = {"conversation": pending["conversation"], "approval": pending["approvals"][0]}
    stored_response = (await client.post("/v1/responses", {"model": "e0", "input": "Hi."}, bearer(who))).json()
    return {**ids, "response": stored_response.get("id", "resp_none")}


def fields_with_id(id: str) -> dict[str, Any]:
    return {
        **dict.fromkeys(("conversation", "previous_response_id", "call_id"), id),
        "ferrule": {"resume": id},
        "input": [{"type": "mcp_approval_response", "approval_request_id": id, "approve": True}],
    }


def test_ids_of_one_tenant_do_not_exist_for_another() -> None:
    async def scenario() -> None:
        source = tools()
        replies = [call("send", to="x"), *["Done."] * 400]
        async with threat_gateway(*replies, source=source) as client:
            ids = await create_records(client, ANN)
            for route in keyed_routes(client):
                if "{" not in route.path:
                    continue
                for id in ids.values():
                    theirs = await client.request(
                        route.method, fill_path(route.path, id), {"approve": True}, bearer(EVE)
                    )
                    nobodys = await client.request(
                        route.method, fill_path(route.path, "none"), {"approve": True}, bearer(EVE)
                    )
                    assert theirs.status == nobodys.status == 404, (route.path, theirs.status, theirs.body)
                    assert theirs.body.replace(id.encode(), b"none") == nobodys.body
            for route in (one for one in routes_of(client.gateway) if one.method == "POST" and "{" not in one.path):
                for kind, id in ids.items():
                    for name, value in fields_with_id(id).items():
                        for body in bodies(route, **{name: value}):
                            await client.request(route.method, route.path, body, bearer(EVE))
                    assert source.calls == [] or {one[2].principal.tenant for one in source.calls} == {"evil"}, kind
            # And nothing was changed.
            assert (await client.get(f"/v1/approvals/{ids['approval']}", bearer(ANN))).json()["state"] == "pending"
            assert (await client.get(f"/v1/conversations/{ids['conversation']}", bearer(ANN))).status == 200

    asyncio.run(scenario())


def test_lists_show_only_records_of_the_own_tenant() -> None:
    async def scenario() -> dict[str, int]:
        async with threat_gateway(call("send", to="x"), *["Done."] * 9) as client:
            ids = await create_records(client, ANN)
            id_counts: dict[str, int] = {}
            for route in routes_of(client.gateway):
                if route.method == "GET" and "{" not in route.path:
                    body = (await client.get(route.path, bearer(EVE))).body.decode()
                    id_counts[route.path] = sum(id in body for id in ids.values())
            return id_counts

    assert set(asyncio.run(scenario()).values()) == {0}


def test_within_a_tenant_a_conversation_belongs_to_its_principal() -> None:
    async def scenario() -> list[int]:
        async with threat_gateway(call("send", to="x"), *["Done."] * 9) as client:
            ids = await create_records(client, ANN)
            path = f"/v1/conversations/{ids['conversation']}"
            resumed = await chat(client, BOB, ferrule={"resume": ids["conversation"]})
            return [(await client.get(path, bearer(BOB))).status, resumed.status]

    assert asyncio.run(scenario()) == [404, 404]


@settings(max_examples=10)
@given(st.lists(st.sampled_from([ANN, BOB, EVE]), min_size=2, max_size=6), st.sampled_from(["1", "same", "call_1"]))
def test_clients_that_choose_the_same_ids_get_their_own_answers(who: list[str], id: str) -> None:
    async def scenario() -> list[tuple[str, str]]:
        source = tools()
        async with threat_gateway(engine=endless_engine(), source=source) as client:
            body = {"name": "read", "arguments": {"what": "x"}, "call_id": id, "conversation": id}
            await asyncio.gather(*(client.post("/v1/tools/call", body, bearer(one)) for one in who))
            rpc = {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
            answers = await asyncio.gather(*(client.post("/mcp", rpc, bearer(one)) for one in who))
            assert all(answer.json()["id"] == id for answer in answers if answer.status == 200)
            return [(context.principal.name, context.principal.tenant) for _, _, context in source.calls]

    callers = asyncio.run(scenario())
    assert {name for name, _ in callers} == set(who)
    assert all(tenant == ("evil" if name == EVE else "acme") for name, tenant in callers)


def test_no_field_of_a_request_changes_the_principal() -> None:
    async def scenario() -> list[str]:
        source = tools()
        async with threat_gateway(engine=scripted_engine(call("read", what="x"), "Done."), source=source) as client:
            claims = {
                "user": "root",
                "tenant": "evil",
                "principal": EVE,
                "metadata": {"user_id": EVE, "tenant": "evil"},
            }
            headers = {"x-tenant": "evil", "x-user": EVE, "openai-organization": "evil", "openai-project": "evil"}
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hi."}], **claims}
            await client.post("/v1/chat/completions", body, {**headers, **bearer(BOB)})
            return [f"{context.principal.name} of {context.principal.tenant}" for _, _, context in source.calls]

    assert asyncio.run(scenario()) == [f"{BOB} of acme"]
