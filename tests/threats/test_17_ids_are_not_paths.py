"""Row 17: IDs are looked up and never opened: no text of a client reaches the file system."""

from __future__ import annotations

import asyncio

import pytest

from ferrule.server.app import routes_of
from server.keys import bearer
from threats.audit import OPENS, audit
from threats.gateway_fixture import ANN, CHAT, USER, bodies, endless_engine, fill_path, threat_gateway

MARK = "ferrule-canary-file"
PATHS = [
    f"../../../../{MARK}",
    f"/etc/{MARK}",
    f"..%2f..%2f{MARK}",
    f"%2e%2e/{MARK}",
    f"....//....//{MARK}",
    f"..\\..\\{MARK}",
    f"file:///{MARK}",
    f"{MARK}\x00.json",
    f"~/{MARK}",
    f"/proc/self/environ/{MARK}",
    MARK + "a" * 4_096,
    f"llama:{MARK}",
    f"\\\\host\\{MARK}",
]


@pytest.mark.parametrize("text", PATHS)
def test_no_file_is_opened_by_what_a_client_writes(text: str) -> None:
    async def scenario() -> set[int]:
        statuses: set[int] = set()
        async with threat_gateway(engine=endless_engine()) as client:
            for route in routes_of(client.gateway):
                answers = [await client.request(route.method, fill_path(route.path, text), {}, bearer(ANN))]
                for body in bodies(
                    route, model=text, conversation=text, previous_response_id=text, name=text, user=text
                ):
                    answers.append(await client.request(route.method, fill_path(route.path), body, bearer(ANN)))
                body = {"model": "e0", "messages": USER, "ferrule": {"resume": text, "tools": [text]}}
                answers.append(await client.request(route.method, fill_path(route.path), body, bearer(ANN)))
                statuses |= {answer.status for answer in answers}
        return statuses

    with audit(OPENS) as events:
        statuses = asyncio.run(scenario())
    assert not [one for one in events if MARK in one]
    assert 500 not in statuses


@pytest.mark.parametrize(
    "path", ["/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/static/../ferrule.toml", "/.env", "/ferrule.toml"]
)
def test_no_file_is_served(path: str) -> None:
    async def scenario() -> int:
        async with threat_gateway("Hello.") as client:
            return (await client.get(path, bearer(ANN))).status

    assert asyncio.run(scenario()) == 404


def test_a_model_name_that_is_a_path_is_not_found() -> None:
    from ferrule.server.config.config import Config, EngineConfig
    from server.client import gateway_of, scripted_engine

    async def scenario() -> int:
        config = Config(engines=(EngineConfig(name="e0", use="e0"), EngineConfig(name="e1", use="e1")))
        async with gateway_of(scripted_engine("Hello."), scripted_engine("Hello."), config=config) as client:
            return (await client.post(CHAT, {"model": "../../etc/passwd", "messages": USER})).status

    assert asyncio.run(scenario()) == 404
