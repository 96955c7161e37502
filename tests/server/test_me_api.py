from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.config.config import Config
from server.client import ClientResponse, gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key

EVERY_RIGHT = ["admin", "approve", "models", "operator", "tools"]


def me(config: Config | None, headers: dict[str, str] | None = None) -> ClientResponse:
    async def scenario() -> ClientResponse:
        async with gateway_of(scripted_engine(), config=config) as client:
            return await client.get("/v1/me", headers)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "more, rights",
    [
        ({}, ["models"]),
        ({"models": ()}, []),
        ({"models": (), "approve": True}, ["approve"]),
        ({"models": (), "operator": True}, ["operator"]),
        # Of the only tenant.
        ({"tools": ("add",), "admin": True}, ["admin", "models", "operator", "tools"]),
        ({"tools": ("*",), "admin": True, "approve": True}, EVERY_RIGHT),
    ],
)
def test_a_key_gets_its_principal_and_its_rights(more: dict[str, Any], rights: list[str]) -> None:
    answer = me(config_with_keys(key("ann", tenant="acme", **more)), bearer("ann"))
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "object": "principal",
        "name": "ann",
        "tenant": "acme",
        "rights": rights,
        "needs_key": True,
        "quotas": [],
    }


def test_without_configured_keys_there_is_one_principal_with_every_right() -> None:
    body = me(None).json()
    assert (body["name"], body["rights"], body["needs_key"]) == ("local", EVERY_RIGHT, False)


@pytest.mark.parametrize("headers", [{}, bearer("nobody")])
def test_a_request_without_a_key_is_refused(headers: dict[str, str]) -> None:
    answer = me(config_with_keys(key("ann", "secret")), headers)
    assert answer.status == 401
    assert b"ann" not in answer.body
