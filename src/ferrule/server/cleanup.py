"""Cancel tasks without leaking the memory that they held.

The exception that ends a cancelled task refers to the stack frames that it passed through, and these frames refer to
everything the task held, such as the whole text of an answer. Exception and frames form a reference cycle, so the
memory stays until Python's garbage collector runs. The collector counts objects and not bytes: a few clients that
disconnect during long answers are enough to retain hundreds of megabytes. Clearing the frames breaks the cycle.
"""

from __future__ import annotations

import asyncio
from traceback import clear_frames
from typing import Any


async def cancel_and_wait(*tasks: asyncio.Future[Any]) -> None:
    """Cancel tasks, wait until they have ended, and free what their frames held."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        try:
            error = task.exception()
        except asyncio.CancelledError as cancelled:
            error = cancelled
        if error is not None:
            clear_tracebacks(error)


def clear_tracebacks(error: BaseException) -> None:
    """Clear the local variables of all frames that an exception, its causes and its contexts passed through."""
    visited: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in visited:
        visited.add(id(current))
        clear_frames(current.__traceback__)
        current = current.__cause__ or current.__context__
