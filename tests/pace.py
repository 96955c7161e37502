"""Time limits for tests, relative to the speed of the machine: CPU seconds are compared with a reference workload."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager

_ROWS = [{"name": f"row {number}", "of": [number, None, 0.5], "in": {"a": "text"}} for number in range(2_000)]
_USUAL = 0.022
"""Seconds that serializing and parsing these takes on the reference machine."""


@contextmanager
def within(seconds: float) -> Generator[None]:
    """Assert that the block takes at most these CPU seconds on the reference machine, in proportion on a slower one."""
    before = slowness()
    started = time.process_time()
    yield
    duration = time.process_time() - started
    # A machine that became slow in the meantime made the block slow too.
    slow = max(before, slowness())
    assert duration < seconds * slow, f"{duration:.2f} s of CPU; this machine is {slow:.1f} times slower than usual"


def slowness() -> float:
    """How many times slower than the reference this machine is at the moment; at least 1."""
    started = time.process_time()
    for _ in range(2):
        assert json.loads(json.dumps(_ROWS)) == _ROWS
    return max((time.process_time() - started) / _USUAL, 1.0)
