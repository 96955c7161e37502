"""`ferrule approvals` and `ferrule audit`: the user sees exactly what will run, and decisions are recorded."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cli.command_line import run
from ferrule.core.context import Principal
from ferrule.core.visible_text import visible_excerpt, visible_text
from ferrule.run.ledger.address import open_ledger
from ferrule.run.ledger.claim import Claim, canonical_bytes
from ferrule.run.ledger.ledger import Approval

TRICKY = {"to": "ann\u202e\u200b\x1b[2J", "note": "\n\n\n\ttool: harmless", "tag": "\U000e0041\u3164\u00a0\ufe0f"}


def request_approval(path: Path, arguments: object, lasts: float = 600, call_id: str = "k") -> Approval:
    async def story() -> Approval:
        now = time.time()
        async with await open_ledger(str(path)) as ledger:
            if await ledger.load("c") is None:
                await ledger.open("c", Principal("ann", "acme"), "one", 60, now=now)
            claim = Claim("c", call_id, "acme", "ann", "pay", "f1", canonical_bytes(arguments))
            await ledger.propose(claim, 1, side_effects=True, needs_approval=True, now=now)
            return await ledger.request_approval("c", call_id, 1, expires=now + lasts, now=now)

    return asyncio.run(story())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@given(text=st.text())
@example("\u200b\u2060\ufeff\u00ad\u061c\u2028\u3000\u2800")
def test_nothing_shown_is_hidden_and_plain_text_stays(text: str) -> None:
    visible = visible_text(canonical_bytes(text))
    assert visible.replace(" ", "x").isprintable()
    plain = "".join(character for character in text if character.isascii() and character.isalnum())
    assert visible_text(plain.encode()) == plain


def test_bytes_that_are_no_text_are_spelled() -> None:
    assert visible_text(b"a\xffb") == "a\\xffb"


def test_what_is_left_out_is_counted() -> None:
    padded = canonical_bytes({"a": " " * 10_000, "z": "evil"})
    assert visible_excerpt(padded).endswith(f"({len(padded) - 120} more characters)")
    assert visible_text(padded).endswith('"z":"evil"}')


def test_a_waiting_call_is_listed_and_shown_from_its_exact_bytes(path: Path) -> None:
    one = request_approval(path, TRICKY)
    listed = run("approvals", "list", "--ledger", str(path))
    assert (listed.code, listed.err) == (0, "")
    assert listed.out.startswith(f"{one.id}  pending  pay  {{")
    output = run("approvals", "show", one.id, "--ledger", str(path))
    arguments = output.out.splitlines()[-1]
    assert arguments == (
        r'arguments:    {"note":"\n\n\n\ttool: harmless","tag":"\U000e0041\u3164\xa0\ufe0f",'
        r'"to":"ann\u202e\u200b\u001b[2J"}'
    )
    assert one.arguments_sha256 in output.out
    assert run("approvals", "show", one.id, "--json", "--ledger", str(path)).json["arguments"] == one.arguments.decode()


def test_a_call_is_approved_once_and_the_audit_names_who_did_it(path: Path) -> None:
    one = request_approval(path, {"amount": 3})
    output = run("approvals", "approve", one.id, "--by", "bob", "--ledger", str(path))
    assert output.code == 0
    assert output.out.startswith("approved:\n")
    assert '{"amount":3}' in output.out
    again = run("approvals", "approve", one.id, "--by", "eve", "--ledger", str(path))
    assert (again.code, again.raw, again.err) == (1, b"", "error: the approval was already decided: it is approved\n")
    audit = run("audit", "c", "--ledger", str(path))
    assert audit.code == 0
    assert [line.split()[4] for line in audit.out.splitlines()[:-1]] == [
        *("opened", "proposed", "awaiting_approval", "approved")
    ]
    assert "  bob  " in audit.out
    assert audit.out.splitlines()[-1].startswith("verified: 4 rows, the last hash is ")


def test_a_call_is_allowed_with_other_arguments(path: Path) -> None:
    one = request_approval(path, {"amount": 3})
    ran = run("approvals", "approve", one.id, "--by", "bob", "--arguments", '{ "amount": 2 }', "--ledger", str(path))
    assert (ran.code, '{"amount":2}' in ran.out) == (0, True)
    output = run("approvals", "show", one.id, "--ledger", str(path)).out
    assert one.arguments_sha256 not in output


@pytest.mark.parametrize("text", ["{", "[1]", "3"])
def test_what_is_no_object_cannot_be_allowed(path: Path, text: str) -> None:
    one = request_approval(path, {"amount": 3})
    ran = run("approvals", "approve", one.id, "--by", "bob", "--arguments", text, "--ledger", str(path))
    assert (ran.code, ran.out) == (1, "")


def test_a_denial_says_why(path: Path) -> None:
    one = request_approval(path, {})
    output = run("approvals", "deny", one.id, "--by", "bob", "--why", "too\x1b[2J much", "--ledger", str(path))
    assert output.code == 0
    assert "why:          too\\x1b[2J much\n" in output.out
    assert run("approvals", "list", "--ledger", str(path)).out == "no pending approvals\n"
    (listed,) = run("approvals", "list", "--all", "--json", "--ledger", str(path)).json
    assert (listed["state"], listed["decided_by"]) == ("denied", "bob")


def test_what_ran_out_waits_no_longer(path: Path) -> None:
    one = request_approval(path, {}, lasts=-1)
    assert run("approvals", "list", "--ledger", str(path)).out == "no pending approvals\n"
    assert f"{one.id}  pending, expired  " in run("approvals", "list", "--all", "--ledger", str(path)).out
    late = run("approvals", "approve", one.id, "--by", "bob", "--ledger", str(path))
    assert (late.code, late.raw) == (1, b"")


def test_a_tampered_audit_exits_with_1_and_names_the_row(path: Path) -> None:
    request_approval(path, {})
    connection = sqlite3.connect(path)
    connection.execute("UPDATE ferrule_audit SET decided_by = 'eve' WHERE seq = 2")
    connection.commit()
    connection.close()
    ran = run("audit", "c", "--ledger", str(path))
    assert ran.code == 1
    assert len(ran.out.splitlines()) == 3
    assert ran.err.startswith("error: the audit log was tampered with: row 2 of 'c' was changed\n")
    assert run("audit", "c", "--json", "--ledger", str(path)).json["breach"]["seq"] == 2


@pytest.mark.parametrize("argv", [("approvals", "list"), ("audit", "c")], ids=" ".join)
def test_a_ledger_that_is_not_there_is_not_begun(path: Path, argv: tuple[str, ...]) -> None:
    ran = run(*argv, "--ledger", str(path))
    assert (ran.code, ran.raw) == (1, b"")
    assert ran.err.startswith("error: there is no ledger ledger.db")
    assert not path.exists()


def test_unknown_ids_exit_with_1(path: Path) -> None:
    request_approval(path, {})
    for argv in (("approvals", "show", "x"), ("approvals", "deny", "x"), ("audit", "x")):
        ran = run(*argv, "--ledger", str(path))
        assert (ran.code, ran.raw) == (1, b"")
        assert ran.err.startswith(("error: unknown ", "error: there is no "))


def test_a_list_is_read_in_pages(path: Path) -> None:
    ids = [request_approval(path, {"amount": number}, call_id=f"k{number}").id for number in range(5)]

    def listed(*options: str) -> list[str]:
        return [one["id"] for one in run("approvals", "list", "--json", *options, "--ledger", str(path)).json]

    assert listed() == ids
    assert listed("--limit", "2") == ids[:2]
    assert listed("--limit", "2", "--after", ids[1]) == ids[2:4]
    assert listed("--all", "--after", ids[3]) == ids[4:]
    assert run("approvals", "list", "--limit", "0", "--ledger", str(path)).code != 0
    assert run("approvals", "list", "--after", "never", "--ledger", str(path)).code != 0
