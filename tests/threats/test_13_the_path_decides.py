"""Row 13: only the path of the request selects the route, and with it whether a key is needed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.app import routes_of
from ferrule.server.http import OPEN
from server.keys import bearer
from threats.gateway_fixture import ANN, bodies, fill_path, keyed_routes, open_websocket, socket_paths, threat_gateway

HOSTS = [
    *("a/b?", "#", "@", "localhost#", "localhost/healthz", "localhost/healthz?", "localhost/healthz#", "x@localhost"),
    *("localhost@x", "localhost:80/healthz", "localhost\\healthz", "localhost%2fhealthz", "[::1]/healthz", ""),
    *("localhost, localhost", "localhost healthz", "http://localhost/healthz", "localhost:99999", "localhost;x"),
]
REWRITES = [
    *("x-original-url", "x-rewrite-url", "x-forwarded-path", "x-forwarded-prefix", "x-http-method-override"),
    *("x-forwarded-host", "x-forwarded-for", "x-real-ip", "forwarded", "x-forwarded-user", "x-remote-user"),
]
# The console is a static page that asks for a key itself. `HEAD /api/hello` is how Claude Code looks for a server: its
# answer has no body and says nothing. A browser comes to the callback from an authorization server: it has no key, but
# the state of a login, and the cookie of the browser that began it.
OPEN_PATHS = {
    *("/healthz", "/readyz", "/openapi.json", "/", "/console", "/console/{path:path}", "/api/hello"),
    "/v1/sources/callback",
}


def test_every_route_needs_a_key() -> None:
    async def scenario() -> None:
        async with threat_gateway("Hello.") as client:
            assert {route.path for route in routes_of(client.gateway) if route.scope == OPEN} <= OPEN_PATHS
            assert keyed_routes(client)
            for route in keyed_routes(client):
                for body in bodies(route):
                    answer = await client.request(route.method, fill_path(route.path), body)
                    assert answer.status == 401, route
                    assert "error" in answer.json()
            for path in socket_paths(client):
                [refusal] = await open_websocket(client, path, {})
                assert refusal["type"] == "websocket.close", path

    asyncio.run(scenario())


def test_without_a_key_unknown_paths_look_like_known_ones() -> None:
    async def scenario() -> list[Any]:
        async with threat_gateway("Hello.") as client:
            there = await client.get("/v1/models")
            others = [
                await client.request(how, path, {})
                for how, path in [("GET", "/v1/no"), ("PUT", "/v1/models"), ("GET", "/no")]
            ]
            return [(one.status, one.json()["error"]["message"]) for one in (there, *others)]

    answers = asyncio.run(scenario())
    assert len(set(answers)) == 1
    assert answers[0][0] == 401


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_header_with_a_path_opens_no_route(host: str) -> None:
    async def scenario() -> set[int]:
        async with threat_gateway(*["Hello."] * 9) as client:
            statuses: set[int] = set()
            for route in routes_of(client.gateway):
                for headers in ({"host": host}, {"host": host, **bearer(ANN)}):
                    statuses.add((await client.request(route.method, fill_path(route.path), {}, headers)).status)
            for path in socket_paths(client):
                [refusal] = await open_websocket(client, path, {"host": host, **bearer(ANN)})
                assert refusal["type"] == "websocket.close"
            return statuses

    assert asyncio.run(scenario()) <= {400, 403}


def test_a_host_header_with_a_path_opens_no_route_if_all_hosts_are_served() -> None:
    async def scenario() -> set[int]:
        async with threat_gateway(*["Hello."] * 9, hosts=("*",)) as client:
            return {
                (await client.request(route.method, fill_path(route.path), {}, {"host": host})).status
                for route in keyed_routes(client)
                for host in HOSTS
            }

    assert asyncio.run(scenario()) == {400}


@pytest.mark.parametrize("header", REWRITES)
def test_proxy_headers_change_neither_path_nor_principal(header: str) -> None:
    async def scenario() -> set[int]:
        async with threat_gateway("Hello.") as client:
            statuses: set[int] = set()
            for value in ("/healthz", "localhost", "127.0.0.1", "GET", "ann", "for=127.0.0.1;host=localhost"):
                for route in keyed_routes(client):
                    statuses.add(
                        (await client.request(route.method, fill_path(route.path), {}, {header: value})).status
                    )
            return statuses

    assert asyncio.run(scenario()) == {401}


@pytest.mark.parametrize(
    "path",
    [
        *(
            "//healthz/../v1/models",
            "/healthz/../v1/models",
            "/healthz;/v1/models",
            "/v1/models/",
            "/V1/MODELS",
            "//v1/models",
        ),
        *("/v1/./models", "/v1/models%00", "/v1//models", "/healthz/v1/models", "/v1/models\x00", "/healthz%2f..%2fv1"),
        *("/consoles", "/Console/", "//console/", "/v1/console/", "/console;/v1/models", "/%2e/console"),
    ],
)
def test_a_manipulated_path_needs_a_key(path: str) -> None:
    async def scenario() -> int:
        async with threat_gateway("Hello.") as client:
            return (await client.get(path)).status

    assert asyncio.run(scenario()) == 401
