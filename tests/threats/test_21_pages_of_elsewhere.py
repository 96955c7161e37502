"""Row 21: a page in a browser on this machine cannot use the gateway, whatever its name resolves to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.app import routes_of
from server.client import gateway_of, speaking
from server.keys import bearer, keyed
from threats.house import ANN, CHAT, USER, filled, house, knock, socket_paths

STRANGERS = [
    {"host": "evil.example"},
    {"host": "evil.example:8000"},
    {"host": "localhost.evil.example"},
    {"host": "127.0.0.1.nip.example"},
    {"host": "127.1"},
    {"host": "0.0.0.0"},
    {"host": "[::]"},
    {"origin": "http://evil.example"},
    {"origin": "https://localhost.evil.example"},
    {"origin": "null"},
    {"origin": "http://localhost:3000"},
    {"origin": "chrome-extension://abcdef"},
    {"host": "evil.example", "origin": "http://evil.example"},
]


@pytest.mark.parametrize("headers", STRANGERS, ids=str)
def test_a_foreign_host_or_origin_is_refused_on_every_route_even_with_a_key(headers: dict[str, str]) -> None:
    async def scenario() -> set[int]:
        async with house("Hello.") as client:
            given = {**bearer(ANN), **headers}
            for path in socket_paths(client):
                [refusal] = await knock(client, path, given)
                assert refusal["type"] == "websocket.close"
            routes = routes_of(client.gateway)
            return {(await client.ask(route.method, filled(route.path), {}, given)).status for route in routes}

    assert asyncio.run(scenario()) == {403}


def test_a_page_that_is_named_comes_in_on_every_kind_of_route() -> None:
    async def scenario() -> tuple[int, list[str]]:
        page = "https://chat.example.com"
        async with house("Hello.", origins=(page,)) as client:
            given = {**bearer(ANN), "origin": page}
            opened = [(await knock(client, path, given))[0]["type"] for path in socket_paths(client)]
            return (await client.get("/v1/models", given)).status, opened

    status, opened = asyncio.run(scenario())
    assert status == 200
    assert set(opened) <= {"websocket.accept"}


def test_the_gateways_own_page_comes_in_like_any_client_and_only_where_it_was_loaded_from() -> None:
    async def scenario() -> dict[str, tuple[int, str]]:
        seen: dict[str, tuple[int, str]] = {}
        async with house("Hello.") as client:
            for port in ("8000", "8001"):
                given = {**bearer(ANN), "host": "localhost:8000", "origin": f"http://localhost:{port}"}
                [path] = socket_paths(client)
                seen[port] = (
                    (await client.get("/v1/models", given)).status,
                    (await knock(client, path, given))[0]["type"],
                )
        return seen

    assert asyncio.run(scenario()) == {"8000": (200, "websocket.accept"), "8001": (403, "websocket.close")}


@pytest.mark.parametrize("listening", [{}, {"hosts": ("*",), "insecure": True}], ids=["this machine", "everybody"])
def test_a_name_made_to_lead_here_does_not_make_a_page_ours_where_nobody_has_a_key(listening: dict[str, Any]) -> None:
    async def scenario() -> tuple[int, str]:
        page = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
        async with gateway_of(speaking("Hello."), config=keyed(**listening)) as client:
            [path] = socket_paths(client)
            posted = await client.post(CHAT, {"model": "e0", "messages": USER}, page)
            return posted.status, (await knock(client, path, page))[0]["type"]

    assert asyncio.run(scenario()) == (403, "websocket.close")


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "TRACE", "CONNECT"])
def test_no_answer_lets_a_page_of_elsewhere_read_it(method: str) -> None:
    async def scenario() -> dict[str, str]:
        async with house("Hello.") as client:
            headers = {"origin": "http://evil.example", "access-control-request-method": "POST", **bearer(ANN)}
            return dict((await client.ask(method, "/v1/chat/completions", {}, headers)).headers)

    assert not [name for name in asyncio.run(scenario()) if name.startswith("access-control")]
