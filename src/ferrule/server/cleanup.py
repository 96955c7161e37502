"""Ending tasks so that nothing of them stays behind.

The error that a cancelled task ends with holds the stack it was thrown through, and that stack everything the task was
made of: an answer's whole text, for one. They hold each other, so that it is all kept until Python next looks for such
rings, and it looks by the number of objects and not by their size: a few clients that leave long answers are enough to
keep hundreds of megabytes.
"""

from __future__ import annotations

import asyncio
from traceback import clear_frames
from typing import Any


async def ended(*tasks: asyncio.Future[Any]) -> None:
    """Cancels them and waits until they are over."""
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    for task in tasks:
        try:
            left = task.exception()
        except asyncio.CancelledError as cancelled:
            left = cancelled
        if left is not None:
            let_go(left)


def let_go(error: BaseException) -> None:
    """Forgets what the frames held that the error came through, and those before it that led to it."""
    seen: set[int] = set()
    behind: BaseException | None = error
    while behind is not None and id(behind) not in seen:
        seen.add(id(behind))
        clear_frames(behind.__traceback__)
        behind = behind.__cause__ or behind.__context__
