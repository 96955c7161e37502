"""Bounds on time as a ratio within one run: work is weighed against a loop that does nothing, on the same machine."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

_TURNS = 1_000_000


@contextmanager
def within(millions: float) -> Generator[None]:
    """What is done inside takes no more CPU than so many million turns of an empty loop (15: about a second)."""
    before = a_million_turns()
    started = time.process_time()
    yield
    took = time.process_time() - started
    # A machine that became slow meanwhile made the work slow too: the slower of the two is what it is weighed against.
    unit = max(before, a_million_turns())
    assert took < millions * unit, f"as long as {took / unit:.1f} million turns of an empty loop"


def a_million_turns() -> float:
    """Of an empty loop, in seconds of CPU."""
    started = time.process_time()
    for _ in range(_TURNS):
        pass
    return time.process_time() - started
