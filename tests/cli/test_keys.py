"""`ferrule keys new`: a key that is shown once, and the configuration for it."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cli.command_line import run
from ferrule.cli.keys import hash_of, lines_of, new_key
from ferrule.run.ledger.sql import SqlLedger
from ferrule.server.config.config import KeyConfig
from ferrule.server.config.loader import parse_config
from run.ledger_databases import sqlite_database

NAMES = st.text(min_size=1, max_size=12).filter(str.isprintable) | st.text("${}:-aB\"\\'", min_size=1, max_size=12)


def read_keys(text: str) -> tuple[KeyConfig, ...]:
    return parse_config(f'[engines.e]\nuse = "fake:x"\n{text}', "ferrule.toml", {}).config.keys


def test_the_lines_let_in_the_key_that_was_shown_and_hold_nothing_of_it() -> None:
    ran = run(
        "keys", "new", "alice", "--tenant", "acme", "--models", "a", "b", "--tools", "*", "--approve", "--rate", "9"
    )
    assert ran.code == 0
    key = ran.err.splitlines()[-1]
    assert key.startswith("fk_")
    assert key not in ran.out
    (entry,) = read_keys(ran.out)
    assert entry == KeyConfig(
        name="alice",
        sha256=hashlib.sha256(key.encode()).hexdigest(),
        tenant="acme",
        models=("a", "b"),
        tools=("*",),
        approve=True,
        rate=9,
    )


def test_a_key_has_256_bits_and_no_two_are_alike() -> None:
    keys = {new_key() for _ in range(100)}
    assert len(keys) == 100
    assert {len(base64.urlsafe_b64decode(key.removeprefix("fk_") + "=")) for key in keys} == {32}


def test_without_options_the_lines_are_short() -> None:
    assert [line.partition(" ")[0] for line in run("keys", "new", "ci").out.splitlines()] == [
        "[[keys]]",
        "name",
        "sha256",
    ]


@given(NAMES, NAMES, st.lists(NAMES, max_size=3), st.booleans(), st.integers(0, 10**6))
def test_whatever_a_key_says_is_read_back_from_its_lines(
    name: str, tenant: str, tools: list[str], admin: bool, rate: int
) -> None:
    key = KeyConfig(
        name=name, sha256=hash_of("x"), tenant=tenant, tools=tuple(tools), admin=admin, operator=not admin, rate=rate
    )
    assert read_keys(lines_of(key)) == (key,)


@pytest.mark.parametrize("argv", [("new",), ("new", ""), ("new", "a\nb"), ("new", "a", "--tenant", "\x00"), ()])
def test_a_name_that_cannot_be_written_is_wrong_usage(argv: tuple[str, ...]) -> None:
    ran = run("keys", *argv)
    assert (ran.code, ran.raw) == (2, b"")


def test_an_operators_key_says_so_in_the_file_and_in_the_ledger(tmp_path: Path) -> None:
    (entry,) = read_keys(run("keys", "new", "prometheus", "--models", "--operator").out)
    assert (entry.operator, entry.admin, entry.models) == (True, False, ())

    async def nothing(ledger: SqlLedger) -> None:
        """Only make the ledger."""

    sqlite_database(tmp_path).run(nothing)
    ledger = str(tmp_path / "ledger.db")
    made = run("keys", "create", "prometheus", "--models", "--operator", "--ledger", ledger)
    assert "; operator; never used" in made.out
    assert run("keys", "list", "--ledger", ledger).out == made.out


def test_a_limit_below_nothing_is_refused() -> None:
    ran = run("keys", "new", "a", "--rate", "-1")
    assert (ran.code, ran.raw) == (1, b"")
