"""Keys in the ledger, from outside: two `ferrule serve` processes, `ferrule keys`, and OpenAI's own client."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from lab.gateway_clients import Clients, clients
from live.endless_upstream import EndlessUpstream, endless_upstream
from run.ledger_databases import postgres_cluster, postgres_database
from server.gateway_process import TESTS, GatewayProcess, gateway_with_config
from waiting import eventually

pytestmark = pytest.mark.live


@pytest.fixture(params=["sqlite", "postgres"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "sqlite":
        yield str(tmp_path / "ledger.db")
        return
    with postgres_cluster() as cluster:
        yield postgres_database(cluster).where


@pytest.fixture
def upstream() -> Iterator[EndlessUpstream]:
    with endless_upstream() as made:
        yield made


def keys(ledger: str, *arguments: str) -> tuple[str, Any]:
    """Run `ferrule keys`. Returns the key that it showed, if any, and what it printed as JSON."""
    command = [sys.executable, "-m", "ferrule", "keys", *arguments, "--json", "--ledger", ledger]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=True)
    return done.stderr.splitlines()[-1] if done.stderr else "", json.loads(done.stdout)


def status(gateway: GatewayProcess, key: str) -> int:
    return gateway.request("GET", "/v1/models", who=key)[0]


def test_a_key_lives_and_dies_in_every_process_and_takes_its_streams_with_it(
    ledger: str, upstream: EndlessUpstream, tmp_path: Path
) -> None:
    config = (
        f'[engines.e0]\nuse = "openai:m?tries=1"\nurl = "{upstream.url}"\n'
        f'[server]\nport = 0\ndrain_seconds = 1\nrequire_keys = true\nledger = "{ledger}"'
    )
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder in folders:
        folder.mkdir()
    with (
        # The first, because it waits for its threads, and their streams end with the gateways.
        ThreadPoolExecutor() as threads,
        gateway_with_config(folders[0], config) as first,
        gateway_with_config(folders[1], config) as second,
        clients() as sdk,
    ):
        assert status(first, "fk_nobody") == status(second, "fk_nobody") == 401
        admin, _ = keys(ledger, "create", "root", "--admin", "--approve", "--tools", "*", "--tenant", "acme")
        for gateway in (first, second):
            eventually(lambda gateway=gateway: status(gateway, admin) == 200)

        # Made over HTTP in one process, known in the other.
        code, made = first.request("POST", "/v1/keys", {"name": "app", "expires_in": 3600}, admin)
        assert code == 201
        eventually(lambda: status(second, made["key"]) == 200)

        # Its stream runs in the second process; the key is revoked in the first one.
        more = {"tool_choice": "auto"}
        options = {"url": second.url, "key": made["key"], "model": "e0", "more": more}
        streaming = threads.submit(sdk.ask, "openai", "live_openai.chat_chunks", options)
        other = threads.submit(_hold, second, admin)
        eventually(lambda: upstream.begun == 2)
        assert first.request("POST", f"/v1/keys/{made['id']}/revoke", None, admin)[0] == 200
        ended = streaming.result()
        # An error in the stream; or on a busy machine a refusal, if no event had been sent.
        assert "the key 'app' was revoked" in ended["error"]
        eventually(lambda: upstream.left == 1)
        assert not other.done()

        # Both processes refuse it, and say why.
        for gateway in (first, second):
            code, body = gateway.request("GET", "/v1/models", who=made["key"])
            assert (code, body["error"]["code"]) == (401, "key_revoked")
        refused = _ask(sdk, second, made["key"])
        assert refused["error"].startswith("AuthenticationError: Error code: 401")

        # A rotation by the command; the admin's own stream still runs.
        _, (root,) = keys(ledger, "list", "--tenant", "acme")
        renewed, new = keys(ledger, "rotate", root["id"], "--overlap", "1h")
        assert (new["name"], new["admin"]) == ("root", True)
        for gateway in (first, second):
            eventually(lambda gateway=gateway: status(gateway, renewed) == 200)
            assert status(gateway, admin) == 200
        keys(ledger, "revoke", root["id"])
        for gateway in (first, second):
            eventually(lambda gateway=gateway: status(gateway, admin) == 401)
            assert status(gateway, renewed) == 200
        assert b"was revoked" in other.result()
        used = [one["name"] for one in keys(ledger, "list", "--all")[1] if one["status"] == "revoked"]
        assert sorted(used) == ["app", "root"]
        eventually(lambda: bool(keys(ledger, "list")[1][0]["last_used_at"]))


def _ask(sdk: Clients, gateway: GatewayProcess, key: str) -> dict[str, Any]:
    return sdk.ask("openai", "live_openai.chat_chunks", {"url": gateway.url, "key": key, "model": "e0"})


def _hold(gateway: GatewayProcess, key: str) -> bytes:
    """Read an endless stream until it ends."""
    import urllib.request

    body = {"model": "e0", "stream": True, "messages": [{"role": "user", "content": "Go on."}]}
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    request = urllib.request.Request(f"{gateway.url}/v1/chat/completions", json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request) as answer:
        return answer.read()
