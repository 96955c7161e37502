from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from run.ledger_databases import Database, postgres_cluster, postgres_database, sharded_database, sqlite_database


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def single_database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database of each kind, for what depends on the database only."""
    if request.param == "sqlite":
        return sqlite_database(tmp_path)
    return postgres_database(request.getfixturevalue("cluster"))


@pytest.fixture(params=["sqlite", "sharded", pytest.param("postgres", marks=pytest.mark.live)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database for a ledger, of each kind; with "sharded", two of them for one ledger."""
    if request.param == "sqlite":
        return sqlite_database(tmp_path)
    if request.param == "sharded":
        return sharded_database(sqlite_database(tmp_path), sqlite_database(tmp_path, "second.db"))
    return postgres_database(request.getfixturevalue("cluster"))
