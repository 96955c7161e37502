"""Every test of a framework begins with a world in which nothing has happened."""

from __future__ import annotations

import pytest

from frameworks.given import SEEN


@pytest.fixture(autouse=True)
def nothing_seen() -> None:
    SEEN.clear()
