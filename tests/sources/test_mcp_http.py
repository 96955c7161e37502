"""HTTP for MCP: what keeps a request from being answered is told apart, and no answer over the limit is held."""

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

from ferrule.sources.mcp.config import Endpoint
from ferrule.sources.mcp.http import client_for
from ferrule.sources.mcp.results import GONE, NOT_SENT, TOO_LARGE

JSON = {"content-type": "application/json"}
GOOD = b'{"jsonrpc": "2.0", "id": 1, "result": {}}'


@dataclass(frozen=True, slots=True)
class Said:
    """What the server answers; `claims` is how long it says that the body is."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=lambda: JSON)
    body: bytes = GOOD
    claims: int | None = None


@contextmanager
def serving(said: Said, heard: list[dict[str, str]]) -> Generator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            heard.append({name.lower(): value for name, value in self.headers.items()})
            self.rfile.read(int(self.headers["content-length"]))
            self.send_response(said.status)
            size = len(said.body) if said.claims is None else said.claims
            for name, value in {**said.headers, "content-length": str(size)}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(said.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/mcp"
    finally:
        server.shutdown()
        server.server_close()


@dataclass(slots=True)
class Got:
    status: int
    answer: Any
    troubles: int
    heard: list[dict[str, str]]

    @property
    def code(self) -> int:
        return self.answer["error"]["code"]


def posted(said: Said | None, headers: dict[str, str] | None = None) -> Got:
    troubles: list[None] = []
    heard: list[dict[str, str]] = []

    async def ask(url: str) -> tuple[int, Any]:
        reach = Endpoint(url, {"authorization": "Bearer secret"})
        client = client_for(
            reach, 5, 1_000, lambda code, told: {"code": code, "message": told}, lambda: troubles.append(None)
        )
        async with client:
            response = await client.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "x"}, headers=headers)
            is_json = response.headers.get("content-type") == JSON["content-type"]
            return response.status_code, response.json() if is_json else response.text

    if said is None:
        with serving(Said(), []) as url:
            pass
        status, answer = asyncio.run(ask(url))
    else:
        with serving(said, heard) as url:
            status, answer = asyncio.run(ask(url))
    return Got(status, answer, len(troubles), heard)


def test_an_answer_comes_through_and_the_configured_headers_went_along() -> None:
    got = posted(Said())
    assert got.answer == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert got.heard[0]["authorization"] == "Bearer secret"
    assert got.heard[0]["accept-encoding"] == "identity"
    assert not got.troubles


def test_a_server_that_is_not_there_did_not_get_the_request() -> None:
    got = posted(None)
    assert (got.code, got.troubles) == (NOT_SENT, 1)


@pytest.mark.parametrize(
    "said, code",
    [
        (Said(401, {"content-type": "text/plain"}, b"no"), NOT_SENT),
        (Said(403, {}, b""), NOT_SENT),
        (Said(429, JSON, b"{}"), NOT_SENT),
        # A proxy may say these after it has passed the request on.
        (Said(502, {"content-type": "text/html"}, b"<html>"), GONE),
        (Said(503, {}, b""), GONE),
        (Said(500, JSON, b'{"error": "oops"}'), GONE),
        (Said(claims=len(GOOD) + 10), GONE),
        (Said(body=b"x" * 1_001), TOO_LARGE),
        (Said(500, JSON, b"x" * 1_001), TOO_LARGE),
        (Said(headers={**JSON, "content-encoding": "gzip"}, body=gzip.compress(b"x" * 10**6)), GONE),
    ],
)
def test_what_keeps_it_from_being_answered_says_whether_it_may_have_happened(said: Said, code: int) -> None:
    assert posted(said).code == code


def test_an_error_of_the_protocol_stays_the_servers_own() -> None:
    error = b'{"jsonrpc": "2.0", "id": 1, "error": {"code": -32602, "message": "no"}}'
    got = posted(Said(400, JSON, error))
    assert (got.status, got.code) == (400, -32602)


def test_a_session_that_the_server_forgot_is_trouble_and_without_one_it_is_only_not_found() -> None:
    gone = Said(404, {"content-type": "text/plain"}, b"")
    got = posted(gone, {"mcp-session-id": "s1"})
    assert (got.code, got.troubles) == (NOT_SENT, 1)
    assert posted(gone).status == 404
