"""The index of words in SQLite: which messages wait for it, and how they are added. Uses FTS5, where SQLite has it.

Triggers note every message that is written, changed or deleted in a table of what waits. They use plain SQL only, so
that a process of an earlier version, or one whose SQLite has no FTS5, can still write. A process with FTS5 adds what
waits, some rows at a time: after steps, so that no step pays for it, and before a search, so that the search finds
everything.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from ferrule.run.ledger.search_words import words_of

WORD_TABLE = "ferrule_words"
BATCH = 500
"""How many rows are added to the index in one transaction."""
_SOURCES = {
    "message": ("ferrule_message", "body", "{}.conversation, {}.n"),
    "request": ("ferrule_traced_request", "messages", "{}.id, 0"),
}
_TABLES = (
    # An id is never used again, so that a search that is under way never finds another row under it.
    """CREATE TABLE IF NOT EXISTS ferrule_word_row (
        id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, key TEXT NOT NULL, n INTEGER NOT NULL,
        UNIQUE (kind, key, n))""",
    """CREATE TABLE IF NOT EXISTS ferrule_word_waiting (
        kind TEXT NOT NULL, key TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (kind, key, n)) WITHOUT ROWID""",
    f"CREATE VIRTUAL TABLE IF NOT EXISTS {WORD_TABLE} USING fts5(words, detail=none, "
    "tokenize='unicode61 remove_diacritics 0')",
)
_WAITING = (
    "SELECT w.kind, w.key, w.n, COALESCE(m.body, r.messages) FROM ferrule_word_waiting w "
    "LEFT JOIN ferrule_message m ON w.kind = 'message' AND m.conversation = w.key AND m.n = w.n "
    "LEFT JOIN ferrule_traced_request r ON w.kind = 'request' AND r.id = w.key LIMIT ?"
)
_WHERE = "WHERE kind = ? AND key = ? AND n = ?"
_KNOWN = f"SELECT id FROM ferrule_word_row {_WHERE}"
_ADDED = f"DELETE FROM ferrule_word_waiting {_WHERE}"


def has_fts5(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchall())


def make_word_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of the index inside a transaction. What the ledger contains already waits for it then."""
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (WORD_TABLE,)).fetchall():
        return
    for text in (*_TABLES, *_triggers()):
        connection.execute(text)
    for kind, (table, _, key) in _SOURCES.items():
        text = f"INSERT OR IGNORE INTO ferrule_word_waiting SELECT '{kind}', {key.replace('{}', table)} FROM {table}"
        connection.execute(text)


def add_words(connection: sqlite3.Connection) -> int:
    """Add a batch of what waits to the index, inside a transaction. Returns how many rows there were."""
    rows = connection.execute(_WAITING, (BATCH,)).fetchall()
    for *place, text in rows:
        known = connection.execute(_KNOWN, place).fetchall()
        if known:
            connection.execute("DELETE FROM ferrule_words WHERE rowid = ?", known[0])
            connection.execute("DELETE FROM ferrule_word_row WHERE id = ?", known[0])
        if text is not None:
            added = connection.execute("INSERT INTO ferrule_word_row (kind, key, n) VALUES (?, ?, ?)", place).lastrowid
            words = " ".join(words_of(text))
            connection.execute("INSERT INTO ferrule_words (rowid, words) VALUES (?, ?)", (added, words))
        connection.execute(_ADDED, place)
    return len(rows)


def has_waiting(connection: sqlite3.Connection) -> bool:
    return bool(connection.execute("SELECT 1 FROM ferrule_word_waiting LIMIT 1").fetchall())


def _triggers() -> Iterator[str]:
    for kind, (table, column, key) in _SOURCES.items():
        for name, (event, row) in {
            "added": ("INSERT", "new"),
            "changed": (f"UPDATE OF {column}", "new"),
            "deleted": ("DELETE", "old"),
        }.items():
            first, second = key.replace("{}", row).split(", ")
            # Not INSERT OR IGNORE: inside a trigger, the statement that fired it decides what a conflict does.
            yield (
                f"CREATE TRIGGER IF NOT EXISTS {table}_{name} AFTER {event} ON {table} BEGIN "
                f"INSERT INTO ferrule_word_waiting SELECT '{kind}', {first}, {second} WHERE NOT EXISTS "
                f"(SELECT 1 FROM ferrule_word_waiting w WHERE w.kind = '{kind}' AND w.key = {first} "
                f"AND w.n = {second}); END"
            )
