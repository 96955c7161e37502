from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from run.ledger_databases import Home, postgres_cluster, postgres_home, sqlite_home


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with postgres_cluster() as folder:
        yield folder


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.live)])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Home:
    """An empty ledger's place, in each kind of database."""
    if request.param == "sqlite":
        return sqlite_home(tmp_path)
    return postgres_home(request.getfixturevalue("cluster"))
