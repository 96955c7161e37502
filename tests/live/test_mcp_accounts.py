"""Accounts of their own: each principal, or each tenant, reaches an MCP server with its own tokens and no others."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from ferrule.core.context import CallContext, Principal, Progress
from ferrule.core.outcome import Answered, NotDelivered, Outcome
from ferrule.run.ledger.address import open_ledger
from ferrule.sources.mcp.account_connections import AccountConnections, account_of
from ferrule.sources.mcp.config import HttpTransport, OAuthClient, Server
from ferrule.sources.mcp.credentials import credential_id
from ferrule.sources.mcp.loopback import sign_in
from ferrule.sources.mcp.sealed_credentials import SealedCredentials
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState
from live.private_server import KEY, SWIFT, Private, browse, private_server
from server.gateway_process import ANN as ANN_KEY
from server.gateway_process import EVE as EVE_KEY
from server.gateway_process import gateway_process
from waiting import PATIENCE, eventually, until

pytestmark = pytest.mark.live

ANN, BOB, OTHER_ANN = Principal("ann", "acme"), Principal("bob", "acme"), Principal("ann", "evil")
EVERYONE = (ANN, BOB, OTHER_ANN)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Private]:
    with private_server(tmp_path) as world:
        yield world


@dataclass(frozen=True, slots=True)
class Process:
    """What one process has: its own ledger and its own source."""

    server: Server
    store: SealedCredentials
    source: McpServers

    async def sign_in(self, who: Principal) -> str:
        """Sign in, and return the id of the client that is registered for this account."""
        store = self.store.of_account(*account_of(self.server, who.tenant, who.name))
        await sign_in(self.server, store, browse, seconds=PATIENCE)
        kept = await store.read(credential_id(self.server))
        assert kept is not None
        assert kept.client is not None
        return str(kept.client["client_id"])

    async def whoami(self, who: Principal, **more: object) -> Outcome:
        return await self.source.call("private_whoami", {}, CallContext(call_id="c", principal=who, **more))  # pyright: ignore[reportArgumentType]  # fields of the context

    async def names(self, people: Sequence[Principal]) -> list[object]:
        outcomes = await asyncio.gather(*map(self.whoami, people))
        return [name_in(one) or one for one in outcomes]


def name_in(outcome: Outcome) -> str:
    """The name that the server answered; empty if it did not."""
    return str(cast("dict[str, object]", outcome.content)["result"]) if isinstance(outcome, Answered) else ""


@asynccontextmanager
async def process(private: Private, account: str = "principal", patience: float = 0.0) -> AsyncGenerator[Process]:
    server = Server("private", HttpTransport(f"{private.url}/mcp", oauth=OAuthClient(account=account)))
    async with await open_ledger(str(private.store.with_name("ledger.db"))) as ledger:
        store = SealedCredentials(ledger, (KEY,))
        options = replace(SWIFT, login_patience=patience)
        source = McpServers([server], options=options, settle_seconds=PATIENCE)
        source.keep_credentials(store)
        async with source:
            yield Process(server, store, source)


async def ready(one: Process) -> None:
    await until(lambda: one.source.statuses[0].state is SourceState.READY)


def test_every_principal_is_itself_through_refreshes_restarts_and_the_end_of_anothers_grant(private: Private) -> None:
    async def run() -> None:
        async with process(private) as first:
            clients = [await first.sign_in(who) for who in EVERYONE]
            assert len({*clients}) == len(EVERYONE)
            await ready(first)
            for _ in range(3):
                private.log.with_suffix(".expired").touch()
                assert await first.names([*EVERYONE, *EVERYONE]) == [*clients, *clients]
        async with process(private) as second, process(private) as third:
            await ready(second)
            await ready(third)
            private.log.with_suffix(".expired").touch()
            both = await asyncio.gather(second.names(EVERYONE), third.names(EVERYONE))
            assert both == [clients, clients]
            private.log.with_suffix(".revoked-one").write_text(clients[1], encoding="utf-8")
            ann, bob, other = await second.names(EVERYONE)
            assert (ann, other) == (clients[0], clients[2])
            assert isinstance(bob, NotDelivered)
        assert private.told["consent"] == len(EVERYONE)
        assert private.told["reused"] == 0

    asyncio.run(run())


def test_who_is_not_signed_in_is_told_how_and_gets_nobody_elses_account(private: Private) -> None:
    async def run() -> None:
        async with process(private) as one:
            status = one.source.statuses[0]
            assert (status.state, status.tools) == (SourceState.NEEDS_LOGIN, ())
            assert "--tenant TENANT --principal NAME" in status.reason
            client = await one.sign_in(ANN)
            await ready(one)
            for stranger in (BOB, OTHER_ANN, Principal("", "acme"), Principal("ann", "")):
                outcome = await one.whoami(stranger)
                assert isinstance(outcome, NotDelivered), outcome
                assert outcome.code == "needs_login"
            refused = await one.whoami(BOB)
            assert isinstance(refused, NotDelivered)
            assert "ferrule mcp login private --tenant acme --principal bob" in refused.reason
            assert await one.names([ANN]) == [client]

    asyncio.run(run())


def test_a_call_waits_for_its_login_and_goes_on_as_the_one_who_signed_in(private: Private) -> None:
    async def run() -> None:
        async with process(private, patience=PATIENCE) as one:
            await one.sign_in(ANN)
            await ready(one)
            reports: list[Progress] = []
            call = asyncio.ensure_future(one.whoami(BOB, on_progress=reports.append))
            await until(lambda: bool(reports))
            assert "waits for bob to sign in" in reports[0].message
            assert not call.done()
            client = await one.sign_in(BOB)
            assert name_in(await call) == client
            # And when a grant ends in the middle.
            reports.clear()
            private.log.with_suffix(".revoked-one").write_text(client, encoding="utf-8")
            call = asyncio.ensure_future(one.whoami(BOB, on_progress=reports.append))
            await until(lambda: bool(reports))
            assert await one.sign_in(BOB) == client
            assert name_in(await call) == client

    asyncio.run(run())


def test_a_tenant_that_has_one_account_shares_it_and_with_no_other_tenant(private: Private) -> None:
    async def run() -> None:
        async with process(private, "tenant") as one:
            client = await one.sign_in(ANN)
            await ready(one)
            assert await one.names([ANN, BOB]) == [client, client]
            assert isinstance(await one.whoami(OTHER_ANN), NotDelivered)

    asyncio.run(run())


def test_connections_that_are_idle_make_room_and_come_back_as_the_same_account(private: Private) -> None:
    async def run() -> None:
        async with process(private) as one:
            clients = [await one.sign_in(who) for who in EVERYONE]
            await ready(one)
            (connections,) = one.source._connections  # pyright: ignore[reportPrivateUsage]  # no user sets this limit
            assert isinstance(connections, AccountConnections)
            connections.max_open = 1
            for _ in range(2):
                for who, client in zip(EVERYONE, clients, strict=True):
                    assert await one.names([who]) == [client]
        assert private.told["consent"] == len(EVERYONE)

    asyncio.run(run())


def test_the_gateway_calls_as_the_principal_of_the_key(
    private: Private, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "mcp.json"
    entry = {"url": f"{private.url}/mcp", "oauth": {"account": "principal"}, "readOnly": True}
    config.write_text(json.dumps({"mcpServers": {"private": entry}}), encoding="utf-8")
    tools = tmp_path / "tools.py"
    tools.write_text("TOOLS = []\n", encoding="utf-8")
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n",
        encoding="utf-8",
    )
    browser.chmod(0o755)
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", KEY)
    monkeypatch.setenv("BROWSER", f"{browser} %s")

    def login(*whose: str) -> subprocess.CompletedProcess[str]:
        where = ["--config", str(config), "--ledger", str(tmp_path / "ledger.db")]
        command = [sys.executable, "-m", "ferrule", "mcp", "login", "private", *whose, *where]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)

    more = f'mcp_config = "{config}"\nmcp_credentials = "ledger"'
    with gateway_process(tmp_path, tools, more=more, tool_seconds=60) as gateway:
        refused = login("--tenant", ANN_KEY)
        assert refused.returncode != 0
        assert "--principal" in refused.stderr
        for name in (ANN_KEY, EVE_KEY):
            done = login("--tenant", name, "--principal", name)
            assert done.returncode == 0, done.stderr
        eventually(lambda: "private_whoami" in json.dumps(gateway.request("GET", "/v1/tools")[1]))
        (_, ann), (_, eve) = gateway.call("private_whoami", ANN_KEY), gateway.call("private_whoami", EVE_KEY)
    assert private.told["consent"] == 2
    assert "content" in json.dumps(ann), ann
    assert json.dumps(ann) != json.dumps(eve)
