"""Tools that behave badly, for a gateway in a process of its own: they exit, hang, fork, take memory or hold it up.

They are the guests of `lab.guests` and of the tests of threats.
"""

from __future__ import annotations

import asyncio
import os
import sys
import threading
import time

from ferrule import tool

FOREVER = 1e6


@tool
def look(place: str) -> str:
    """Looks."""
    return f"seen {place}"


@tool
def leave(code: int) -> str:
    """Ends the process."""
    sys.exit(code)


@tool
async def leave_async(code: int) -> str:
    """Ends the process, from a task of its own."""

    async def child() -> None:
        sys.exit(code)

    await asyncio.gather(child(), asyncio.sleep(0))
    return "not reached"


@tool
def hang() -> str:
    """Hangs."""
    time.sleep(FOREVER)
    return "not reached"


@tool
def spin() -> str:
    """Computes for ever."""
    while True:
        pass


@tool
def start_thread() -> str:
    """Starts a thread that Python would wait for when the process ends."""
    threading.Thread(target=time.sleep, args=(FOREVER,)).start()
    return "started"


@tool
async def block() -> str:
    """Blocks the event loop."""
    time.sleep(FOREVER)
    return "not reached"


@tool
async def stay() -> str:
    """Refuses to be cancelled."""
    while True:
        try:
            await asyncio.sleep(FOREVER)
        except asyncio.CancelledError:
            continue


@tool(isolation="process")
def hang_apart() -> str:
    """Hangs in a process of its own."""
    time.sleep(FOREVER)
    return "not reached"


@tool(isolation="process")
def fork() -> str:
    """Forks children that stay, and one that returns."""
    for _ in range(4):
        if os.fork() == 0:
            time.sleep(FOREVER)
    os.fork()
    return "forked"


@tool(isolation="process")
def take_memory() -> str:
    """Takes memory until there is none."""
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(8 << 20))
