"""Row 18: oversized input is refused while it arrives, in constant memory."""

from __future__ import annotations

import asyncio
import gzip
import json
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered as Done
from ferrule.core.outcome import Outcome
from ferrule.sources.fake import FakeSource
from server.client import scripted_engine
from server.keys import bearer
from threats.gateway_fixture import ANN, CHAT, READ, USER, call, chat, threat_gateway

MEGABYTE = 1_000_000
MANY_TOOLS = [{"type": "function", "function": {"name": f"t{n}"}} for n in range(600)]


def test_an_endless_body_is_read_only_up_to_the_limit() -> None:
    async def scenario() -> tuple[int, int]:
        async with threat_gateway("Hello.") as client:
            messages: list[dict[str, Any]] = []
            chunks_read = 0

            async def receive() -> dict[str, Any]:
                nonlocal chunks_read
                chunks_read += 1
                return {"type": "http.request", "body": b"x" * MEGABYTE, "more_body": True}

            async def send(message: Any) -> None:
                messages.append(message)

            headers = {**client.headers, **bearer(ANN), "transfer-encoding": "chunked"}
            scope = {
                **{"type": "http", "http_version": "1.1", "method": "POST", "path": CHAT, "raw_path": CHAT.encode()},
                **{"root_path": "", "query_string": b"", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 1)},
                **{"scheme": "http", "asgi": {"version": "3.0"}},
                "headers": [(name.encode(), value.encode()) for name, value in headers.items()],
            }
            await client.app(scope, receive, send)
            return messages[0]["status"], chunks_read

    tracemalloc.start()
    try:
        status, chunks_read = asyncio.run(scenario())
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert status == 413
    assert chunks_read <= 11
    assert peak < 40 * MEGABYTE


@pytest.mark.parametrize("length", ["1000000000", "99999999999999999999", "9" * 5_000, "-1", "0x10", "²", "1e3"])
def test_a_body_with_an_excessive_content_length_is_not_read(length: str) -> None:
    async def scenario() -> int:
        async with threat_gateway("Hello.") as client:
            return (await client.post(CHAT, {"messages": USER}, {**bearer(ANN), "content-length": length})).status

    assert asyncio.run(scenario()) == 413


def test_a_body_is_never_decompressed() -> None:
    async def scenario() -> int:
        async with threat_gateway("Hello.") as client:
            bomb = gzip.compress(b" " * 50 * MEGABYTE + b"{}")
            return (await client.post(CHAT, bomb, {**bearer(ANN), "content-encoding": "gzip"})).status

    tracemalloc.start()
    try:
        assert asyncio.run(scenario()) == 400
        assert tracemalloc.get_traced_memory()[0] < 20 * MEGABYTE
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"messages": [' + b"{}," * 300_000 + b"{}]}",
        json.dumps({"messages": USER * 5_000}).encode(),
        json.dumps(
            {"messages": USER, "tools": [{"type": "function", "function": {"name": f"t{n}"}} for n in range(600)]}
        ).encode(),
        json.dumps({"messages": USER, "max_tokens": 10**9}).encode(),
        b'{"messages": 1e999}',
        b'{"messages": ' + b"9" * 100_000 + b"}",
    ],
    ids=["deep lists", "deep objects", "values", "messages", "tools", "tokens", "a number", "a long number"],
)
def test_a_body_that_holds_too_much_is_refused(body: bytes) -> None:
    async def scenario() -> tuple[int, int]:
        engine = scripted_engine("Hello.")
        async with threat_gateway(engine=engine) as client:
            answer = await client.post(CHAT, body, bearer(ANN))
            assert "error" in answer.json()
            return answer.status, len(engine.requests)

    status, request_count = asyncio.run(scenario())
    assert status in (400, 413)
    assert request_count == 0


@pytest.mark.parametrize("content", ["x" * 20 * MEGABYTE, {"text": "y" * 20 * MEGABYTE}, ["z" * 1000] * 20_000])
def test_a_result_that_is_too_long_is_truncated_for_the_model(content: Any) -> None:
    def flood(name: str, arguments: Mapping[str, Any], context: CallContext) -> Outcome:
        return Done(content)

    async def scenario() -> tuple[int, int]:
        engine = scripted_engine(call("read", what="x"), "Done.")
        async with threat_gateway(engine=engine, source=FakeSource([READ], flood)) as client:
            answer = await chat(client, ANN)
            text = "".join(
                str(result.content) for message in engine.requests[-1].messages for result in message.results
            )
            return answer.status, len(text)

    status, length = asyncio.run(scenario())
    assert status == 200
    assert 0 < length <= 2 * MEGABYTE
