from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from run.ledger_databases import Database, postgres_cluster, postgres_database, sqlite_database


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Database:
    """An empty database for a ledger, of each kind."""
    if request.param == "sqlite":
        return sqlite_database(tmp_path)
    return postgres_database(request.getfixturevalue("cluster"))
