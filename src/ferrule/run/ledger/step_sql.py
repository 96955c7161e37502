"""The statements that write steps, for both databases, from one description of the rows (`writes`).

Postgres
    All steps that wait are written by one statement of data-modifying CTEs, whatever conversations they belong to. Its
    parameters are JSON, one array of rows for each kind: that is cheap to encode in any driver, needs no array types,
    and works through a connection pool that allows no prepared statements. It returns the numbers of the steps that
    were written. A statement returns little, and nothing that grows: a server cannot end a statement while its client
    does not read the answer.

SQLite
    The same rows, one statement for each kind, in one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache

from ferrule.core.json_text import json_bytes
from ferrule.errors import LedgerError
from ferrule.run.ledger.step import Step, Values
from ferrule.run.ledger.writes import WRITES, Kind, Type, Write

_CONVERSATION: dict[str, Type] = {
    "id": Type.TEXT,
    "tenant": Type.TEXT,
    "principal": Type.TEXT,
    "opened_at": Type.REAL,
    "born": Type.INTEGER,
    # From here on they change.
    "owner": Type.TEXT,
    "epoch": Type.INTEGER,
    "lease_until": Type.REAL,
    "version": Type.INTEGER,
    "audit_seq": Type.INTEGER,
    "audit_head": Type.TEXT,
    "messages": Type.INTEGER,
    "changed_at": Type.REAL,
    "title": Type.TEXT,
    "state": Type.TEXT,
}
_FIXED = 5
_CHANGING = tuple(_CONVERSATION)[_FIXED:]
_GUARD: dict[str, Type] = {"was_epoch": Type.INTEGER, "was_seq": Type.INTEGER, "was_lease": Type.REAL}
_TABLE = "ferrule_conversation"
_KINDS = tuple(Kind)
_SENT_AS_IS = frozenset((str, bytes, type(None)))
MAX_SHORT_ROWS = 6
"""With more rows than this, even a single step is written as JSON: statements must not be of too many kinds."""


def _values_of(step: Step) -> Values:
    """Return the values of a step's conversation, in the order of `_CONVERSATION`."""
    record = step.record
    return (
        *(record.id, record.tenant, record.principal, record.opened_at, record.born),
        *(record.owner, record.epoch, record.lease_until, record.version, record.seq, record.head),
        *(record.messages, record.changed_at, record.title, step.state_text),
    )


def _identity(step: Step) -> Values:
    return step.record.id, step.record.born


def _guard_of(step: Step) -> Values:
    before = step.before
    return (None, None, None) if before is None else (before.epoch, before.seq, before.lease_until)


def damaged_error() -> LedgerError:
    return LedgerError("a row of the ledger was changed past it: nothing was written", code="ledger_damaged")


# --- Postgres ---------------------------------------------------------------------------------------------------------


def postgres_write(steps: Sequence[Step]) -> tuple[str, Sequence[object]]:
    """Return the statement that writes these steps, of different conversations, and its parameters."""
    if len(steps) == 1 and sum(map(len, steps[0].rows.values())) <= MAX_SHORT_ROWS:
        return _short_write(steps[0])
    present = {kind for step in steps for kind in step.rows}
    kinds = tuple([kind for kind in _KINDS if kind in present])
    has_new, has_old = any(step.before is None for step in steps), any(step.before is not None for step in steps)
    parameters = [_conversations_json(steps), *(_rows_json(steps, kind) for kind in kinds)]
    return _postgres_text(kinds, has_new, has_old), parameters


