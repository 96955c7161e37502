"""The hash chain of the audit log: every change is found, in the row that was changed."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.outcome import Answered
from ferrule.run.ledger.audit_chain import GENESIS, first_breach, hash_of
from ferrule.run.ledger.ledger import AuditRecord, Breach
from ferrule.run.ledger.sql import SqlLedger
from ferrule.run.ledger.tables import AUDIT
from run.ledger_databases import ANN, LEASE, Database, claim

COLUMNS = [one.name for one in fields(AuditRecord)]
IN_THE_DATABASE = {"by": "decided_by"}


def chain(length: int) -> list[AuditRecord]:
    rows: list[AuditRecord] = []
    before = GENESIS
    for seq in range(1, length + 1):
        row = AuditRecord("c", seq, seq / 3, "saved", f"k{seq}", "", "one", 1, "{}", before, "")
        rows.append(replace(row, hash=hash_of(row)))
        before = rows[-1].hash
    return rows


def breach_of(rows: list[AuditRecord], whole: list[AuditRecord]) -> Breach | None:
    return first_breach("c", rows, len(whole), whole[-1].hash)


lengths = st.integers(1, 8)


@given(length=lengths, data=st.data())
def test_any_changed_field_is_found_in_its_row(length: int, data: st.DataObject) -> None:
    whole = chain(length)
    assert breach_of(whole, whole) is None
    at = data.draw(st.integers(0, length - 1))
    column = data.draw(st.sampled_from([name for name in COLUMNS if name != "seq"]))
    old = getattr(whole[at], column)
    new = data.draw(
        st.one_of(st.text(max_size=3), st.integers(), st.binary(max_size=2), st.none()).filter(lambda new: new != old)
    )
    changed = [*whole[:at], replace(whole[at], **{column: new}), *whole[at + 1 :]]
    assert breach_of(changed, whole) == Breach("c", at + 1, "changed")


@given(length=lengths, data=st.data())
def test_a_row_that_was_rewritten_with_a_fitting_hash_is_found(length: int, data: st.DataObject) -> None:
    whole = chain(length)
    at = data.draw(st.integers(0, length - 1))
    forged = replace(whole[at], by="eve")
    forged = replace(forged, hash=hash_of(forged))
    assert breach_of([*whole[:at], forged, *whole[at + 1 :]], whole) == Breach("c", at + 1, "changed")


@given(length=lengths, data=st.data())
def test_a_removed_row_is_found_where_it_stood(length: int, data: st.DataObject) -> None:
    whole = chain(length)
    at = data.draw(st.integers(0, length - 1))
    assert breach_of([*whole[:at], *whole[at + 1 :]], whole) == Breach("c", at + 1, "removed")


@given(length=lengths, data=st.data())
def test_an_inserted_row_is_found(length: int, data: st.DataObject) -> None:
    whole = chain(length)
    at = data.draw(st.integers(0, length))
    before = whole[at - 1].hash if at else GENESIS
    forged = AuditRecord("c", at + 1, 0.0, "approved", "k", "", "eve", 1, "{}", before, "")
    forged = replace(forged, hash=hash_of(forged))
    moved = [replace(row, seq=row.seq + 1) for row in whole[at:]]
    breach = breach_of([*whole[:at], forged, *moved], whole)
    assert breach is not None
    # Inside the chain a forged row is whole in itself: what shows is the one behind it, which has a new number.
    assert breach.seq == (at + 1 if at == length else at + 2)
    assert breach.what == ("inserted" if breach.seq > length else "changed")


async def some_rows(ledger: SqlLedger) -> None:
    await ledger.open("b", ANN, "one", LEASE, now=0)
    await ledger.open("c", ANN, "one", LEASE, now=0)
    what = claim()
    await ledger.propose(what, 1, side_effects=True, needs_approval=False, now=1)
    await ledger.start(what, 1, now=2)
    await ledger.finish("c", "k", 1, Answered("paid"), now=3)


async def verify(ledger: SqlLedger) -> Breach | None:
    return await ledger.verify()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_field_changed_in_the_database_is_found(database: Database, column: str) -> None:
    database.run(some_rows)
    assert database.run(verify) is None
    rows = database.run(lambda ledger: ledger.audit("c"))
    old = getattr(rows[2], column)
    new = old + 7 if isinstance(old, (int, float)) else f"{old}x"
    name = IN_THE_DATABASE.get(column, column)
    database.execute(f"UPDATE ferrule_audit SET {name} = ? WHERE conversation = 'c' AND seq = 3", [new])
    breach = database.run(verify)
    moved = "removed" if column in ("seq", "conversation") else "changed"
    assert breach == Breach("c", 3, moved)
    database.execute(
        f"UPDATE ferrule_audit SET {name} = ? WHERE {name} = ? AND hash = ?",
        [old, new, rows[2].hash if column != "hash" else new],
    )
    assert database.run(verify) is None


@pytest.mark.parametrize("seq", [1, 3, 4])
def test_a_row_deleted_from_the_database_is_found(database: Database, seq: int) -> None:
    database.run(some_rows)
    database.execute("DELETE FROM ferrule_audit WHERE conversation = 'c' AND seq = ?", [seq])
    assert database.run(verify) == Breach("c", seq, "removed")


def test_a_row_added_behind_the_last_or_to_no_conversation_is_found(database: Database) -> None:
    database.run(some_rows)
    last = database.run(lambda ledger: ledger.audit("c"))[-1]
    for conversation, seq in (("c", 5), ("a", 1)):
        forged = replace(last, conversation=conversation, seq=seq, previous=last.hash if seq > 1 else GENESIS)
        forged = replace(forged, hash=hash_of(forged))
        placeholders = ", ".join("?" for _ in COLUMNS)
        database.execute(f"INSERT INTO ferrule_audit ({AUDIT}) VALUES ({placeholders})", astuple(forged))
        assert database.run(verify) == Breach(conversation, seq, "inserted")
