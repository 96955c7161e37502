"""Row 21: a page in a browser on this machine cannot use the gateway, whatever its name resolves to."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.app import routes_of
from server.client import gateway_of, scripted_engine
from server.keys import bearer, config_with_keys
from threats.gateway_fixture import ANN, CHAT, USER, fill_path, open_websocket, socket_paths, threat_gateway

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
        async with threat_gateway("Hello.") as client:
            all_headers = {**bearer(ANN), **headers}
            for path in socket_paths(client):
                [refusal] = await open_websocket(client, path, all_headers)
                assert refusal["type"] == "websocket.close"
            routes = routes_of(client.gateway)
            return {
                (await client.request(route.method, fill_path(route.path), {}, all_headers)).status for route in routes
            }

    assert asyncio.run(scenario()) == {403}


def test_a_listed_origin_is_admitted_on_every_kind_of_route() -> None:
    async def scenario() -> tuple[int, list[str]]:
        page = "https://chat.example.com"
        async with threat_gateway("Hello.", origins=(page,)) as client:
            all_headers = {**bearer(ANN), "origin": page}
            messages = [(await open_websocket(client, path, all_headers))[0]["type"] for path in socket_paths(client)]
            return (await client.get("/v1/models", all_headers)).status, messages

    status, messages = asyncio.run(scenario())
    assert status == 200
    assert set(messages) <= {"websocket.accept"}


def test_the_gateways_own_page_may_call_only_its_own_host_and_port() -> None:
    async def scenario() -> dict[str, tuple[int, str]]:
        results: dict[str, tuple[int, str]] = {}
        async with threat_gateway("Hello.") as client:
            for port in ("8000", "8001"):
                all_headers = {**bearer(ANN), "host": "localhost:8000", "origin": f"http://localhost:{port}"}
                [path] = socket_paths(client)
                results[port] = (
                    (await client.get("/v1/models", all_headers)).status,
                    (await open_websocket(client, path, all_headers))[0]["type"],
                )
        return results

    assert asyncio.run(scenario()) == {"8000": (200, "websocket.accept"), "8001": (403, "websocket.close")}


@pytest.mark.parametrize("listening", [{}, {"hosts": ("*",), "insecure": True}], ids=["this machine", "everybody"])
def test_dns_rebinding_fails_on_a_gateway_without_keys(listening: dict[str, Any]) -> None:
    async def scenario() -> tuple[int, str]:
        page = {"host": "evil.example:8000", "origin": "http://evil.example:8000"}
        async with gateway_of(scripted_engine("Hello."), config=config_with_keys(**listening)) as client:
            [path] = socket_paths(client)
            posted = await client.post(CHAT, {"model": "e0", "messages": USER}, page)
            return posted.status, (await open_websocket(client, path, page))[0]["type"]

    assert asyncio.run(scenario()) == (403, "websocket.close")


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "TRACE", "CONNECT"])
def test_no_response_has_cors_headers_for_a_foreign_page(method: str) -> None:
    async def scenario() -> dict[str, str]:
        async with threat_gateway("Hello.") as client:
            headers = {"origin": "http://evil.example", "access-control-request-method": "POST", **bearer(ANN)}
            return dict((await client.request(method, "/v1/chat/completions", {}, headers)).headers)

    assert not [name for name in asyncio.run(scenario()) if name.startswith("access-control")]
