"""HTTP for MCP: failures are classified, and no response over the limit is read."""

from __future__ import annotations

import asyncio
import gzip
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from ferrule.sources.mcp.config import HttpTransport
from ferrule.sources.mcp.http import client_for
from ferrule.sources.mcp.results import CONNECTION_LOST, NOT_SENT, TOO_LARGE

JSON = {"content-type": "application/json"}
GOOD = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'


@dataclass(frozen=True, slots=True)
class ServerResponse:
    """A scripted response; `claims` is its Content-Length."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: JSON)
    body: bytes = GOOD
    claims: int | None = None


@contextmanager
def serve(response: ServerResponse, received: list[dict[str, str]]) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(response.status)
            size = len(response.body) if response.claims is None else response.claims
            for name, value in {**response.headers, "content-length": str(size)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(response.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(slots=True)
class ClientResponse:
    status: int
    answer: Any
    troubles: int
    heard: list[dict[str, str]]

    @property
    def code(self) -> int:
        return self.answer["error"]["code"]


def post(text: ServerResponse | None, headers: dict[str, str] | None = None) -> ClientResponse:
    troubles: list[None] = []
    received: list[dict[str, str]] = []

    async def ask(url: str) -> tuple[int, Any]:
        reach = HttpTransport(url, {"authorization": "Bearer secret"})
        client = client_for(
            reach, 5, 1_000, lambda code, expected: {"code": code, "message": expected}, lambda: troubles.append(None)
        )
        async with client:
            response = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "x"}, headers=headers)
            is_json = response.headers.get("content-type") == JSON["content-type"]
            return response.status_code, response.json() if is_json else response.text

    if text is None:
        with serve(ServerResponse(), []) as url:
            pass
        status, answer = asyncio.run(ask(url))
    else:
        with serve(text, received) as url:
            status, answer = asyncio.run(ask(url))
    return ClientResponse(status, answer, len(troubles), received)


def test_an_answer_comes_through_and_the_configured_headers_went_along() -> None:
    response = post(ServerResponse())
    assert response.answer == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert response.heard[0]["authorization"] == "Bearer secret"
    assert response.heard[0]["accept-encoding"] == "identity"
    assert not response.troubles


def test_a_server_that_is_not_there_did_not_get_the_request() -> None:
    response = post(None)
    assert (response.code, response.troubles) == (NOT_SENT, 1)


@pytest.mark.parametrize(
    "response, code",
    [
        (ServerResponse(401, {"content-type": "text/plain"}, b"no"), NOT_SENT),
        (ServerResponse(403, {}, b""), NOT_SENT),
        (ServerResponse(429, JSON, b"{}"), NOT_SENT),
        # A proxy may send these after it has forwarded the request.
        (ServerResponse(502, {"content-type": "text/html"}, b"<html>"), CONNECTION_LOST),
        (ServerResponse(503, {}, b""), CONNECTION_LOST),
        (ServerResponse(500, JSON, b'{"error": "oops"}'), CONNECTION_LOST),
        (ServerResponse(claims=len(GOOD) + 10), CONNECTION_LOST),
        (ServerResponse(body=b"x" * 1_001), TOO_LARGE),
        (ServerResponse(500, JSON, b"x" * 1_001), TOO_LARGE),
        (
            ServerResponse(headers={**JSON, "content-encoding": "gzip"}, body=gzip.compress(b"x" * 10**6)),
            CONNECTION_LOST,
        ),
    ],
)
def test_what_keeps_it_from_being_answered_says_whether_it_may_have_happened(
    response: ServerResponse, code: int
) -> None:
    assert post(response).code == code


def test_an_error_of_the_protocol_stays_the_servers_own() -> None:
    error = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}}'
    response = post(ServerResponse(400, JSON, error))
    assert (response.status, response.code) == (400, -32602)


def test_a_session_that_the_server_forgot_is_trouble_and_without_one_it_is_only_not_found() -> None:
    missing = ServerResponse(404, {"content-type": "text/plain"}, b"")
    response = post(missing, {"mcp-session-id": "s1"})
    assert (response.code, response.troubles) == (NOT_SENT, 1)
    assert post(missing).status == 404
