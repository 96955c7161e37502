"""Every test of a framework starts without recorded calls."""

from __future__ import annotations

import pytest

from frameworks.given import CALLS


@pytest.fixture(autouse=True)
def clear_calls() -> None:
    CALLS.clear()
