"""Tokens of MCP servers in a ledger: shared by processes and restarts, readable by none who has only the database."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.ledger import Ledger
from ferrule.sources.mcp.credentials import credential_id
from ferrule.sources.mcp.loopback import sign_in
from ferrule.sources.mcp.sealed_credentials import SealedCredentials
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState
from live.private_server import KEY, SWIFT, Private, browse, private_server
from run.ledger_databases import Database, postgres_cluster, postgres_database, sqlite_database
from server.gateway_process import GatewayProcess, gateway_process
from waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.live


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Private]:
    with private_server(tmp_path) as world:
        yield world


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    if request.param == "sqlite":
        yield sqlite_database(tmp_path)
        return
    with postgres_cluster() as folder:
        yield postgres_database(folder)


def store(ledger: Ledger) -> SealedCredentials:
    return SealedCredentials(ledger, (KEY,))


@asynccontextmanager
async def signed_in_process(private: Private, database: Database) -> AsyncGenerator[McpServers]:
    """What a process has: its own ledger, its own source."""
    async with await open_ledger(database.where) as ledger:
        source = McpServers([private.server], credentials=store(ledger), options=SWIFT, settle_seconds=PATIENCE)
        async with source:
            yield source


async def add(source: McpServers) -> object:
    return await source.call("private_add", {"a": 2, "b": 3}, CallContext(call_id="c"))


async def first_login(private: Private, database: Database) -> None:
    async with await open_ledger(database.where) as ledger:
        await sign_in(private.server, store(ledger), browse, seconds=PATIENCE)


def test_processes_renew_one_grant_in_turn_and_use_no_refresh_token_twice(private: Private, database: Database) -> None:
    async def run() -> None:
        await first_login(private, database)
        async with (
            signed_in_process(private, database) as one,
            signed_in_process(private, database) as other,
            signed_in_process(private, database) as third,
        ):
            results: list[object] = []
            for _ in range(4):
                private.log.with_suffix(".expired").touch()
                results += await asyncio.gather(*(add(source) for source in (one, other, third)))
            assert all(isinstance(result, Answered) for result in results), results
        assert private.told["consent"] == 1
        assert private.told["refreshed"] >= 4
        assert private.told["reused"] == private.told["refused"] == 0

    asyncio.run(run())


def test_a_token_that_expired_while_nothing_ran_is_renewed_and_not_sent(private: Private, database: Database) -> None:
    async def run() -> None:
        await first_login(private, database)
        id = credential_id(private.server)
        async with await open_ledger(database.where) as ledger:
            kept = await store(ledger).read(id)
            assert kept is not None
            await store(ledger).write(id, replace(kept, expires_at=1.0))
        async with signed_in_process(private, database) as source:
            assert isinstance(await add(source), Answered)
        assert private.told["consent"] == 1
        assert private.told["refreshed"] == 1

    asyncio.run(run())


def test_a_logout_ends_what_another_process_may_do(private: Private, database: Database) -> None:
    async def run() -> None:
        await first_login(private, database)
        async with signed_in_process(private, database) as source:
            assert isinstance(await add(source), Answered)
            async with await open_ledger(database.where) as ledger:
                assert await store(ledger).remove(credential_id(private.server))
            assert isinstance(await add(source), NotDelivered)
            await until(lambda: source.statuses[0].state is SourceState.NEEDS_LOGIN)

    asyncio.run(run())


def test_a_command_signs_a_running_gateway_in_and_the_next_one_stays_so(
    private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(f'{{"mcpServers": {{"private": {{"url": "{private.url}/mcp"}}}}}}', encoding="utf-8")
    tools = tmp_path / "tools.py"
    tools.write_text("TOOLS = []\n", encoding="utf-8")
    key_file = tmp_path / "key"
    key_file.write_text(f"{KEY}\n", encoding="utf-8")
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n",
        encoding="utf-8",
    )
    browser.chmod(0o755)
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY_FILE", str(key_file))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("BROWSER", f"{browser} %s")
    ledger = tmp_path / "ledger.db"

    def ferrule(*words: str) -> subprocess.CompletedProcess[str]:
        where = ["--config", str(config), "--ledger", str(ledger)]
        command = [sys.executable, "-m", "ferrule", "mcp", *words, *where]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    more = f'mcp_config = "{config}"\nmcp_credentials = "ledger"'
    with gateway_process(tmp_path, tools, more=more) as running:
        assert state(running) == "needs_login"
        login = ferrule("login", "private")
        assert login.returncode == 0, login.stderr
        assert "the tokens are in the ledger" in login.stdout
        eventually(lambda: state(running) == "ready")
    with gateway_process(tmp_path, tools, more=more) as again:
        eventually(lambda: state(again) == "ready")
        assert ferrule("list", "--wait", "60").returncode == 0
        assert "forgot the tokens" in ferrule("logout", "private").stdout
        assert ferrule("list", "--wait", "60").returncode == 6
    assert (private.told["consent"], private.told["registered"]) == (1, 1)
    # Nothing of the tokens is where it could be read.
    assert not (tmp_path / ".config").exists()


def state(gateway: GatewayProcess) -> str:
    status, page = gateway.request("GET", "/v1/sources")
    assert status == 200
    return next(one["state"] for one in page["data"] if one["name"] == "private")
