"""Bounds on time as a ratio within one run: seconds of CPU are weighed against other work on the same machine."""

from __future__ import annotations

import json
import time
from collections.abc import Generator
from contextlib import contextmanager

_ROWS = [{"name": f"row {number}", "of": [number, None, 0.5], "in": {"a": "text"}} for number in range(2_000)]
_USUAL = 0.022
"""Seconds that writing and reading these takes on the machine that the bounds are written for."""


@contextmanager
def within(seconds: float) -> Generator[None]:
    """What is done inside takes no more CPU than that on the usual machine, and in proportion on a slower one."""
    before = slowness()
    started = time.process_time()
    yield
    took = time.process_time() - started
    # A machine that became slow meanwhile made the work slow too.
    slow = max(before, slowness())
    assert took < seconds * slow, f"{took:.2f} s of CPU, where this machine is {slow:.1f} times slower than usual"


def slowness() -> float:
    """How many times slower than usual this machine is just now; 1 on one that is faster."""
    started = time.process_time()
    for _ in range(2):
        assert json.loads(json.dumps(_ROWS)) == _ROWS
    return max((time.process_time() - started) / _USUAL, 1.0)
