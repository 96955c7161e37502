"""What `long mcp-accounts` finds in the log of the authorization server, and where tokens are."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from lab.mcp_accounts.leaks import dump_ledger, occurrences
from lab.mcp_accounts.run import overlapping, second_uses


def refresh(started: int, ended: int, used: str, status: int = 200, client: str = "c") -> dict[str, Any]:
    fields = {"started": started, "ended": ended, "used": used, "status": status, "client": client}
    return {**fields, "account": "ann@acme"}


def test_two_refreshes_of_one_account_at_the_same_moment_are_found() -> None:
    first, second = refresh(1000, 1100, "a"), refresh(1050, 1200, "a", 400)
    assert overlapping([second, first]) == [(first, second)]
    assert not overlapping([first, refresh(1100, 1200, "b")])
    assert not overlapping([first, {**second, "client": "of another account"}])


@pytest.mark.parametrize("killed_at, is_lost", [(4.9, True), (7.0, True), (3.0, False), (20.0, False)])
def test_a_refresh_token_that_is_used_twice_is_a_breach_unless_its_process_was_killed(
    killed_at: float, is_lost: bool
) -> None:
    log = [refresh(5000, 6000, "a"), refresh(20_000, 20_100, "a", 400), refresh(21_000, 21_100, "b", 400)]
    lost, unexplained = second_uses(log, [killed_at])
    assert (lost["ann@acme"], len(unexplained)) == ((1, 0) if is_lost else (0, 1))


def test_a_token_is_found_in_a_log_and_in_a_ledger(tmp_path: Path) -> None:
    token = "header.payload-of-the-token.signature-of-the-token"
    ledger, log, dump = tmp_path / "ledger.db", tmp_path / "log", tmp_path / "dump"
    connection = sqlite3.connect(ledger)
    connection.execute("CREATE TABLE calls (arguments BLOB, name TEXT)")
    connection.execute("INSERT INTO calls VALUES (?, 'x')", [b'{"key": "signature-of-the-token"}'])
    connection.commit()
    connection.close()
    log.write_text(f'{{"authorization": "Bearer {token}"}}\n{{}}\n', encoding="utf-8")
    dump_ledger(str(ledger), dump)
    assert occurrences([token], [log, dump, tmp_path / "missing"]) == ["log: 1 lines", "dump: 1 lines"]
    assert not occurrences(["another-token-of-this-run"], [log, dump])