@cache
def _postgres_text(kinds: tuple[Kind, ...], has_new: bool, has_old: bool) -> str:
    parts = [f"step AS MATERIALIZED (SELECT * FROM {_recordset({**_CONVERSATION, **_GUARD})})"]
    written: list[str] = []
    if has_new:
        columns = ", ".join(_CONVERSATION)
        values = ", ".join(f"x.{name}" for name in _CONVERSATION)
        parts.append(
            f"added AS (INSERT INTO {_TABLE} ({columns}) SELECT {values} FROM step x WHERE x.was_epoch IS NULL "
            "ON CONFLICT (id) DO NOTHING RETURNING id)"
        )
        written.append("SELECT x.step FROM step x JOIN added ON added.id = x.id AND x.was_epoch IS NULL")
    if has_old:
        changes = ", ".join(f"{name} = x.{name}" for name in _CHANGING if name != "state")
        parts.append(
            f"moved AS (UPDATE {_TABLE} c SET {changes}, state = COALESCE(x.state, c.state) FROM step x "
            "WHERE c.id = x.id AND c.born = x.born AND c.epoch = x.was_epoch AND c.audit_seq = x.was_seq "
            "AND c.lease_until = COALESCE(x.was_lease, c.lease_until) RETURNING x.step)"
        )
        written.append("SELECT step FROM moved")
    parts.append(f"written AS MATERIALIZED ({' UNION ALL '.join(written)})")
    checks: list[str] = []
    for kind in kinds:
        write = WRITES[kind]
        parts.append(
            f"{kind}_rows AS MATERIALIZED (SELECT x.* FROM {_recordset(write.columns)} JOIN written USING (step))"
        )
        parts.append(f"{kind}_done AS ({_postgres_change(write, f'{kind}_rows x', _from_json(write))} RETURNING 1)")
        if write.is_certain:
            checks.append(_check(f"(SELECT COUNT(*) FROM {kind}_rows)", kind))
    return f"WITH {', '.join(parts)} SELECT {', '.join(['step', *checks])} FROM written"


def _short_write(step: Step) -> tuple[str, Sequence[object]]:
    shape = tuple([(kind, len(step.rows[kind])) for kind in _KINDS if kind in step.rows])
    head = _values_of(step) if step.before is None else (*_values_of(step)[_FIXED:], *_identity(step), *_guard_of(step))
    rows = [value for kind, _ in shape for row in step.rows[kind] for value in row]
    # A number is sent as the text that its cast reads: the types of a statement's parameters are then always the same.
    parameters = [value if type(value) in _SENT_AS_IS else str(value) for value in (*head, *rows)]
    return _short_text(shape, step.before is None), parameters


@cache
def _short_text(shape: tuple[tuple[Kind, int], ...], is_new: bool) -> str:
    """Return the statement for a single step with so many rows of each kind: without JSON, every value a parameter."""
    if is_new:
        values = ", ".join(f"%s::{kind}" for kind in _CONVERSATION.values())
        added = f"INSERT INTO {_TABLE} ({', '.join(_CONVERSATION)}) VALUES ({values}) ON CONFLICT (id) DO NOTHING"
        parts = [f"written AS ({added} RETURNING 0 AS step)"]
    else:
        changes = ", ".join(f"{name} = %s::{_CONVERSATION[name]}" for name in _CHANGING if name != "state")
        parts = [
            f"written AS (UPDATE {_TABLE} SET {changes}, state = COALESCE(%s::TEXT, state) WHERE id = %s AND "
            "born = %s::BIGINT AND epoch = %s::BIGINT AND audit_seq = %s::BIGINT "
            "AND lease_until = COALESCE(%s::DOUBLE PRECISION, lease_until) RETURNING 0 AS step)"
        ]
    checks: list[str] = []
    for kind, count in shape:
        write = WRITES[kind]
        row = f"({', '.join(f'%s::{type}' for type in write.columns.values())})"
        rows = f"(SELECT v.* FROM written, (VALUES {', '.join([row] * count)}) AS v({', '.join(write.columns)})) AS x"
        parts.append(f"{kind}_done AS ({_postgres_change(write, rows, lambda name: f'x.{name}')} RETURNING 1)")
        if write.is_certain:
            checks.append(_check(str(count), kind))
    return f"WITH {', '.join(parts)} SELECT {', '.join(['step', *checks])} FROM written"


def _check(expected: str, kind: Kind) -> str:
    """Divides by zero, and so undoes everything, unless each row has changed one."""
    return f"1 / CASE WHEN {expected} = (SELECT COUNT(*) FROM {kind}_done) THEN 1 ELSE 0 END"


def _recordset(columns: Mapping[str, Type]) -> str:
    types = {"step": Type.INTEGER, **{name: _json_type(kind) for name, kind in columns.items()}}
    return f"json_to_recordset(%s::json) AS x({', '.join(f'{name} {kind}' for name, kind in types.items())})"


