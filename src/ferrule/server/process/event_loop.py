"""Run the gateway's event loop: uvloop if it is installed, else asyncio's. The only module that imports uvloop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ferrule.sources.tool_exceptions import create_guarded_task

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result."""
    with asyncio.Runner(loop_factory=_new_loop) as runner:
        return runner.run(work)


def _new_loop() -> asyncio.AbstractEventLoop:
    loop = _factory()()
    loop.set_task_factory(create_guarded_task)
    return loop


def _factory() -> Callable[[], asyncio.AbstractEventLoop]:
    try:
        import uvloop
    except ImportError:
        # uvloop does not build on every system, and it only improves speed.
        return asyncio.new_event_loop
    return uvloop.new_event_loop
