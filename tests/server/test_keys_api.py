"""`/v1/keys`: keys in the ledger, made and ended while the gateway runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ferrule.core.context import Principal, matches
from ferrule.run.ledger.keys import KeyPermissions
from ferrule.schema.tool_decorator import tool
from ferrule.server.auth.issued_keys import issue_key
from ferrule.server.config.config import Config
from ferrule.sources.functions import Functions
from server.client import Client, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key
from server.paced import Paced
from waiting import until

ROOT = key("root", tenant="acme", models=("*",), tools=("*",), approve=True, admin=True)
CHAT = {"model": "e0", "messages": [{"role": "user", "content": "Hi"}]}


@tool
def get_weather(city: str) -> str:
    """The weather."""
    return f"sunny in {city}"


@tool
def delete_city(city: str) -> str:
    """Delete."""
    return "gone"


def in_gateway(
    scenario: Callable[[Client], Awaitable[None]], *keys: Any, engine: Any = None, config: Config | None = None
) -> None:
    async def run() -> None:
        engines = engine or scripted_engine(*["Hello."] * 9)
        tools = Functions([get_weather, delete_city], id="local")
        async with gateway_of(engines, sources=[tools], config=config or config_with_keys(*keys)) as client:
            await scenario(client)

    asyncio.run(run())


async def created(client: Client, by: str = "root", **body: Any) -> Any:
    answer = await client.post("/v1/keys", body, bearer(by))
    assert answer.status == 201, answer.body
    return answer.json()


def test_a_created_key_works_at_once_and_only_for_what_it_may_use() -> None:
    async def scenario(client: Client) -> None:
        made = await created(client, name="app", models=["e*"], tools=["get_*"])
        assert made["key"].startswith("fk_")
        assert (made["tenant"], made["status"], made["created_by"]) == ("acme", "active", "root")
        assert (await client.post("/v1/chat/completions", CHAT, bearer(made["key"]))).status == 200
        tools = (await client.get("/v1/tools", bearer(made["key"]))).json()["data"]
        assert [one["name"] for one in tools] == ["get_weather"]
        call = {"name": "delete_city", "arguments": {"city": "Bern"}}
        assert (await client.post("/v1/tools/call", call, bearer(made["key"]))).status == 403
        other = await created(client, name="other", models=["x*"], sources=["elsewhere"], tools=["*"])
        assert (await client.post("/v1/chat/completions", CHAT, bearer(other["key"]))).status == 403
        assert (await client.get("/v1/tools", bearer(other["key"]))).json()["data"] == []
        call = {"name": "get_weather", "arguments": {"city": "Bern"}}
        assert (await client.post("/v1/tools/call", call, bearer(other["key"]))).status == 400
        none = await created(client, name="none", sources=[], tools=["*"])
        assert (await client.get("/v1/tools", bearer(none["key"]))).json()["data"] == []

    in_gateway(scenario, ROOT)


def test_a_list_shows_keys_of_the_tenant_without_their_texts_and_hashes() -> None:
    async def scenario(client: Client) -> None:
        ids = [(await created(client, name=f"app{at}"))["id"] for at in range(3)]
        await created(client, by="eve", name="evil")
        page = await client.get("/v1/keys?limit=2", bearer("root"))
        assert [one["id"] for one in page.json()["data"]] == ids[:0:-1]
        assert page.json()["has_more"] is True
        assert b"fk_" not in page.body
        assert b"sha256" not in page.body
        rest = await client.get(f"/v1/keys?after={ids[1]}", bearer("root"))
        assert [one["id"] for one in rest.json()["data"]] == ids[:1]
        assert (await client.get(f"/v1/keys/{ids[0]}", bearer("root"))).json()["name"] == "app0"
        assert (await client.get(f"/v1/keys/{ids[0]}", bearer("eve"))).status == 404
        assert (await client.post(f"/v1/keys/{ids[0]}/revoke", None, bearer("eve"))).status == 404
        assert (await client.get(f"/v1/keys?after={ids[0]}", bearer("eve"))).status == 400

    in_gateway(scenario, ROOT, key("eve", tenant="evil", admin=True))


def test_only_the_hash_of_a_key_is_in_the_ledger(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"

    async def scenario(client: Client) -> None:
        made = await created(client, name="app")
        stored = b"".join(one.read_bytes() for one in tmp_path.iterdir())
        assert made["id"].encode() in stored
        assert made["key"].encode() not in stored

    in_gateway(scenario, config=replace(config_with_keys(ROOT), ledger=str(file)))


def test_a_list_says_whether_its_keys_end_with_the_gateway(tmp_path: Path) -> None:
    answers: list[bool] = []

    async def look(client: Client) -> None:
        answers.append((await client.get("/v1/keys", bearer("root"))).json()["is_temporary"])

    in_gateway(look, ROOT)
    in_gateway(look, config=replace(config_with_keys(ROOT), ledger=str(tmp_path / "ledger.db")))
    assert answers == [True, False]


def test_a_revoked_key_is_refused_by_name_and_an_unknown_one_without() -> None:
    async def scenario(client: Client) -> None:
        made = await created(client, name="app")
        revoked = await client.post(f"/v1/keys/{made['id']}/revoke", None, bearer("root"))
        assert (revoked.json()["status"], revoked.json()["revoked_by"]) == ("revoked", "root")
        refused = await client.post("/v1/chat/completions", CHAT, bearer(made["key"]))
        assert (refused.status, refused.json()["error"]["code"]) == (401, "key_revoked")
        assert refused.json()["error"]["message"] == "the key 'app' was revoked. Use another key."
        unknown = await client.post("/v1/chat/completions", CHAT, bearer("fk_unknown"))
        assert (unknown.status, unknown.json()["error"]["code"]) == (401, "unauthenticated")

    in_gateway(scenario, ROOT)


def test_a_key_expires() -> None:
    async def scenario(client: Client) -> None:
        now = time.time()
        text, record = issue_key("app", "acme", KeyPermissions(), by="root", expires_at=now - 5, now=now - 10)
        await client.gateway.ledger.add_key(record)
        await client.gateway.keys.refresh()
        refused = await client.post("/v1/chat/completions", CHAT, bearer(text))
        assert (refused.status, refused.json()["error"]["code"]) == (401, "key_expired")
        made = await created(client, name="app", expires_in=3600)
        assert 3500 < made["expires_at"] - time.time() <= 3600
        assert (await client.post("/v1/chat/completions", CHAT, bearer(made["key"]))).status == 200

    in_gateway(scenario, ROOT)


def test_a_rotated_key_stays_valid_for_the_overlap_and_is_rotated_once() -> None:
    async def scenario(client: Client) -> None:
        old = await created(client, name="app", tools=["get_*"], rate=50)
        answer = await client.post(f"/v1/keys/{old['id']}/rotate", {"overlap_seconds": 3600}, bearer("root"))
        new = answer.json()
        assert (answer.status, new["name"], new["tools"], new["rate"]) == (201, "app", ["get_*"], 50)
        for text in (old["key"], new["key"]):
            assert (await client.post("/v1/chat/completions", CHAT, bearer(text))).status == 200
        shown = (await client.get(f"/v1/keys/{old['id']}", bearer("root"))).json()
        assert (shown["replaced_by"], shown["status"]) == (new["id"], "active")
        again = await client.post(f"/v1/keys/{old['id']}/rotate", None, bearer("root"))
        assert (again.status, again.json()["error"]["code"]) == (400, "key_ended")
        newest = (await client.post(f"/v1/keys/{new['id']}/rotate", None, bearer("root"))).json()
        refused = await client.post("/v1/chat/completions", CHAT, bearer(new["key"]))
        assert (refused.status, refused.json()["error"]["code"]) == (401, "key_expired")
        assert (await client.post("/v1/chat/completions", CHAT, bearer(newest["key"]))).status == 200

    in_gateway(scenario, ROOT)


@pytest.mark.parametrize(
    "more",
    [{"tools": ["*"]}, {"tools": ["get_weather", "get*"]}, {"models": ["*"]}, {"approve": True}, {"rate": 0}],
    ids=str,
)
def test_a_key_hands_on_only_what_it_has(more: dict[str, Any]) -> None:
    maker = key("maker", tenant="acme", models=("e*",), tools=("get_*",), admin=True, rate=600)

    async def scenario(client: Client) -> None:
        allowed = {"name": "app", "models": ["e0"], "tools": ["get_w*"], "rate": 5, "admin": True}
        assert (await client.post("/v1/keys", allowed, bearer("maker"))).status == 201
        refused = await client.post("/v1/keys", {**allowed, **more}, bearer("maker"))
        assert (refused.status, refused.json()["error"]["code"]) == (403, "token_scope_insufficient")
        strong = await created(client, name="strong", models=["*"], tools=["*"])
        rotation = await client.post(f"/v1/keys/{strong['id']}/rotate", None, bearer("maker"))
        assert rotation.status == 403
        assert len((await client.get("/v1/keys", bearer("maker"))).json()["data"]) == 2

    in_gateway(scenario, ROOT, maker)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a\nb"},
        {"name": "app", "tool": ["x"]},
        {"name": "app", "tools": "x"},
        {"name": "app", "tools": [""]},
        {"name": "app", "rate": -1},
        {"name": "app", "expires_in": 0},
        {"name": "app", "expires_in": "30d"},
    ],
    ids=str,
)
def test_a_mistake_makes_no_key(body: dict[str, Any]) -> None:
    async def scenario(client: Client) -> None:
        assert (await client.post("/v1/keys", body, bearer("root"))).status == 400
        assert (await client.get("/v1/keys", bearer("root"))).json()["data"] == []

    in_gateway(scenario, ROOT)


def test_a_key_without_the_admin_right_manages_none_and_no_tenant_another_ones() -> None:
    async def scenario(client: Client) -> None:
        for method, path in (("GET", "/v1/keys"), ("POST", "/v1/keys"), ("POST", "/v1/keys/x/revoke")):
            assert (await client.request(method, path, {"name": "x"}, bearer("ann"))).status == 403
        answer = await client.post("/v1/keys", {"name": "x", "tenant": "evil"}, bearer("root"))
        assert answer.status == 403

    in_gateway(scenario, ROOT, key("ann", tenant="acme", tools=("*",), approve=True))


def test_the_first_key_closes_a_gateway_without_keys_and_its_end_does_not_open_it_again() -> None:
    async def scenario(client: Client) -> None:
        assert (await client.get("/v1/me")).json()["needs_key"] is False
        made = (await client.post("/v1/keys", {"name": "me", "admin": True, "tools": ["*"]})).json()
        assert (await client.post("/v1/chat/completions", CHAT)).status == 401
        assert (await client.get("/v1/me", bearer(made["key"]))).json()["needs_key"] is True
        revoked = await client.post(f"/v1/keys/{made['id']}/revoke", None, bearer(made["key"]))
        assert revoked.json()["status"] == "revoked"
        assert (await client.post("/v1/chat/completions", CHAT)).status == 401

    in_gateway(scenario)


def test_a_gateway_that_requires_keys_serves_nobody_before_there_is_one() -> None:
    async def scenario(client: Client) -> None:
        assert (await client.post("/v1/chat/completions", CHAT)).status == 401
        text, record = issue_key("app", "acme", KeyPermissions(), by="ops", expires_at=None, now=time.time())
        await client.gateway.ledger.add_key(record)
        # The task behind requests takes it up.
        while (await client.post("/v1/chat/completions", CHAT, bearer(text))).status != 200:
            await asyncio.sleep(0.02)

    in_gateway(scenario, config=config_with_keys(require_keys=True))


def test_a_revoked_keys_running_stream_ends_with_an_error_and_others_run_on() -> None:
    engine = Paced(["one ", "two ", "three"], holds_after=1)

    async def scenario(client: Client) -> None:
        leaked, good = await created(client, name="app"), await created(client, name="app")
        body = {**CHAT, "stream": True}
        streams = [
            asyncio.ensure_future(
                client.request("POST", "/v1/chat/completions", body, bearer(one["key"]), asyncio.Event())
            )
            for one in (leaked, good)
        ]
        await until(lambda: sum(one.events > 0 for one in client.gateway.telemetry.answers) > 0)
        await client.post(f"/v1/keys/{leaked['id']}/revoke", None, bearer("root"))
        ended = await streams[0]
        error = ended.events()[-1]["error"]
        assert (error["code"], "was revoked" in error["message"]) == ("key_revoked", True)
        assert not streams[1].done()
        engine.go.set()
        assert "error" not in (await streams[1]).events()[-1]

    in_gateway(scenario, ROOT, engine=engine)


def test_the_last_use_is_recorded_when_the_gateway_stops(tmp_path: Path) -> None:
    config = replace(config_with_keys(ROOT), ledger=str(tmp_path / "ledger.db"))
    ids: list[str] = []

    async def use(client: Client) -> None:
        made, unused = await created(client, name="app"), await created(client, name="unused")
        ids.extend((made["id"], unused["id"]))
        await client.get("/v1/models", bearer(made["key"]))

    async def look(client: Client) -> None:
        used, unused = [(await client.get(f"/v1/keys/{id}", bearer("root"))).json()["last_used_at"] for id in ids]
        assert time.time() - 3600 < used <= time.time()
        assert unused is None

    in_gateway(use, config=config)
    in_gateway(look, config=config)


@pytest.mark.parametrize(
    "scope, capability, is_covered",
    [
        ("get_*", "get_weather", True),
        ("get_*", "forget_all", False),
        ("*_read", "file_read", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*b*c", "abb", False),
        ("a*a", "a", False),
        ("get_?", "get_x", False),
        ("*", "model:smol", False),
        ("model:smol*", "model:smol:7b", True),
        ("model:*", "source:x", False),
    ],
)
def test_in_a_scope_only_a_star_is_special(scope: str, capability: str, is_covered: bool) -> None:
    assert Principal(scopes=frozenset({scope})).may_use(capability) is is_covered
    assert matches(capability, scope) is is_covered