def _json_type(kind: Type) -> Type:
    return Type.TEXT if kind is Type.BYTES else kind


def _from_json(write: Write) -> Callable[[str], str]:
    """Return what makes the value of a column out of a row that was JSON, which has no bytes."""
    return lambda name: f"convert_to(x.{name}, 'UTF8')" if write.columns[name] is Type.BYTES else f"x.{name}"


def _postgres_change(write: Write, rows: str, value: Callable[[str], str]) -> str:
    if write.where is None:
        columns, values = ", ".join(write.columns), ", ".join(map(value, write.columns))
        return f"INSERT INTO {write.table} ({columns}) SELECT {values} FROM {rows}{_on_conflict(write)}"
    where = " AND ".join(f"t.{condition.format(value(name))}" for name, condition in write.where.items())
    if write.removes:
        return f"DELETE FROM {write.table} t USING {rows} WHERE {where}"
    changes = ", ".join(f"{name} = {value(name)}" for name in write.columns if name not in write.where)
    return f"UPDATE {write.table} t SET {changes} FROM {rows} WHERE {where}"


def _on_conflict(write: Write) -> str:
    if write.replaces is None:
        return ""
    changes = ", ".join(f"{name} = {expression}" for name, expression in write.replaces.items())
    return f" ON CONFLICT ({', '.join(write.key)}) DO UPDATE SET {changes}"


def _conversations_json(steps: Sequence[Step]) -> str:
    names = (*_CONVERSATION, *_GUARD)
    rows = [(number, *_values_of(step), *_guard_of(step)) for number, step in enumerate(steps)]
    return _json(names, rows)


def _rows_json(steps: Sequence[Step], kind: Kind) -> str:
    columns = WRITES[kind].columns
    rows = [(number, *row) for number, step in enumerate(steps) for row in step.rows.get(kind, ())]
    if Type.BYTES in columns.values():
        # JSON has no bytes.
        rows = [tuple(one.decode() if isinstance(one, bytes) else one for one in row) for row in rows]
    return _json(tuple(columns), rows)


def _json(names: Sequence[str], rows: Iterable[Values]) -> str:
    keys = ("step", *names)
    return json_bytes([dict(zip(keys, row, strict=True)) for row in rows]).decode()


# --- SQLite -----------------------------------------------------------------------------------------------------------


def sqlite_write(connection: sqlite3.Connection, step: Step) -> bool:
    """Write a step inside an open transaction. False if the conversation has changed: nothing is written then."""
    if step.before is None:
        done = connection.execute(_SQLITE_ADD, _values_of(step))
    else:
        done = connection.execute(_SQLITE_MOVE, (*_values_of(step)[_FIXED:], *_identity(step), *_guard_of(step)))
    if done.rowcount != 1:
        return False
    for kind in _KINDS:
        rows = step.rows.get(kind)
        if rows:
            changed = connection.executemany(_sqlite_text(kind), rows).rowcount
            if WRITES[kind].is_certain and changed != len(rows):
                raise damaged_error()
    return True


_SQLITE_ADD = (
    f"INSERT INTO {_TABLE} ({', '.join(_CONVERSATION)}) VALUES ({', '.join('?' for _ in _CONVERSATION)}) "
    "ON CONFLICT (id) DO NOTHING"
)
_SQLITE_MOVE = (
    f"UPDATE {_TABLE} SET {', '.join(f'{name} = ?' for name in _CHANGING if name != 'state')}, "
    "state = COALESCE(?, state) WHERE id = ? AND born = ? AND epoch = ? AND audit_seq = ? "
    "AND lease_until = COALESCE(?, lease_until)"
)


@cache
def _sqlite_text(kind: Kind) -> str:
    write = WRITES[kind]
    if write.where is None:
        columns, values = ", ".join(write.columns), ", ".join("?" for _ in write.columns)
        return f"INSERT INTO {write.table} ({columns}) VALUES ({values}){_on_conflict(write)}"
    where = " AND ".join(condition.format("?") for condition in write.where.values())
    if write.removes:
        return f"DELETE FROM {write.table} WHERE {where}"
    changes = ", ".join(f"{name} = ?" for name in write.columns if name not in write.where)
    return f"UPDATE {write.table} SET {changes} WHERE {where}"
