"""Functions for worker processes: good ones, and guests that exit, hang, fork, take memory or write into the pipe."""

from __future__ import annotations

import asyncio
import datetime
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from ferrule import tool
from ferrule.core.context import CallContext
from ferrule.errors import ToolError

FOREVER = 1e6


def next_day(day: datetime.date) -> datetime.date:
    print("this goes to standard error")
    return day + datetime.timedelta(days=1)


async def pid_async() -> int:
    await asyncio.sleep(0)
    return os.getpid()


def pid() -> int:
    return os.getpid()


def greet(word: str, context: CallContext) -> str:
    context.report(1, 2, "half")
    scopes = sorted(context.principal.scopes or ())
    return f"{word} {context.principal.name} of {context.principal.tenant}, {context.call_id}, {scopes}"


def fail() -> None:
    raise RuntimeError("password=hunter2")


def refuse() -> None:
    raise ToolError("the city is not on the map")


def leave() -> None:
    sys.exit(3)


def drop_dead(code: int) -> None:
    os._exit(code)


@tool(side_effects=True)
def pay(file: str, ends: bool) -> str:
    """Notes that it ran, and then dies if asked to."""
    with Path(file).open("a") as page:
        page.write("paid\n")
    if ends:
        os._exit(0)
    return "paid"


def hang(file: str) -> None:
    """Hangs, and so does a process that it forks."""
    child = os.fork()
    if child == 0:
        time.sleep(FOREVER)
    Path(file).write_text(f"{os.getpid()} {child}")
    time.sleep(FOREVER)


def fork_and_return(file: str) -> str:
    """Its child returns too."""
    child = os.fork()
    if child:
        Path(file).write_text(str(child))
    return "parent" if child else "child"


def leave_process_behind(file: str) -> str:
    process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1e6)"])
    Path(file).write_text(str(process.pid))
    return "started"


def take_memory(megabytes: int) -> int:
    return len(bytearray(megabytes << 20))


def take_all_memory() -> int:
    blocks: list[bytearray] = []
    while True:
        blocks.append(bytearray(8 << 20))


def write_to_all_pipes() -> str:
    """Writes a forged answer to whatever descriptor is open."""
    for descriptor in range(3, 32):
        try:
            os.write(descriptor, b'{"id": "forged", "value": "forged"}\n')
        except OSError:
            continue
    return "honest"


def long_text(megabytes: int) -> str:
    return "x" * (megabytes << 20)


def make_local() -> Callable[[], None]:
    def local() -> None:
        """Not importable."""

    return local
