"""Row 13: which route it is, and whether it needs a key, is decided by the path that was asked for and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.app import routes_of
from ferrule.server.http import OPEN
from server.keys import bearer
from threats.house import ANN, bodies, closed_routes, filled, house, knock, socket_paths

HOSTS = [
    *("a/b?", "#", "@", "localhost#", "localhost/healthz", "localhost/healthz?", "localhost/healthz#", "x@localhost"),
    *("localhost@x", "localhost:80/healthz", "localhost\\healthz", "localhost%2fhealthz", "[::1]/healthz", ""),
    *("localhost, localhost", "localhost healthz", "http://localhost/healthz", "localhost:99999", "localhost;x"),
]
REWRITES = [
    *("x-original-url", "x-rewrite-url", "x-forwarded-path", "x-forwarded-prefix", "x-http-method-override"),
    *("x-forwarded-host", "x-forwarded-for", "x-real-ip", "forwarded", "x-forwarded-user", "x-remote-user"),
]
# The console is a page that holds nothing, and asks for a key itself.
OPEN_PATHS = {"/healthz", "/readyz", "/openapi.json", "/", "/console", "/console/{path:path}"}


def test_every_route_asks_for_a_key() -> None:
    async def scenario() -> None:
        async with house("Hello.") as client:
            assert {route.path for route in routes_of(client.gateway) if route.scope == OPEN} <= OPEN_PATHS
            assert closed_routes(client)
            for route in closed_routes(client):
                for body in bodies(route):
                    answer = await client.ask(route.method, filled(route.path), body)
                    assert answer.status == 401, route
                    assert "error" in answer.json()
            for path in socket_paths(client):
                [refusal] = await knock(client, path, {})
                assert refusal["type"] == "websocket.close", path

    asyncio.run(scenario())


def test_what_is_not_there_looks_to_a_stranger_like_what_is() -> None:
    async def scenario() -> list[Any]:
        async with house("Hello.") as client:
            there = await client.get("/v1/models")
            others = [
                await client.ask(how, path, {})
                for how, path in [("GET", "/v1/no"), ("PUT", "/v1/models"), ("GET", "/no")]
            ]
            return [(one.status, one.json()["error"]["message"]) for one in (there, *others)]

    told = asyncio.run(scenario())
    assert len(set(told)) == 1
    assert told[0][0] == 401


@pytest.mark.parametrize("host", HOSTS)
def test_a_host_that_holds_a_path_opens_no_route_to_anybody(host: str) -> None:
    async def scenario() -> set[int]:
        async with house(*["Hello."] * 9) as client:
            found: set[int] = set()
            for route in routes_of(client.gateway):
                for headers in ({"host": host}, {"host": host, **bearer(ANN)}):
                    found.add((await client.ask(route.method, filled(route.path), {}, headers)).status)
            for path in socket_paths(client):
                [refusal] = await knock(client, path, {"host": host, **bearer(ANN)})
                assert refusal["type"] == "websocket.close"
            return found

    assert asyncio.run(scenario()) <= {400, 403}


def test_where_all_hosts_are_served_such_a_host_opens_nothing_either() -> None:
    async def scenario() -> set[int]:
        async with house(*["Hello."] * 9, hosts=("*",)) as client:
            return {
                (await client.ask(route.method, filled(route.path), {}, {"host": host})).status
                for route in closed_routes(client)
                for host in HOSTS
            }

    assert asyncio.run(scenario()) == {400}


@pytest.mark.parametrize("header", REWRITES)
def test_headers_of_proxies_change_neither_the_path_nor_who_asks(header: str) -> None:
    async def scenario() -> set[int]:
        async with house("Hello.") as client:
            found: set[int] = set()
            for value in ("/healthz", "localhost", "127.0.0.1", "GET", "ann", "for=127.0.0.1;host=localhost"):
                for route in closed_routes(client):
                    found.add((await client.ask(route.method, filled(route.path), {}, {header: value})).status)
            return found

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
def test_a_path_that_is_bent_leads_nowhere_without_a_key(path: str) -> None:
    async def scenario() -> int:
        async with house("Hello.") as client:
            return (await client.get(path)).status

    assert asyncio.run(scenario()) == 401
