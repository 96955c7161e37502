"""`ferrule doctor --ledger` on SQLite files. What it says of real servers is in tests/live/test_doctor_ledger.py."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import ferrule.ledger
from cli.command_line import run


def make_ledger(path: Path) -> None:
    async def make() -> None:
        async with ferrule.ledger.open(path):
            pass

    asyncio.run(make())


def test_a_sqlite_ledger_is_examined_without_a_change(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    make_ledger(path)
    before = path.read_bytes()
    ran = run("doctor", "--ledger", str(path))
    rows = [line.split("\t") for line in ran.out.splitlines()]
    assert ran.code == 0
    assert rows[0] == ["probe", "verdict", "evidence"]
    assert [row[:2] for row in rows[1:]] == [["answers", "ok"], ["ledger", "ok"], ["journal", "ok"]]
    assert rows[3][2].startswith("wal")
    assert ran.err.splitlines() == ["Nothing to change."]
    assert path.read_bytes() == before


def test_a_url_and_a_file_path_name_the_same_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    make_ledger(path)
    assert run("doctor", "--ledger", f"sqlite:///{path}").out == run("doctor", "--ledger", str(path)).out


def test_a_file_that_does_not_exist_is_an_error_and_is_not_created(tmp_path: Path) -> None:
    path = tmp_path / "none.db"
    ran = run("doctor", "--ledger", str(path))
    assert ran.code != 0
    assert "there is no ledger" in ran.err
    assert not path.exists()


def test_another_database_is_reported_as_no_ledger(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    path.touch()
    ran = run("doctor", "--ledger", str(path), "--json")
    assert ran.code == 1
    assert [(one["name"], one["verdict"]) for one in ran.json["findings"]] == [("answers", "ok"), ("ledger", "failed")]


def test_a_ledger_of_a_newer_release_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    make_ledger(path)
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE ferrule_ledger SET version = 1000")
    connection.close()
    ran = run("doctor", "--ledger", str(path))
    assert ran.code == 1
    assert "install that release" in ran.err


def test_the_command_needs_one_subject(tmp_path: Path) -> None:
    assert "there is nothing to test" in run("doctor").err
    assert "not both" in run("doctor", "http://127.0.0.1:1", "--ledger", str(tmp_path / "ledger.db")).err


def test_each_of_several_databases_is_examined_also_if_one_does_not_answer(tmp_path: Path) -> None:
    paths = [tmp_path / "one.db", tmp_path / "two.db"]
    for path in paths:
        make_ledger(path)
    ran = run("doctor", "--ledger", str(paths[0]), "--ledger", str(paths[1]))
    assert ran.code == 0
    names = [line.split("\t")[0] for line in ran.out.splitlines()[1:]]
    assert names == [f"{number}: {name}" for number in (1, 2) for name in ("answers", "ledger", "journal")]
    ran = run("doctor", "--ledger", str(tmp_path / "none.db"), "--ledger", str(paths[1]), "--json")
    assert ran.code == 1
    assert [(one["name"], one["verdict"]) for one in ran.json["findings"]][:2] == [
        ("1: answers", "failed"),
        ("2: answers", "ok"),
    ]
