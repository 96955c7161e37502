"""Row 4: nothing in a request makes the gateway connect to an address."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import pytest

from ferrule.server.app import routes_of
from server.client import scripted_engine
from server.keys import bearer
from threats.audit import CONNECTS, OPENS, audit
from threats.gateway_fixture import ANN, bodies, endless_engine, fill_path, threat_gateway

FORMS = [
    "http://127.0.0.1:{port}/x",
    "https://127.0.0.1:{port}/x",
    "http://localhost:{port}/x",
    "http://0177.0.0.1:{port}/x",
    "http://2130706433:{port}/x",
    "http://[::ffff:127.0.0.1]:{port}/x",
    "http://user:pass@127.0.0.1:{port}/x",
    "//127.0.0.1:{port}/x",
    "file:///etc/hostname",
]


@contextmanager
def open_port() -> Generator[tuple[int, list[object]]]:
    """A listening port, and the peers that connected to it."""
    server, peers = socket.create_server(("127.0.0.1", 0)), list[object]()

    def accept() -> None:
        while True:
            try:
                connection, peer = server.accept()
            except OSError:
                return
            peers.append(peer)
            connection.close()

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield server.getsockname()[1], peers
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join()


def fields_with_address(address: str) -> dict[str, Any]:
    """All fields from which servers of this kind have ever taken a URL."""
    image = {"type": "image_url", "image_url": {"url": address}}
    return {
        **dict.fromkeys(("api_base", "base_url", "endpoint", "url", "webhook", "callback_url", "model_url"), address),
        "tools": [{"type": "mcp", "server_label": "x", "server_url": address, "headers": {"authorization": "x"}}],
        "mcp_servers": [{"type": "url", "url": address, "name": "x"}],
        "messages": [{"role": "user", "content": [image, {"type": "text", "text": address}]}],
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": address}]}],
        "guided_json_schema": {"$ref": address, "$schema": address, "$id": address},
        "response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": {"$ref": address}}},
        "_meta": {"elicitation": {"url": address}},
    }


def test_no_field_of_any_route_opens_a_connection_or_a_file() -> None:
    async def scenario(port: int) -> set[int]:
        statuses: set[int] = set()
        async with threat_gateway(engine=endless_engine()) as client:
            routes = [route for route in routes_of(client.gateway) if route.method == "POST"]
            for at, name in enumerate(fields_with_address("")):
                value = fields_with_address(FORMS[at % len(FORMS)].format(port=port))[name]
                for route in routes:
                    for body in bodies(route):
                        answer = await client.post(fill_path(route.path), {**body, name: value}, bearer(ANN))
                        statuses.add(answer.status // 100)
        return statuses

    with open_port() as (port, peers):
        # The event loop's socket pair and the ledger's file exist before the first request.
        with audit(CONNECTS | OPENS) as events:
            statuses = asyncio.run(scenario(port))
        assert peers == []
        assert not [one for one in events if str(port) in one or "hostname" in one]
    assert 5 not in statuses


@pytest.mark.parametrize("reference", [*(form.format(port=9) for form in FORMS), "../x.json", "urn:x:y"])
def test_a_remote_reference_is_refused(reference: str) -> None:
    async def scenario() -> tuple[int, str, int]:
        engine = scripted_engine("Hello.")
        async with threat_gateway(engine=engine) as client:
            body = {"model": "e0", "messages": [{"role": "user", "content": "Hi."}]}
            body["guided_json_schema"] = {"$ref": reference}  # type: ignore[assignment]
            answer = await client.post("/v1/chat/completions", body, bearer(ANN))
            return answer.status, answer.json()["error"]["code"], len(engine.requests)

    assert asyncio.run(scenario()) == (400, "remote_ref", 0)
