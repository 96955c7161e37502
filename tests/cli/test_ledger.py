"""`ferrule ledger`: prune, delete, export, check and migrate, on a SQLite file and on Postgres."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from architecture.source_tree import SRC
from cli.command_line import Ran, run
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Database, claim, postgres_cluster, postgres_database, sqlite_database
from run.old_ledger import write_old_ledger
from run.test_retention import SECRET, full_conversation

NOW = time.time()
DAY = 86_400.0


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    if request.param == "sqlite":
        return sqlite_database(tmp_path)
    return postgres_database(request.getfixturevalue("cluster"))


def ledger(action: str, database: Database, *options: str) -> Ran:
    return run("ledger", action, "--ledger", database.where, *options)


def check(database: Database) -> Ran:
    return ledger("check", database)


def test_prune_counts_then_removes_and_check_finds_all_whole(database: Database) -> None:
    async def fill(opened: SqlLedger) -> None:
        await full_conversation(opened, "old", NOW - 50 * DAY)
        await full_conversation(opened, "new", NOW)
        record = await opened.open("lost", ANN, "one", LEASE, now=NOW - 50 * DAY)
        await opened.propose(claim("lost"), record.epoch, side_effects=True, needs_approval=False, now=NOW - 50 * DAY)
        await opened.start(claim("lost"), record.epoch, now=NOW - 50 * DAY)

    database.run(fill)
    dry = ledger("prune", database, "--older-than", "30", "--dry-run")
    assert (dry.code, dry.out.splitlines()[0]) == (0, "would remove 1 conversations, 0 audit logs")
    done = ledger("prune", database, "--older-than", "30")
    assert done.out.splitlines()[0] == "removed 1 conversations, 0 audit logs"
    assert "kept 1: a call with side effects has no known outcome" in done.out
    assert check(database).code == 0
    assert run("audit", "old", "--ledger", database.where).code == 0
    last = ledger("prune", database, "--older-than", "30", "--audit-older-than", "40")
    assert last.out.splitlines()[0] == "removed 1 conversations, 2 audit logs"
    assert check(database).code == 0
    assert run("audit", "old", "--ledger", database.where).code == 1


@pytest.mark.parametrize(
    "options", [("--older-than", "-1"), ("--older-than", "nan"), ("--older-than", "x"), ("--older-than", "inf"), ()]
)
def test_prune_refuses_ages_that_are_none(tmp_path: Path, options: tuple[str, ...]) -> None:
    assert run("ledger", "prune", "--ledger", str(tmp_path / "x.db"), *options).code == 2


def test_an_audit_log_cannot_go_before_its_conversation(database: Database) -> None:
    database.run(lambda opened: full_conversation(opened, "c", NOW))
    for ages in (("--older-than", "30", "--audit-older-than", "10"), ("--older-than", "0", "--audit-older-than", "0")):
        refused = ledger("prune", database, *ages)
        assert (refused.code, "hint:" in refused.err) == (1, True)


def test_a_missing_ledger_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    for action, options in {
        "prune": ("--older-than", "1"),
        "delete": ("--principal", "ann"),
        "export": (),
        "check": (),
        "migrate": (),
    }.items():
        result = run("ledger", action, "--ledger", str(path), *options)
        assert (result.code, result.err.startswith("error:"), path.exists()) == (1, True, False)


def test_delete_needs_a_yes_and_reports_what_is_in_use(database: Database) -> None:
    async def fill(opened: SqlLedger) -> None:
        await full_conversation(opened, "a", NOW - DAY)
        await opened.open("busy", ANN, "one", 3600.0, now=NOW)

    database.run(fill)
    options = ("--principal", "ann", "--tenant", "acme")
    asked = ledger("delete", database, *options)
    assert (asked.code, "would remove 1 conversations" in asked.out) == (1, True)
    assert database.run(lambda opened: opened.load("a")) is not None
    assert ledger("delete", database, "--principal", "ann", "--yes").out.startswith("removed 0 conversations")
    done = ledger("delete", database, *options, "--yes", "--by", "dpo")
    assert done.code == 1
    assert "'busy'" in done.err
    assert done.out.startswith("removed 1 conversations")
    assert database.run(lambda opened: opened.load("a")) is None
    assert check(database).code == 0


def test_an_export_is_plain_json_whose_hashes_the_audit_proves(database: Database) -> None:
    async def fill(opened: SqlLedger) -> None:
        await full_conversation(opened, "a", NOW - 50 * DAY)
        await full_conversation(opened, "b", NOW)
        record = await opened.open("odd", ANN, "one", LEASE, now=NOW)
        # Half a surrogate pair: JSON can say it, UTF-8 cannot.
        await opened.save("odd", record.epoch, {"messages": [{"text": "\ud800 \u2028 é"}]}, now=NOW)

    database.run(fill)
    exported = ledger("export", database)
    documents: dict[str, Any] = {}
    for line in exported.out.split("\n")[:-1]:
        document = json.loads(line)
        documents[document["id"]] = document
    assert list(documents) == ["a", "b", "odd"]
    assert exported.err == "exported 3 conversations\n"
    for document in documents.values():
        verify_export(document)
    assert documents["odd"]["messages"] == [{"text": "\ud800 \u2028 é"}]
    assert documents["a"]["responses"][0]["events"] == [SECRET]
    assert documents["a"]["approvals"][0]["decided_by"] == "bob"
    since = time.strftime("%Y-%m-%d", time.gmtime(NOW - 2 * DAY))
    assert len(ledger("export", database, "--since", since, "--tenant", "acme").out.splitlines()) == 2
    assert ledger("export", database, "--principal", "eve").out == ""
    ledger("prune", database, "--older-than", "30")
    removed = json.loads(ledger("export", database).out.splitlines()[0])
    assert (removed["id"], removed["is_removed"]) == ("a", True)
    assert SECRET not in json.dumps(removed)


def verify_export(document: dict[str, Any]) -> None:
    """Compute the hashes again with nothing but the standard library."""

    def text(value: Any) -> str:
        plain = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return plain.replace("\ud800", "\\ud800")

    def sha256(data: str) -> str:
        return hashlib.sha256(data.encode()).hexdigest()

    previous = "0" * 64
    for seq, row in enumerate(document["audit"], start=1):
        names = ("approval", "at", "by", "call_id", "conversation", "epoch", "kind", "seq")
        fields = {**{name: row[name] for name in names}, "detail": text(row["detail"])}
        assert (row["seq"], row["previous"]) == (seq, previous)
        assert row["hash"] == sha256(previous + text(fields))
        previous = row["hash"]
    (saved,) = [row for row in document["audit"] if row["kind"] == "saved"]
    assert saved["detail"]["messages_sha256"] == sha256("\n".join(map(text, document["messages"])))
    for call in document["calls"]:
        assert call["arguments_sha256"] == sha256(text(call["arguments"]))


@pytest.mark.parametrize(
    "damage, named",
    [
        ("UPDATE ferrule_audit SET kind = 'x' WHERE seq = 2", "row 2 of 'c' was changed"),
        ("DELETE FROM ferrule_audit WHERE seq = 3", "row 3 of 'c' was removed"),
        ("UPDATE ferrule_audit SET conversation = 'a' WHERE seq = 2", "row 1 of 'a' was removed"),
        ("UPDATE ferrule_message SET conversation = 'd'", "1 in ferrule_message"),
    ],
)
def test_check_finds_damage(database: Database, damage: str, named: str) -> None:
    database.run(lambda opened: full_conversation(opened, "c", NOW))
    assert check(database).code == 0
    database.execute(damage, ())
    result = check(database)
    assert (result.code, "failed" in result.out, named in result.out) == (1, True, True), result.out


def test_migrate_raises_an_earlier_version_and_check_asks_for_it(database: Database) -> None:
    write_old_ledger(database)
    before = check(database)
    assert (before.code, "ferrule ledger migrate" in before.out) == (1, True)
    # It has changed nothing.
    assert database.execute("SELECT version FROM ferrule_ledger", ()) == [(5,)]
    done = ledger("migrate", database)
    assert (done.code, done.out.split(";")[0]) == (0, "version 5 is now version 8")
    assert database.execute("SELECT COUNT(*) FROM ferrule_conversation WHERE opened_at = 0", ()) == [(0,)]
    assert check(database).code == 0
    assert ledger("migrate", database).code == 0


def test_killed_at_any_moment_a_prune_leaves_everything_whole(database: Database) -> None:
    async def fill(opened: SqlLedger) -> None:
        for number in range(40):
            at = NOW - 50 * DAY + number
            record = await opened.open(f"c{number}", ANN, "one", LEASE, now=at)
            await opened.save(f"c{number}", record.epoch, {"messages": [{"n": number}]}, now=at)
            await opened.propose(claim(f"c{number}"), record.epoch, side_effects=True, needs_approval=False, now=at)
            await opened.release(f"c{number}", record.epoch, now=at)

    database.run(fill)
    luck = random.Random(7)
    command = [sys.executable, "-c", PRUNE_SLOWLY, database.where]
    killed = 0
    for _ in range(12):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env={**os.environ, "PYTHONPATH": str(SRC)}
        )
        assert process.stdout is not None
        # It prints a line for each batch: killed after some of them, anywhere in the next.
        for _ in range(luck.randrange(1, 3)):
            process.stdout.readline()
        time.sleep(luck.uniform(0.0, 0.02))
        process.send_signal(signal.SIGKILL)
        killed += process.wait() == -signal.SIGKILL
        process.stdout.close()
        assert check(database).code == 0
    assert killed
    assert ledger("prune", database, "--older-than", "30", "--audit-older-than", "31").code == 0
    assert check(database).code == 0
    assert ledger("export", database).out == ""


# Batches of two, so that there are many moments.
PRUNE_SLOWLY = """
import asyncio, sys, time
from ferrule.run.ledger import sql
from ferrule.run.ledger.address import open_ledger
sql.BATCH = 2

async def main():
    async def after_batch(report):
        print(report.conversations, report.audits, flush=True)

    now = time.time()
    async with await open_ledger(sys.argv[1]) as ledger:
        await ledger.prune(now - 30 * 86400, now - 31 * 86400, now=now, after_batch=after_batch)

asyncio.run(main())
"""
