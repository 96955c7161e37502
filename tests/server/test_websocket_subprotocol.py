"""Keys in WebSocket subprotocols: a browser page cannot send other headers with a WebSocket."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from ferrule.dialects.frames.client_frames import AskFrame
from ferrule.dialects.frames.server_frames import DoneFrame
from ferrule.server.config.config import Config, ServerConfig
from ferrule.server.process.server import serve
from server.client import gateway_of, scripted_engine
from server.keys import bearer, config_with_keys, key, key_protocol
from server.watched import LogLines, gateway_with_log
from server.websocket_client import Socket, connect
from waiting import PATIENCE

CANARY = "canary-key-51c2"
CONFIG = config_with_keys(key("ann", CANARY), key("bob"))
PAGE = {"host": "localhost:8000", "origin": "http://localhost:8000"}


def headers_with(*protocols: str) -> dict[str, str]:
    return {"sec-websocket-protocol": ", ".join(protocols)}


def open_socket(headers: dict[str, str], config: Config | None = CONFIG) -> Socket:
    """The connection, once the gateway has taken or refused it."""

    async def scenario() -> Socket:
        async with gateway_of(scripted_engine(), config=config) as client, connect(client, headers) as socket:
            async with asyncio.timeout(PATIENCE):
                while not socket.is_accepted and socket.closed is None:
                    await asyncio.sleep(0.001)
            return socket

    return asyncio.run(scenario())


def test_a_page_of_the_gateway_comes_in_with_its_key_and_asks() -> None:
    async def scenario() -> Socket:
        headers = {**PAGE, **headers_with("ferrule.v1", key_protocol(CANARY))}
        async with gateway_of(scripted_engine("Hello."), config=CONFIG) as client, connect(client, headers) as socket:
            await socket.send(AskFrame({"messages": [{"role": "user", "content": "Hi."}]}))
            assert (await socket.to_end()).frame == DoneFrame("stop")
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
    socket = open_socket(headers_with(*protocols))
    assert (socket.is_accepted, socket.protocol) == (True, chosen)


def test_with_a_key_in_a_header_the_protocol_is_optional() -> None:
    assert open_socket(bearer(CANARY)).protocol is None
    assert open_socket({**bearer(CANARY), **headers_with("ferrule.v1")}).protocol == "ferrule.v1"


def test_where_there_are_no_keys_the_protocol_is_chosen_all_the_same() -> None:
    assert open_socket({**PAGE, **headers_with("ferrule.v1")}, None).protocol == "ferrule.v1"


@pytest.mark.parametrize(
    "headers",
    [
        headers_with("ferrule.v1"),
        headers_with("ferrule.v1", key_protocol("nobody")),
        headers_with("ferrule.v1", f"ferrule.key.{CANARY}"),
        headers_with("ferrule.v1", key_protocol(CANARY) + "="),
        headers_with("ferrule.v1", key_protocol(CANARY), key_protocol("bob")),
        {**bearer("bob"), **headers_with("ferrule.v1", key_protocol(CANARY))},
        {"origin": "http://evil.example", **headers_with("ferrule.v1", key_protocol(CANARY))},
        {"origin": "http://localhost:3000", **headers_with("ferrule.v1", key_protocol(CANARY))},
    ],
)
def test_no_key_two_keys_or_a_foreign_origin_are_refused(headers: dict[str, str]) -> None:
    socket = open_socket(headers)
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
        async with asyncio.timeout(PATIENCE):
            yield (await reader.readuntil(b"\r\n\r\n")).decode().lower()
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


def test_on_a_real_port_the_key_comes_back_neither_in_the_answer_nor_in_a_log() -> None:
    async def scenario() -> tuple[list[str], LogLines]:
        async with gateway_with_log(scripted_engine(), config=CONFIG) as (client, lines):
            ports = asyncio.Queue[int]()
            watch = client.gateway.telemetry
            serving = asyncio.ensure_future(serve(client.app, ServerConfig(port=0), ports.put_nowait, telemetry=watch))
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
    assert refused.startswith("http/1.1 401 ")
    assert 'www-authenticate: bearer realm="ferrule"\r\n' in refused
    assert [line["outcome"] for line in lines.with_event("request")].count("unauthenticated") == 1
    for text in (CANARY, key_protocol(CANARY), key_protocol(CANARY).removeprefix("ferrule.key.")):
        assert text not in lines.text
        assert text.lower() not in taken + refused
