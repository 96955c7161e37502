"""`ferrule.gateway`: a gateway that a Python program opens, serves or configures."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

import ferrule.gateway
from ferrule import Reply, ToolCall, tool
from ferrule.errors import DefinitionError
from ferrule.gateway import Config, EngineConfig, ServerConfig, application, chat_request, chat_response, load_config
from ferrule.sources import Functions
from ferrule.testing import FakeEngine
from waiting import PATIENCE

CONFIG = Config(engines=(EngineConfig(name="smol", use="fake:Hello."),))


@tool
def get_weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


def test_a_gateway_is_opened_with_the_tools_that_are_passed() -> None:
    async def main() -> None:
        async with ferrule.gateway.open(CONFIG, [Functions([get_weather])]) as gateway:
            assert callable(application(gateway))
            assert list(gateway.router.models) == ["smol"]
            assert list(gateway.tool_catalog.tools) == ["get_weather"]

    asyncio.run(main())


def test_sources_that_only_the_command_starts_are_refused_and_not_ignored() -> None:
    async def main() -> None:
        config = replace(CONFIG, sources=replace(CONFIG.sources, mcp_config="mcp.json"))
        with pytest.raises(DefinitionError, match="ferrule serve") as refusal:
            async with ferrule.gateway.open(config):
                pass
        assert "ferrule.sources.mcp" in refusal.value.hint

    asyncio.run(main())


def test_a_gateway_is_served_until_it_is_stopped() -> None:
    async def main() -> None:
        started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        config = replace(CONFIG, server=ServerConfig(port=0))
        serving = asyncio.create_task(ferrule.gateway.serve(config, on_started=started.set_result))
        port = await asyncio.wait_for(started, PATIENCE)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.readline()).startswith(b"HTTP/1.1 200")
        writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    asyncio.run(main())


def test_a_configuration_is_loaded_from_a_file_and_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ferrule.toml"
    file.write_text('[engines.smol]\nuse = "fake:Hello."\n', encoding="utf-8")
    monkeypatch.setenv("FERRULE_SERVER_PORT", "9000")
    config = load_config(str(file))
    assert [engine.name for engine in config.engines] == ["smol"]
    assert config.server.port == 9000


def test_a_chat_body_becomes_a_request_and_the_reply_a_body() -> None:
    body = {
        "messages": [{"role": "user", "content": "How is Rome?"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}],
    }
    engine = FakeEngine([Reply.of(ToolCall.of("get_weather", {"city": "Rome"}, id="call_1"))])
    reply = engine.generate(chat_request(body))
    response, other = (chat_response(reply, model="smol") for _ in range(2))
    assert response["choices"][0]["message"]["tool_calls"][0]["id"] == "call_1"
    assert response["id"] != other["id"]
    assert chat_response(reply, model="smol", id="chatcmpl-1", created=7)["created"] == 7
