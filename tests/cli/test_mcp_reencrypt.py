"""`ferrule mcp reencrypt`: all tokens get the newest key, and those of a key that is missing are named."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from cli.command_line import run
from ferrule.run.ledger.address import open_ledger
from ferrule.sources.mcp.credentials import Credentials
from ferrule.sources.mcp.sealed_credentials import SealedCredentials

OLD, NEW, OTHER = "a" * 32, "b" * 32, "c" * 32
KEPT = Credentials({"access_token": "a-secret"})


def test_every_account_gets_the_newest_key_and_the_old_one_can_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = str(tmp_path / "ledger.db")

    async def write() -> None:
        async with await open_ledger(ledger) as opened:
            for name in ("ann", "bob"):
                await SealedCredentials(opened, (OLD,), "acme", name).write("linear:1", KEPT)

    async def read(key: str) -> list[Credentials | None]:
        async with await open_ledger(ledger) as opened:
            return [await SealedCredentials(opened, (key,), "acme", name).read("linear:1") for name in ("ann", "bob")]

    asyncio.run(write())
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", f"{NEW},{OLD}")
    first, second = (run("mcp", "reencrypt", "--ledger", ledger) for _ in range(2))
    assert (first.code, first.out) == (0, "re-encrypted: 2, with the newest key already: 0\n")
    assert (second.code, second.out) == (0, "re-encrypted: 0, with the newest key already: 2\n")
    assert asyncio.run(read(NEW)) == [KEPT, KEPT]

    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", OTHER)
    refused = run("mcp", "reencrypt", "--ledger", ledger)
    assert refused.code == 1
    assert "the entry linear of acme/bob is encrypted with a key that was not given" in refused.err


def test_without_a_ledger_it_is_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FERRULE_CREDENTIALS_KEY", raising=False)
    missing = run("mcp", "reencrypt", "--credentials", str(tmp_path / "c.json"))
    assert missing.code == 1
    assert "there is no key to encrypt with" in missing.err
    monkeypatch.setenv("FERRULE_CREDENTIALS_KEY", NEW)
    done = run("mcp", "reencrypt", "--credentials", str(tmp_path / "c.json"))
    assert (done.code, done.out) == (0, "re-encrypted: 0, with the newest key already: 0\n")
