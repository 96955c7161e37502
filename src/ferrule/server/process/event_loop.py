"""The event loop that a gateway runs on: uvloop where it is there, and otherwise asyncio's own. Owner of uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """What the work comes to."""
    with asyncio.Runner(loop_factory=_factory()) as runner:
        return runner.run(work)


def _factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        # It does not build everywhere, and changes the cost only.
        return None
    return uvloop.new_event_loop
