"""A browser lets a page send no header with a WebSocket but its subprotocols: the page's key is one of them."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ferrule.dialects.frames.client_frames import Ask
from ferrule.dialects.frames.server_frames import Done
from ferrule.server.config.config import Config, Listening
from ferrule.server.process.server import serve
from server.client import gateway_of, speaking
from server.keys import bearer, key, key_protocol, keyed
from server.watched import Lines, watched_gateway
from server.websocket_client import Socket, connected

CANARY = "canary-key-51c2"
CONFIG = keyed(key("ann", CANARY), key("bob"))
PAGE = {"host": "localhost:8000", "origin": "http://localhost:8000"}


def offering(*protocols: str) -> dict[str, str]:
    return {"sec-websocket-protocol": ", ".join(protocols)}


def opened(headers: dict[str, str], config: Config | None = CONFIG) -> Socket:
    """The connection, once the gateway has taken or refused it."""

    async def scenario() -> Socket:
        async with gateway_of(speaking(), config=config) as client, connected(client, headers) as socket:
            async with asyncio.timeout(30):
                while not socket.is_accepted and socket.closed is None:
                    await asyncio.sleep(0.001)
            return socket

    return asyncio.run(scenario())


def test_a_page_of_the_gateway_comes_in_with_its_key_and_asks() -> None:
    async def scenario() -> Socket:
        headers = {**PAGE, **offering("ferrule.v1", key_protocol(CANARY))}
        async with gateway_of(speaking("Hello."), config=CONFIG) as client, connected(client, headers) as socket:
            await socket.say(Ask({"messages": [{"role": "user", "content": "Hi."}]}))
            assert (await socket.to_end()).frame == Done("stop")
            return socket

    assert asyncio.run(scenario()).protocol == "ferrule.v1"


@pytest.mark.parametrize(
    "protocols, chosen",
    [
        (["ferrule.v1", key_protocol(CANARY)], "ferrule.v1"),
        ([key_protocol(CANARY), "ferrule.v1"], "ferrule.v1"),
        (["chat", "ferrule.v1", key_protocol(CANARY)], "ferrule.v1"),
        # The key alone is good enough, and is never said back.
        ([key_protocol(CANARY)], None),
        (["ferrule.v2", key_protocol(CANARY)], None),
    ],
)
def test_only_our_own_protocol_is_ever_chosen(protocols: list[str], chosen: str | None) -> None:
    socket = opened(offering(*protocols))
    assert (socket.is_accepted, socket.protocol) == (True, chosen)


def test_who_sends_a_key_in_a_header_may_name_the_protocol_or_not() -> None:
    assert opened(bearer(CANARY)).protocol is None
    assert opened({**bearer(CANARY), **offering("ferrule.v1")}).protocol == "ferrule.v1"


def test_where_there_are_no_keys_the_protocol_is_chosen_all_the_same() -> None:
    assert opened({**PAGE, **offering("ferrule.v1")}, None).protocol == "ferrule.v1"


@pytest.mark.parametrize(
    "headers",
    [
        offering("ferrule.v1"),
        offering("ferrule.v1", key_protocol("nobody")),
        offering("ferrule.v1", f"ferrule.key.{CANARY}"),
        offering("ferrule.v1", key_protocol(CANARY) + "="),
        offering("ferrule.v1", key_protocol(CANARY), key_protocol("bob")),
        {**bearer("bob"), **offering("ferrule.v1", key_protocol(CANARY))},
        {"origin": "http://evil.example", **offering("ferrule.v1", key_protocol(CANARY))},
        {"origin": "http://localhost:3000", **offering("ferrule.v1", key_protocol(CANARY))},
    ],
)
def test_who_shows_no_key_or_two_or_comes_from_elsewhere_is_refused(headers: dict[str, str]) -> None:
    socket = opened(headers)
    assert (socket.is_accepted, socket.closed) == (False, 1008)


@asynccontextmanager
async def shaken(port: int, host: str, *protocols: str) -> AsyncGenerator[str]:
    """The head of the answer to a handshake, from a page of the host that is asked."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    nonce = base64.b64encode(b"0123456789abcdef").decode()
    head = (
        f"GET /v1/stream HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nUpgrade: websocket\r\n"
        f"Connection: Upgrade\r\nSec-WebSocket-Key: {nonce}\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {', '.join(protocols)}\r\n\r\n"
    )
    writer.write(head.encode())
    try:
        async with asyncio.timeout(30):
            yield (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def test_on_a_real_port_the_key_comes_back_neither_in_the_answer_nor_in_a_log() -> None:
    async def scenario() -> tuple[list[str], Lines]:
        async with watched_gateway(speaking(), config=CONFIG) as (client, lines):
            ports = asyncio.Queue[int]()
            watch = client.gateway.watch
            serving = asyncio.ensure_future(serve(client.app, Listening(port=0), ports.put_nowait, watch=watch))
            heads: list[str] = []
            try:
                port = await ports.get()
                for text in (CANARY, CANARY + "x"):
                    async with shaken(port, f"localhost:{port}", "ferrule.v1", key_protocol(text)) as head:
                        heads.append(head)
            finally:
                serving.cancel()
                await asyncio.gather(serving, return_exceptions=True)
        return heads, lines

    (taken, refused), lines = asyncio.run(scenario())
    assert taken.startswith("http/1.1 101 ")
    assert "sec-websocket-protocol: ferrule.v1\r\n" in taken
    assert refused.startswith("http/1.1 403 ")
    assert [line["outcome"] for line in lines.named("request")].count("unauthenticated") == 1
    for text in (CANARY, key_protocol(CANARY), key_protocol(CANARY).removeprefix("ferrule.key.")):
        assert text not in lines.all
        assert text.lower() not in taken + refused
