from __future__ import annotations

import asyncio
from typing import Any

import pytest

from ferrule.server.config.config import Config
from server.client import Answered, gateway_of, speaking
from server.keys import bearer, key, keyed

EVERY_RIGHT = ["admin", "approve", "models", "tools"]


def me(config: Config | None, headers: dict[str, str] | None = None) -> Answered:
    async def scenario() -> Answered:
        async with gateway_of(speaking(), config=config) as client:
            return await client.get("/v1/me", headers)

    return asyncio.run(scenario())


@pytest.mark.parametrize(
    "more, rights",
    [
        ({}, ["models"]),
        ({"models": ()}, []),
        ({"models": (), "approve": True}, ["approve"]),
        ({"tools": ("add",), "admin": True}, ["admin", "models", "tools"]),
        ({"tools": ("*",), "admin": True, "approve": True}, EVERY_RIGHT),
    ],
)
def test_a_key_is_told_whose_it_is_and_what_it_may_do(more: dict[str, Any], rights: list[str]) -> None:
    answer = me(keyed(key("ann", tenant="acme", **more)), bearer("ann"))
    assert answer.status == 200
    assert answer.headers["cache-control"] == "no-store"
    assert answer.json() == {
        "object": "principal",
        "name": "ann",
        "tenant": "acme",
        "rights": rights,
        "needs_key": True,
    }


def test_where_there_are_no_keys_everybody_is_one_with_every_right() -> None:
    told = me(None).json()
    assert (told["name"], told["rights"], told["needs_key"]) == ("local", EVERY_RIGHT, False)


@pytest.mark.parametrize("headers", [{}, bearer("nobody")])
def test_without_a_key_nobody_is_told_anything(headers: dict[str, str]) -> None:
    answer = me(keyed(key("ann", "secret")), headers)
    assert answer.status == 401
    assert b"ann" not in answer.body
