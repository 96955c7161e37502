"""Callers with tokens of an identity provider, in every API: what they may do, and how they are refused."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from ferrule.core.call import ToolCall
from ferrule.core.reply import Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.server.config.config import Config
from ferrule.server.config.identity import RoleConfig
from server.client import Client, ClientResponse, gateway_of, scripted_engine
from server.issuer import Issuer, issuer
from server.keys import bearer, config_with_keys, key, key_protocol
from server.tool_world import World, run_story
from server.websocket_client import connect
from waiting import PATIENCE, until

HELLO: list[dict[str, Any]] = [{"role": "user", "content": "Hi"}]
APIS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"model": "e0", "messages": HELLO}),
    "chat, streamed": ("/v1/chat/completions", {"model": "e0", "messages": HELLO, "stream": True}),
    "responses": ("/v1/responses", {"model": "e0", "input": "Hi"}),
    "messages": ("/v1/messages", {"model": "e0", "messages": HELLO, "max_tokens": 9}),
    "mcp": ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}),
}
ROLES = (
    RoleConfig(name="user", tools=("look", "pay")),
    RoleConfig(name="looker", tools=("look",), models=()),
    RoleConfig(name="boss", tools=("*",), approve=True, admin=True),
    RoleConfig(name="operator", models=(), operator=True),
    RoleConfig(name="slow", rate=2),
    RoleConfig(name="narrow", width=1),
)


@pytest.fixture
def provider() -> Iterator[Issuer]:
    with issuer() as one:
        yield one


def in_gateway(config: Config, scenario: Callable[[Client], Awaitable[None]], *replies: Any) -> None:
    async def run() -> None:
        async with gateway_of(scripted_engine(*(replies or ["Hello."] * 9)), config=config) as client:
            await scenario(client)

    asyncio.run(run())


def code_of(answer: ClientResponse) -> str:
    body = answer.json()
    error = body["ferrule"]["error"] if "ferrule" in body else body["error"]
    return error["data"]["code"] if "jsonrpc" in body else error["code"]


@pytest.mark.parametrize("api", APIS)
def test_every_api_serves_a_good_token_and_says_what_is_wrong_with_another(provider: Issuer, api: str) -> None:
    path, body = APIS[api]

    async def scenario(client: Client) -> None:
        assert (await client.post(path, body, bearer(provider.token()))).status == 200
        now = int(time.time())
        for token, expected in (
            (provider.token(exp=now - 3600), "token_expired"),
            (provider.token(aud="https://other.example"), "token_audience"),
            (provider.token(nbf=now + 3600), "token_not_yet_valid"),
            (provider.token(header={"kid": "other"}), "token_unknown_key"),
            (provider.token()[:-4] + "AAAA", "token_signature"),
        ):
            answer = await client.post(path, body, bearer(token))
            assert (answer.status, code_of(answer)) == (401, expected)
            challenge = answer.headers["www-authenticate"]
            assert challenge.startswith('Bearer realm="ferrule", error="invalid_token", error_description="the ')
            assert token.rpartition(".")[2].encode() not in answer.body + challenge.encode()
        answer = await client.post(path, body)
        assert (answer.status, answer.headers["www-authenticate"]) == (401, 'Bearer realm="ferrule"')
        answer = await client.post(path, body, {"x-api-key": provider.token()})
        assert (answer.status, code_of(answer)) == (401, "token_misplaced")

    in_gateway(provider.config(), scenario)


def test_keys_work_beside_tokens_and_never_together_with_one(provider: Issuer) -> None:
    path, body = APIS["chat"]
    config = provider.config(key("ann", tenant="acme"), key("dotted", text="a.b.c"))

    async def scenario(client: Client) -> None:
        token = provider.token()
        for headers, status in (
            (bearer("ann"), 200),
            ({"x-api-key": "ann"}, 200),
            (bearer("a.b.c"), 200),
            (bearer(token), 200),
            ({**bearer(token), "x-api-key": token}, 200),
            ({**bearer(token), "x-api-key": "ann"}, 401),
            ({**bearer(token), "x-api-key": provider.token(sub="bob")}, 401),
            ({**bearer("ann"), "x-api-key": token}, 401),
        ):
            assert (await client.post(path, body, headers)).status == status, headers

    in_gateway(config, scenario)


def test_without_identity_providers_a_token_is_an_unknown_key(provider: Issuer) -> None:
    path, body = APIS["chat"]

    async def scenario(client: Client) -> None:
        answer = await client.post(path, body, bearer(provider.token()))
        assert (answer.status, code_of(answer)) == (401, "unauthenticated")
        assert provider.requests == []

    in_gateway(config_with_keys(key("ann")), scenario)


def test_a_provider_that_is_away_is_a_failure_to_retry(provider: Issuer) -> None:
    path, body = APIS["chat"]
    provider.pages["/jwks"] = (500, {}, b"")

    async def scenario(client: Client) -> None:
        answer = await client.post(path, body, bearer(provider.token()))
        assert (answer.status, code_of(answer)) == (503, "identity_unavailable")
        assert (answer.headers["x-should-retry"], "www-authenticate" in answer.headers) == ("true", False)

    in_gateway(provider.config(), scenario)


def test_me_shows_who_the_caller_is_and_roles_decide_what_it_may(provider: Issuer) -> None:
    async def scenario(client: Client) -> None:
        body = (await client.get("/v1/me", bearer(provider.token(roles=["user", "boss"])))).json()
        assert (body["name"], body["tenant"], body["needs_key"]) == ("corp:ann", "acme", True)
        assert body["rights"] == ["admin", "approve", "models", "tools"]
        answer = await client.get("/metrics", bearer(provider.token()))
        assert (answer.status, code_of(answer)) == (403, "token_scope_insufficient")
        # The claim may name several tenants, so that an admin of one is no operator.
        answer = await client.get("/metrics", bearer(provider.token(roles=["boss"])))
        assert (answer.status, "Get a token with a role that has operator" in answer.json()["error"]["message"]) == (
            403,
            True,
        )
        assert (await client.get("/metrics", bearer(provider.token(roles=["operator"])))).status == 200
        answer = await client.get("/v1/me", bearer(provider.token(roles=["stranger"])))
        assert (answer.status, code_of(answer)) == (403, "token_without_role")
        path, chat = APIS["chat"]
        assert (await client.post(path, chat, bearer(provider.token(roles=["looker"])))).status == 403
        # An admin hands on only what the token grants.
        admin = bearer(provider.token(roles=["boss"]))
        made = await client.post("/v1/keys", {"name": "app", "tools": ["look"]}, admin)
        assert (made.status, made.json()["created_by"], made.json()["tenant"]) == (201, "corp:ann", "acme")
        assert (await client.post("/v1/keys", {"name": "x", "live_arguments": True}, admin)).status == 403

    in_gateway(provider.config(defined_roles=ROLES), scenario)


def test_the_caller_travels_to_the_tool_and_tenants_stay_apart(provider: Issuer) -> None:
    async def story(world: World) -> None:
        async def call(token: str, name: str) -> Any:
            body = {"name": name, "arguments": {"place": "Bern"} if name == "look" else {"amount": 3}}
            return await world.client.post("/v1/tools/call", body, bearer(token))

        ann, eve = provider.token(), provider.token(tenant="evil", roles=["boss"])
        assert (await call(ann, "look")).status == 200
        principal = world.contexts[0].principal
        assert (principal.name, principal.tenant) == ("corp:ann", "acme")
        assert (await call(provider.token(roles=["looker"]), "pay")).status == 403
        waiting = (await call(ann, "pay")).json()["approval"]
        # The same name in another tenant, with every right there.
        for path in (f"/v1/approvals/{waiting['id']}", f"/v1/conversations/{waiting['conversation']}"):
            assert (await world.client.get(path, bearer(eve))).status == 404
        assert (await world.client.post(f"/v1/approvals/{waiting['id']}", {"approve": True}, bearer(eve))).status == 404
        assert world.done["pay"] == 0

    run_story(story, config=provider.config(defined_roles=ROLES))


CONVERSATIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HELLO, "ferrule": {"tools": ["pay"]}}),
    "responses": (
        "/v1/responses",
        {
            "input": "Hi",
            "tools": [
                {"type": "mcp", "server_label": "ferrule", "require_approval": "always", "allowed_tools": ["pay"]}
            ],
        },
    ),
    "call": ("/v1/tools/call", {"name": "pay", "arguments": {"amount": 3}, "call_id": "c"}),
}


@pytest.mark.parametrize("api", CONVERSATIONS)
def test_an_approved_conversation_continues_with_what_the_token_granted(provider: Issuer, api: str) -> None:
    path, body = CONVERSATIONS[api]

    async def story(world: World) -> None:
        ann, boss = bearer(provider.token()), bearer(provider.token(sub="boss", roles=["boss"]))
        await world.client.post(path, body, ann)
        # Another process has not seen the token.
        world.client.gateway.keys._callers.clear()
        (approval,) = (await world.client.get("/v1/approvals?state=pending", boss)).json()["data"]
        assert (await world.client.post(f"/v1/approvals/{approval['id']}", {"approve": True}, boss)).status == 200
        result = f"/v1/conversations/{approval['conversation']}/result"
        async with asyncio.timeout(PATIENCE):
            while (view := (await world.client.get(result, ann)).json())["status"] in ("waiting", "running"):
                await asyncio.sleep(0.05)
        assert (view["status"], world.done["pay"]) == ("completed", 1), view

    replies = [Reply.of(ToolCall.of("pay", {"amount": 3}, id="c1")), "Paid."]
    run_story(story, config=provider.config(defined_roles=ROLES), replies=replies)


def test_limits_of_a_role_count_for_each_caller_alone(provider: Issuer) -> None:
    path, body = APIS["chat"]

    async def scenario(client: Client) -> None:
        ann, bob = (bearer(provider.token(sub=name, roles=["slow"])) for name in ("ann", "bob"))
        for _ in range(2):
            assert (await client.post(path, body, ann)).status == 200
        # A second token of the same caller gets no requests of its own, also after keys have changed.
        more = bearer(provider.token(sub="ann", roles=["slow"], jti="2"))
        assert (await client.post(path, body, more)).status == 429
        await client.gateway.keys.set_config(client.gateway.config)
        assert (await client.post(path, body, more)).status == 429
        assert (await client.post(path, body, bob)).status == 200

    in_gateway(provider.config(defined_roles=ROLES), scenario)


def test_a_reload_takes_up_other_roles_and_ends_those_that_are_gone(provider: Issuer) -> None:
    path, body = APIS["chat"]

    async def scenario(client: Client) -> None:
        token = bearer(provider.token())
        assert (await client.post(path, body, token)).status == 200
        await client.gateway.keys.set_config(replace(client.gateway.config, roles=ROLES[1:]))
        answer = await client.post(path, body, token)
        assert (answer.status, code_of(answer)) == (403, "token_without_role")
        assert provider.fetches == 1

    in_gateway(provider.config(defined_roles=ROLES), scenario)


@pytest.mark.parametrize("as_protocol", [False, True])
def test_a_websocket_takes_a_token_and_ends_with_it(provider: Issuer, as_protocol: bool) -> None:
    def headers(token: str) -> dict[str, str]:
        protocols = {"sec-websocket-protocol": f"ferrule.v1, {key_protocol(token)}"}
        return protocols if as_protocol else bearer(token)

    async def scenario(client: Client) -> None:
        expired = provider.token(exp=int(time.time()) - 3600)
        async with connect(client, headers(expired)) as socket:
            await until(lambda: socket.closed is not None)
            assert (socket.is_accepted, socket.reason) == (False, "token_expired")
        async with connect(client, headers(provider.token())) as socket:
            await socket.send(AskFrame(APIS["chat"][1]))
            assert isinstance((await socket.to_end()).frame, out.DoneFrame)
            (record,) = client.gateway.telemetry.requests
            assert record.token_expires_at > time.time()
            record.token_expires_at = 0.0
            await until(lambda: socket.closed is not None)
            assert (socket.closed, socket.reason) == (1008, "token_expired")

    in_gateway(provider.config(), scenario)


def test_a_frame_after_the_end_of_its_token_begins_nothing(provider: Issuer) -> None:
    async def scenario(client: Client) -> None:
        async with connect(client, bearer(provider.token())) as socket:
            await until(lambda: socket.is_accepted)
            store = client.gateway.keys
            (caller,) = store._callers.values()
            expired = replace(caller, expires_at=0.0)
            with pytest.raises(Exception, match="the token has expired"):
                store.check(expired)

    in_gateway(provider.config(), scenario)
