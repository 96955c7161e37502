"""The weekly partitions of the tables that are only appended to, in Postgres. It returns SQL and runs none by itself.

The problem
    Messages and audit rows are nearly all bytes of a ledger. To delete them row by row costs about as much as to write
    them, and leaves the space to VACUUM. To drop a table frees it at once.

The shape
    - A row lies in the partition of the week in which its conversation was opened (`born`, a day since 1970). So a
      conversation lies in one partition of each table, and a week goes as a whole.
    - Partitions are made four weeks ahead, by any process that has the ledger open. A missing one stops nothing: its
      rows go to the *default* partition, and move when the week's own one is made.
    - The table of an earlier version becomes the *early* partition: everything before the week after the upgrade.
      Audit rows that an earlier version writes later have `born` 0, and go there too.
    - Tables whose rows change are not partitioned. The statements that change them join on their parameters, and would
      lock every partition each time.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from ferrule.run.ledger.retention_tables import STUB

MESSAGES, AUDIT = "ferrule_message", "ferrule_audit"
KEYS: Mapping[str, str] = {MESSAGES: "conversation, n, born", AUDIT: "conversation, seq, born"}
"""The partitioned tables, and the columns that identify a row of each."""
DAY_SECONDS = 86_400
WEEK_DAYS = 7
WEEKS_AHEAD = 4
_BOUNDS = re.compile(r"FROM \((MINVALUE|'?-?\d+'?)\) TO \('?(-?\d+)'?\)")

FIND_PARTITIONS = (
    "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid) FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid "
    "WHERE i.inhparent = to_regclass('{table}') ORDER BY 1"
)
IS_PARTITIONED = "SELECT relkind = 'p' FROM pg_class WHERE oid = to_regclass('{table}')"
HAS_ROWS = "SELECT EXISTS (SELECT 1 FROM {table})"
# By the index on `born`. A process whose clock is ahead may have opened a conversation after today.
LAST_BORN = "SELECT COALESCE(MAX(born), 0) FROM ferrule_conversation WHERE pruned = 0"


class Drop(Enum):
    """What became of dropping a week. NEEDED: a conversation of the week is in use. BUSY: its table is in use."""

    DONE = auto()
    NEEDED = auto()
    BUSY = auto()


@dataclass(frozen=True, slots=True)
class Partition:
    """A partition of `table`, for conversations born from day `first` until before day `end`.

    The early one has no first day; the default one has neither.
    """

    table: str
    name: str
    first: int | None
    end: int | None

    @property
    def is_default(self) -> bool:
        return self.end is None

    def contains(self, born: int) -> bool:
        return self.end is not None and born < self.end and (self.first is None or born >= self.first)


def day_of(seconds: float) -> int:
    """Return the day of a time, since 1970."""
    return int(seconds // DAY_SECONDS)


def week_of(day: int) -> int:
    """Return the first day of the week in which a day lies."""
    return day - day % WEEK_DAYS


def read_partition(table: str, name: str, bounds: str) -> Partition:
    """Read a partition from what Postgres prints of its bounds."""
    match = _BOUNDS.search(bounds)
    if match is None:
        return Partition(table, name, None, None)
    first, end = match[1].strip("'"), int(match[2])
    return Partition(table, name, None if first == "MINVALUE" else int(first), end)


def missing_weeks(partitions: Sequence[Partition], day: int) -> list[int]:
    """Return the first days of the weeks, from this one on, that have no partition."""
    weeks = [week_of(day) + number * WEEK_DAYS for number in range(WEEKS_AHEAD + 1)]
    return [week for week in weeks if not any(one.contains(week) for one in partitions)]


def early_end(day: int, last_born: int, *, is_empty: bool) -> int:
    """Return the day before which everything belongs to the early partition."""
    return week_of(day) if is_empty else max(week_of(day), week_of(last_born)) + WEEK_DAYS


def conversion(table: str, end: int) -> list[str]:
    """Return the statements that make a plain table the early partition of a partitioned one with its name."""
    early = f"{table}_early"
    return [
        f"ALTER TABLE {table} RENAME TO {early}",
        f"CREATE TABLE {table} (LIKE {early} INCLUDING DEFAULTS INCLUDING STORAGE) PARTITION BY RANGE (born)",
        f"CREATE UNIQUE INDEX {table}_key ON {table} ({KEYS[table]})",
        f"ALTER TABLE {table} ATTACH PARTITION {early} FOR VALUES FROM (MINVALUE) TO ({end})",
        f"CREATE TABLE {table}_default PARTITION OF {table} DEFAULT",
    ]


def week_creation(table: str, week: int) -> list[str]:
    """Return the statements that make the partition of a week.

    It is attached, not made in place: that would wait for everyone who reads the table, and they for it. Rows of the
    week that went to the default partition move.
    """
    name, bounds = f"{table}_{week}", f"FROM ({week}) TO ({week + WEEK_DAYS})"
    return [
        f"CREATE TABLE {name} (LIKE {table} INCLUDING DEFAULTS INCLUDING STORAGE)",
        f"LOCK TABLE {table}_default IN ACCESS EXCLUSIVE MODE",
        f"WITH moved AS (DELETE FROM {table}_default WHERE born >= {week} AND born < {week + WEEK_DAYS} RETURNING *) "
        f"INSERT INTO {name} SELECT * FROM moved",
        f"ALTER TABLE {table} ATTACH PARTITION {name} FOR VALUES {bounds}",
    ]


# --- For large ledgers: what takes long, done before and without a lock that stops writers ---

EARLY_INDEX = f"{AUDIT}_early_key"
"""The index of the audit table that its partitioned form needs, under the name that it has afterwards."""
_CHECK = "ferrule_early"


def preparation(table: str, end: int) -> list[str]:
    """Return the statements after which `conversion` takes no time. Each is run by itself."""
    index = f"CREATE UNIQUE INDEX CONCURRENTLY IF NOT EXISTS {EARLY_INDEX} ON {table} ({KEYS[table]})"
    return [
        # The key of messages contains `born` already.
        *([index] if table == AUDIT else []),
        f"ALTER TABLE {table} DROP CONSTRAINT IF EXISTS {_CHECK}",
        f"ALTER TABLE {table} ADD CONSTRAINT {_CHECK} CHECK (born < {end}) NOT VALID",
        f"ALTER TABLE {table} VALIDATE CONSTRAINT {_CHECK}",
    ]


def cleanup(table: str) -> str:
    """Return the statement that removes the check of `preparation`, which the partition's bounds replace."""
    return f"ALTER TABLE {table}_early DROP CONSTRAINT IF EXISTS {_CHECK}"


