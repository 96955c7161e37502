"""Signing in to an MCP server: the SDK's own server and authorization server, short lives, outages, ended grants."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ferrule.core.context import CallContext
from ferrule.core.outcome import Answered, NotDelivered
from ferrule.sources.mcp.config import HttpTransport, Server
from ferrule.sources.mcp.credentials import CredentialFile, CredentialsError, credential_id
from ferrule.sources.mcp.loopback import LoginError, sign_in
from ferrule.sources.mcp.servers import McpServers
from ferrule.sources.status import SourceState
from live.private_server import KEY, Private, private_server
from waiting import PATIENCE, until

pytestmark = pytest.mark.live


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Private]:
    with private_server(tmp_path) as world:
        yield world


async def add(source: McpServers) -> object:
    return await source.call("private_add", {"a": 2, "b": 3}, CallContext(call_id="c"))


def state(source: McpServers) -> SourceState:
    return source.statuses[0].state


def test_who_is_not_signed_in_is_told_how_and_goes_on_after_the_login(private: Private) -> None:
    async def run() -> None:
        async with private.source() as source:
            assert state(source) is SourceState.NEEDS_LOGIN
            assert source.statuses[0].reason == "sign in with: ferrule mcp login private"
            assert isinstance(await add(source), NotDelivered)
            # Nobody was asked, and no client was registered, while nobody was here.
            assert private.told == {}
            assert await private.sign_in() == ("private_add", "private_whoami", "private_slow")
            await until(lambda: state(source) is SourceState.READY)
            answer = await add(source)
            assert isinstance(answer, Answered)
            assert "5" in str(answer.content)
        assert private.told["consent"] == private.told["registered"] == 1

    asyncio.run(run())


def test_two_processes_renew_expired_tokens_with_one_consent_and_use_none_twice(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        async with private.source() as one, private.source() as other:
            results: list[object] = []
            for _ in range(4):
                private.log.with_suffix(".expired").touch()
                results += await asyncio.gather(add(one), add(other))
            assert all(isinstance(result, Answered) for result in results), results
        assert private.told["consent"] == 1
        assert private.told["refreshed"] >= 4
        assert private.told["reused"] == private.told["refused"] == 0

    asyncio.run(run())


def test_an_expired_token_is_renewed_after_a_restart_without_a_new_consent(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        kept = await private.credentials().read(credential_id(private.server))
        assert kept is not None
        private.log.with_suffix(".expired").touch()
        await private.credentials().write(credential_id(private.server), replace(kept, expires_at=1.0))
        async with private.source() as source:
            assert isinstance(await add(source), Answered)
        assert private.told["consent"] == 1
        assert private.told["refreshed"] >= 1

    asyncio.run(run())


def test_an_authorization_server_that_is_away_costs_no_token(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        away = private.log.with_suffix(".away")
        away.touch()
        private.log.with_suffix(".expired").touch()
        async with private.source() as source:
            await until(lambda: private.told["away"] >= 2)
            assert state(source) is not SourceState.NEEDS_LOGIN
            away.unlink()
            await until(lambda: state(source) is SourceState.READY)
            assert isinstance(await add(source), Answered)
        assert private.told["consent"] == 1

    asyncio.run(run())


def test_an_ended_grant_wants_one_more_consent_and_no_second_registration(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        async with private.source() as source:
            private.log.with_suffix(".revoked").touch()
            await until(lambda: state(source) is SourceState.NEEDS_LOGIN)
            assert isinstance(await add(source), NotDelivered)
            await private.sign_in()
            await until(lambda: state(source) is SourceState.READY)
        assert (private.told["consent"], private.told["registered"]) == (2, 1)

    asyncio.run(run())


def test_a_call_that_is_refused_disturbs_no_other_call(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        async with private.source() as source:
            slow = asyncio.ensure_future(source.call("private_slow", {"seconds": 3}, CallContext(call_id="slow")))
            await until(lambda: private.told["slow"] == 1)
            private.log.with_suffix(".revoked").touch()
            refused = await add(source)
            assert isinstance(refused, NotDelivered), refused
            answer = await slow
            assert isinstance(answer, Answered), answer
            assert "done" in str(answer.content)

    asyncio.run(run())


def test_a_login_over_an_ended_grant_asks_again(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        private.log.with_suffix(".revoked").touch()
        assert len(await private.sign_in()) == 3
        assert (private.told["consent"], private.told["registered"]) == (2, 1)

    asyncio.run(run())


def test_a_logout_reaches_a_source_that_runs(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        async with private.source() as source:
            assert isinstance(await add(source), Answered)
            assert await private.credentials().remove(credential_id(private.server))
            assert isinstance(await add(source), NotDelivered)
            await until(lambda: state(source) is SourceState.NEEDS_LOGIN)
        assert await private.credentials().read(credential_id(private.server)) is None

    asyncio.run(run())


def test_a_call_that_is_cancelled_while_it_renews_the_token_loses_no_grant(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        async with private.source() as source:
            slow = private.log.with_suffix(".slow")
            slow.touch()
            private.log.with_suffix(".expired").touch()
            call = asyncio.ensure_future(add(source))
            await until(lambda: private.told["waiting"] >= 1)
            call.cancel()
            slow.unlink()
            await until(lambda: private.told["refreshed"] >= 1)
            assert isinstance(await add(source), Answered)
        assert private.told["consent"] == 1
        assert private.told["reused"] == 0

    asyncio.run(run())


def test_tokens_are_encrypted_readable_by_their_owner_alone_and_keys_are_replaced(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        id = credential_id(private.server)
        kept = await private.credentials().read(id)
        assert kept is not None
        assert kept.tokens is not None
        text = private.store.read_text(encoding="utf-8")
        assert kept.tokens["access_token"] not in text
        assert private.store.stat().st_mode & 0o777 == 0o600
        new = "f" * 64
        assert await private.credentials(new, KEY).read(id) == kept
        await private.credentials(new, KEY).write(id, kept)
        assert await private.credentials(new).read(id) == kept
        with pytest.raises(CredentialsError, match="another key"):
            await private.credentials().read(id)
        with pytest.raises(CredentialsError, match="is encrypted"):
            await CredentialFile(private.store).read(id)

    asyncio.run(run())


def test_a_server_of_the_same_name_elsewhere_gets_no_token(private: Private) -> None:
    async def run() -> None:
        await private.sign_in()
        elsewhere = Server("private", HttpTransport(f"{private.url}/other"))
        assert await private.credentials().read(credential_id(elsewhere)) is None
        heads: list[bytes] = []

        async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            heads.append(await reader.readuntil(b"\r\n\r\n"))
            writer.write(b"HTTP/1.1 401 Unauthorized\r\ncontent-length: 0\r\n\r\n")
            await writer.drain()
            writer.close()

        thief = await asyncio.start_server(listen, "127.0.0.1", 0)
        port = thief.sockets[0].getsockname()[1]
        moved = Server("private", HttpTransport(f"http://127.0.0.1:{port}/mcp"))
        async with thief, McpServers([moved], credentials=private.credentials(), settle_seconds=PATIENCE) as source:
            assert state(source) is SourceState.NEEDS_LOGIN
        assert heads
        assert not any(b"authorization" in head.lower() for head in heads)

    asyncio.run(run())


def test_a_login_that_nobody_finishes_ends_and_says_so(private: Private) -> None:
    async def ignore(address: str) -> None:
        """Close the page."""

    async def run() -> None:
        with pytest.raises(LoginError, match="private"):
            await sign_in(private.server, private.credentials(), ignore, seconds=5)

    asyncio.run(run())


def test_the_command_signs_in_with_a_browser_and_forgets(private: Private, tmp_path: Path) -> None:
    config = tmp_path / "mcp.json"
    config.write_text(f'{{"mcpServers": {{"private": {{"url": "{private.url}/mcp"}}}}}}', encoding="utf-8")
    browser = tmp_path / "browser"
    browser.write_text(
        f"#!{sys.executable}\nimport sys, urllib.request\nurllib.request.urlopen(sys.argv[1]).read()\n",
        encoding="utf-8",
    )
    browser.chmod(0o755)

    def ferrule(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ferrule", "mcp", *words, "--config", str(config)]
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "BROWSER": f"{browser} %s"}
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE)

    listed = ferrule("list", "--wait", "60")
    assert listed.returncode == 6
    assert "needs_login" in listed.stdout
    signed_in = ferrule("login", "private")
    assert signed_in.returncode == 0, signed_in.stderr
    assert "signed in to private: 3 tools" in signed_in.stdout
    assert (tmp_path / ".config/ferrule/mcp-credentials.json").stat().st_mode & 0o777 == 0o600
    assert ferrule("list", "--wait", "60").returncode == 0
    assert "forgot the tokens" in ferrule("logout", "private").stdout
    assert ferrule("list", "--wait", "60").returncode == 6
    assert ferrule("login", "other").returncode == 1


def test_an_online_check_names_the_login_and_begins_none(private: Private, tmp_path: Path) -> None:
    entry = {"mcpServers": {"private": {"url": f"{private.url}/mcp"}}}
    (tmp_path / "mcp.json").write_text(json.dumps(entry), encoding="utf-8")
    place = f'mcp_config = "mcp.json"\nmcp_credentials = "{private.store}"\n'
    (tmp_path / "ferrule.toml").write_text(f'[engines.e]\nuse = "fake:x"\n[sources]\n{place}', encoding="utf-8")

    def check() -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "ferrule", "config", "check", "--online"]
        # A browser that is opened would be an error.
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(tmp_path),
            "BROWSER": "false",
            "FERRULE_CREDENTIALS_KEY": KEY,
        }
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
        )

    before = check()
    assert before.returncode == 0, before.stderr
    assert "source\tMCP private\tneeds_login\tprobe\n" in before.stdout
    hint = f"ferrule mcp login private --config mcp.json --credentials {private.store}"
    assert f"the MCP server private needs a login: sign in with: {hint}\n" in before.stderr
    # Not even a client was registered.
    assert not private.told

    asyncio.run(private.sign_in())
    after = check()
    assert "source\tMCP private\tready, 3 tools\tprobe\n" in after.stdout, after.stderr
    assert "needs a login" not in after.stderr
