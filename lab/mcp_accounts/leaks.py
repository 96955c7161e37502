"""Looks for tokens where none may be: in logs, in the ledger, and in what a model was sent."""

from __future__ import annotations

import sqlite3
import subprocess
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import psycopg

_SHORTEST: Final = 16


def patterns_of(secrets: Iterable[str]) -> list[str]:
    """What a secret is known by: itself, or the signature of a JWT, which no other text has."""
    return sorted({text.rsplit(".", 1)[-1] for text in secrets if len(text) >= _SHORTEST})


def occurrences(secrets: Iterable[str], files: Sequence[Path]) -> list[str]:
    """The files with a secret in them, and how many lines have one."""
    patterns = patterns_of(secrets)
    existing = [file for file in files if file.exists()]
    if not patterns or not existing:
        return []
    found: list[str] = []
    for file in existing:
        # All patterns in one pass. It exits with 1 if there are none.
        done = subprocess.run(
            ["grep", "--text", "--count", "--fixed-strings", "--file=-", str(file)],
            input="\n".join(patterns),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode > 1:
            raise RuntimeError(done.stderr)
        if int(done.stdout):
            found.append(f"{file.name}: {int(done.stdout)} lines")
    return found


def dump_ledger(address: str, file: Path) -> None:
    """Write every value of every table to a file, one value a line."""
    with file.open("wb") as out:
        if address.startswith("postgresql:"):
            with psycopg.connect(address) as connection:
                names = "SELECT tablename FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
                for (table,) in connection.execute(names).fetchall():
                    for row in connection.execute(f'SELECT * FROM "{table}"'.encode()):
                        out.writelines(_bytes_of(value) + b"\n" for value in row)
            return
        connection = sqlite3.connect(address)
        try:
            tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            for (table,) in tables:
                for row in connection.execute(f'SELECT * FROM "{table}"'):
                    out.writelines(_bytes_of(value) + b"\n" for value in row)
        finally:
            connection.close()


def _bytes_of(value: Any) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(cast("bytes", value))
    return str(value).encode("utf-8", "surrogatepass")