# An index whose building was interrupted is there and useless. One that is being built belongs to somebody else.
BROKEN_INDEXES = (
    "SELECT i.indexrelid::regclass::text FROM pg_index i WHERE NOT i.indisvalid "
    "AND i.indrelid IN (to_regclass('ferrule_conversation'), to_regclass('ferrule_audit'), "
    "to_regclass('ferrule_delivery'), to_regclass('ferrule_request')) "
    "AND NOT EXISTS (SELECT 1 FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)"
)
TABLE_BYTES = (
    "SELECT COALESCE(pg_relation_size(to_regclass('ferrule_audit')), 0) "
    "+ COALESCE(pg_relation_size(to_regclass('ferrule_message')), 0)"
)


# --- The end of a week ---


def message_drop_check(week: Partition) -> str:
    """Return the question whether anything in a week's messages is still needed."""
    return _exists(week, "pruned = 0")


def audit_drop_check(week: Partition, before: float) -> str:
    """Return the question whether any audit row of a week is still needed. Stubs last changed before `before` are not.

    A conversation of an earlier version may have audit rows in the early partition and be born later.
    """
    question = _exists(week, f"(pruned = 0 OR changed_at >= {before!r})")
    if week.first is not None:
        return question
    return (
        f"{question} UNION ALL (SELECT 1 FROM {week.name} a JOIN ferrule_conversation c ON c.id = a.conversation "
        f"WHERE c.born >= {week.end} LIMIT 1)"
    )


def stub_drop(week: Partition) -> str:
    """Return the statement that removes the stubs of a week, and what is left of them in other partitions."""
    parts = {
        "gone": f"DELETE FROM ferrule_conversation WHERE {born_in(week)} AND pruned > 0 RETURNING id",
        **{name: text.format(gone="(SELECT id FROM gone)") for name, text in STUB.items()},
        "audit": f"DELETE FROM {AUDIT} WHERE born = 0 AND conversation IN (SELECT id FROM gone)",
        "messages": f"DELETE FROM {MESSAGES} WHERE {born_in(week)} AND conversation IN (SELECT id FROM gone)",
    }
    return f"WITH {', '.join(f'{name} AS ({text})' for name, text in parts.items())} SELECT COUNT(*) FROM gone"


def _exists(week: Partition, condition: str) -> str:
    return f"(SELECT 1 FROM ferrule_conversation WHERE {born_in(week)} AND {condition} LIMIT 1)"


def born_in(week: Partition) -> str:
    """Return the condition for a conversation of this week."""
    start = "" if week.first is None else f"born >= {week.first} AND "
    return f"{start}born < {week.end}"
