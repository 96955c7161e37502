"""Tokens of MCP servers in a gateway: accounts of their own are in the ledger, or the gateway does not start."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ferrule.engines.fake import FakeEngine
from ferrule.errors import DefinitionError
from ferrule.server.config.config import Config, EngineConfig, SourcesConfig
from ferrule.server.startup import open_gateway
from ferrule.sources.mcp.config import HttpTransport, OAuthClient, Server
from ferrule.sources.mcp.credentials import MemoryCredentials
from ferrule.sources.mcp.servers import McpServers

# Nothing listens there: what is looked at comes before the first connection.
SERVER = Server("crm", HttpTransport("http://127.0.0.1:9/mcp", oauth=OAuthClient(account="principal")))


def start(ledger: Path, place: str) -> None:
    source = McpServers([SERVER], credentials=MemoryCredentials() if place == "" else None, settle_seconds=0)
    engine = EngineConfig(name="e", use="fake:Hello.")
    config = Config(engines=(engine,), ledger=str(ledger), sources=SourcesConfig(mcp_credentials=place))

    async def run() -> None:
        async with open_gateway(config, [source], load=lambda use: FakeEngine([])):
            pass

    asyncio.run(run())


def test_callers_with_accounts_of_their_own_are_never_served_with_the_one_of_a_file(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="crm have accounts of their own"):
        start(tmp_path / "ledger.db", "")


def test_a_gateway_does_not_keep_tokens_in_a_ledger_without_a_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FERRULE_CREDENTIALS_KEY", raising=False)
    monkeypatch.delenv("FERRULE_CREDENTIALS_KEY_FILE", raising=False)
    with pytest.raises(DefinitionError, match="there is no key"):
        start(tmp_path / "ledger.db", "ledger")
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", "k" * 64)
    start(tmp_path / "ledger.db", "ledger")
