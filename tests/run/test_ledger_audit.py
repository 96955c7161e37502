"""The audit's chain: whatever one hand changes in it is found, in the row where it was changed."""

from __future__ import annotations

from dataclasses import astuple, fields, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ferrule.core.outcome import Answered
from ferrule.run.ledger.audit_chain import GENESIS, first_breach, hash_of
from ferrule.run.ledger.ledger import AuditRecord, Breach
from ferrule.run.ledger.sql import SqlLedger
from run.ledger_databases import ANN, LEASE, Home, claim

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
    await ledger.propose(what, 1, side_effects=True, needs_leave=False, now=1)
    await ledger.start(what, 1, now=2)
    await ledger.finish("c", "k", 1, Answered("paid"), now=3)


async def verified(ledger: SqlLedger) -> Breach | None:
    return await ledger.verify()


@pytest.mark.parametrize("column", COLUMNS)
def test_a_field_changed_in_the_database_is_found(home: Home, column: str) -> None:
    home.run(some_rows)
    assert home.run(verified) is None
    rows = home.run(lambda ledger: ledger.audit("c"))
    old = getattr(rows[2], column)
    new = old + 7 if isinstance(old, (int, float)) else f"{old}x"
    name = IN_THE_DATABASE.get(column, column)
    home.execute(f"UPDATE ferrule_audit SET {name} = ? WHERE conversation = 'c' AND seq = 3", [new])
    breach = home.run(verified)
    moved = "removed" if column in ("seq", "conversation") else "changed"
    assert breach == Breach("c", 3, moved)
    home.execute(
        f"UPDATE ferrule_audit SET {name} = ? WHERE {name} = ? AND hash = ?",
        [old, new, rows[2].hash if column != "hash" else new],
    )
    assert home.run(verified) is None


@pytest.mark.parametrize("seq", [1, 3, 4])
def test_a_row_deleted_from_the_database_is_found(home: Home, seq: int) -> None:
    home.run(some_rows)
    home.execute("DELETE FROM ferrule_audit WHERE conversation = 'c' AND seq = ?", [seq])
    assert home.run(verified) == Breach("c", seq, "removed")


def test_a_row_added_behind_the_last_or_to_no_conversation_is_found(home: Home) -> None:
    home.run(some_rows)
    last = home.run(lambda ledger: ledger.audit("c"))[-1]
    for conversation, seq in (("c", 5), ("a", 1)):
        forged = replace(last, conversation=conversation, seq=seq, previous=last.hash if seq > 1 else GENESIS)
        forged = replace(forged, hash=hash_of(forged))
        marks = ", ".join("?" for _ in COLUMNS)
        home.execute(f"INSERT INTO ferrule_audit VALUES ({marks})", astuple(forged))
        assert home.run(verified) == Breach(conversation, seq, "inserted")
