"""Fill a ledger quickly: rows are made by the database itself, as copies of a conversation that the ledger has written.

Each conversation has four messages, a call, an approval, a stored response and a continuation; half of them have a
trace. One approval in ten is pending, one response and one continuation in a hundred is under way. What the audit log
contains is not a chain.
"""

import json
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from typing import Any, Final

import psycopg

_SERIES: Final = {
    "postgresql": "generate_series(CAST({first} AS BIGINT), {last}) AS s(i)",
    "sqlite": "(WITH RECURSIVE s(i) AS (SELECT {first} UNION ALL SELECT i + 1 FROM s WHERE i < {last}) "
    "SELECT i FROM s)",
}
_ID: Final = "'conversation-' || i"
_THING: Final = (
    "CASE WHEN i % 997 = 1 THEN 'harpsichord' WHEN i % 3 = 0 THEN 'blue lamp' WHEN i % 3 = 1 THEN 'green chair' "
    "ELSE 'grey cup' END"
)
_UNDER_WAY: Final = "i % 100 = 7 AND i % 997 <> 1"
_CHINESE: Final = "CASE WHEN i % 50 = 2 THEN ' 今天天气很好，我们去公园。' ELSE '' END"
_TEXTS: Final = (
    f"'pay order ' || i || ' of a ' || {_THING} || ', please, and tell me when it arrives.' || {_CHINESE}",
    "'{}'",
    "'order ' || i || ' is paid'",
    "'Your order has been paid and is on its way; it arrives on Tuesday.'",
)
_BATCH: Final = 50_000
_COPIED: Final = ("ferrule_conversation", "ferrule_call", "ferrule_approval")
_DAY: Final = 86_400


def fill_quickly(address: str, model: str, first: int, last: int) -> None:
    """Add the conversations from `first` to `last` as copies of the conversation `model`."""
    with closing(_connect(address)) as connection:
        kind = address.partition(":")[0] if address.startswith("postgresql:") else "sqlite"

        def read(table: str) -> tuple[Sequence[str], tuple[Any, ...]]:
            key = "id" if table == "ferrule_conversation" else "conversation"
            cursor = connection.execute(f"SELECT * FROM {table} WHERE {key} = '{model}'")
            return [column[0] for column in cursor.description], cursor.fetchall()[0]

        rows = {table: read(table) for table in _COPIED}
        bodies = [row[0] for row in connection.execute(_messages_of(model)).fetchall()]
        start = time.time() - 3_000_000
        for begin in range(first, last, _BATCH):
            series = _SERIES[kind].format(first=begin, last=min(begin + _BATCH, last) - 1)
            for text in _statements(rows, bodies, series, start, _quoted(kind)):
                connection.execute(text)
            connection.commit()


def _connect(address: str) -> Any:
    if address.startswith("postgresql:"):
        return psycopg.connect(address)
    connection = sqlite3.connect(address)
    connection.execute("PRAGMA synchronous = OFF")
    return connection


def _messages_of(model: str) -> str:
    return f"SELECT body FROM ferrule_message WHERE conversation = '{model}' ORDER BY n"


def _quoted(kind: str) -> Callable[[object], str]:
    def quoted(value: object) -> str:
        if isinstance(value, bytes):
            number = value.hex()
            return f"'\\x{number}'::bytea" if kind == "postgresql" else f"X'{number}'"
        return "NULL" if value is None else str(value) if isinstance(value, int | float) else f"'{value}'"

    return quoted


def _statements(
    rows: dict[str, tuple[Sequence[str], tuple[Any, ...]]],
    bodies: Sequence[str],
    series: str,
    start: float,
    quoted: Callable[[object], str],
) -> Iterator[str]:
    at = f"({start} + i)"
    born = f"CAST(({start} + i) / {_DAY} AS INTEGER)"
    changes: dict[str, dict[str, str]] = {
        "ferrule_conversation": {"id": _ID, "opened_at": at, "changed_at": at, "born": born, "title": "'order ' || i"},
        "ferrule_call": {"conversation": _ID},
        "ferrule_approval": {
            **{"id": "'approval-' || i", "conversation": _ID, "requested_at": at, "expires_at": f"{at} + 100000000"},
            "state": "CASE WHEN i % 10 = 3 THEN 'pending' ELSE 'redeemed' END",
            "decided_at": f"CASE WHEN i % 10 = 3 THEN NULL ELSE {at} END",
        },
    }
    for table, (columns, values) in rows.items():
        made = [changes[table].get(name) or quoted(value) for name, value in zip(columns, values, strict=True)]
        yield f"INSERT INTO {table} ({', '.join(columns)}) SELECT {', '.join(made)} FROM {series}"
    for number, (body, text) in enumerate(zip(bodies, _TEXTS, strict=True)):
        yield (
            f"INSERT INTO ferrule_message (born, conversation, n, body) SELECT {born}, {_ID}, {number}, "
            f"{_body(body, text)} FROM {series}"
        )
    yield (
        "INSERT INTO ferrule_response (id, conversation, tenant, principal, status, model, created, reach, cancelled, "
        f"request) SELECT 'resp_' || i, {_ID}, 'acme', 'ann', "
        f"CASE WHEN {_UNDER_WAY} THEN 'in_progress' ELSE 'completed' END, 'm', {at}, 4, 0, '{{}}' FROM {series}"
    )
    yield (
        "INSERT INTO ferrule_continuation (conversation, tenant, principal, generation, due_at, attempts, status, "
        f"error) SELECT {_ID}, 'acme', 'ann', 1, {at}, 0, CASE WHEN {_UNDER_WAY} THEN 'due' ELSE 'done' END, '' "
        f"FROM {series}"
    )
    # What is under way has an owner that lives, so that the sweeps find nothing to do.
    yield (
        "UPDATE ferrule_conversation SET lease_until = 1e12 "
        f"WHERE id IN (SELECT {_ID} FROM {series} WHERE {_UNDER_WAY})"
    )
    traced = f"{series} WHERE i % 2 = 1"
    yield (
        "INSERT INTO ferrule_trace (id, tenant, principal, began_at, changed_at, status, model, error, title, "
        "request_count, error_count, prompt_tokens, completion_tokens, cost) SELECT 'trace_' || i, 'acme', 'ann', "
        f"{at}, {at}, 'completed', 'm', '', 'order ' || i, 1, 0, 0, 0, NULL FROM {traced}"
    )
    yield (
        "INSERT INTO ferrule_traced_request (id, trace, tenant, principal, at, api, request_id, seconds, status, "
        "model, finish, error, error_status, error_message, error_detail, prompt_tokens, completion_tokens, cost, "
        f"tools, conversation, messages, history_key) SELECT 'request_' || i, 'trace_' || i, 'acme', 'ann', {at}, "
        f"'/v1/chat/completions', '', 0.5, 'completed', 'm', 'stop', '', 0, '', '', 0, 0, NULL, '[]', {_ID}, '[]', '' "
        f"FROM {traced}"
    )


def _body(body: str, text: str) -> str:
    """The expression for a message like this one, with another text in it."""
    message = json.loads(body)
    part = message["parts"][0]
    key = "text" if "text" in part else "content" if "content" in part else ""
    if not key:
        return "'" + body.replace("'", "''") + "'"
    part[key] = "@"
    before, _, after = json.dumps(message, separators=(",", ":")).partition("@")
    return f"'{before}' || {text} || '{after}'"
