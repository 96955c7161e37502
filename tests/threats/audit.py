"""What the interpreter itself says that it does, while a test looks on: processes, connections, files.

A hook of this kind stays for as long as the process lives, so there is one, and it listens only when it is told to.
"""

from __future__ import annotations

import sys
from collections.abc import Generator
from contextlib import contextmanager

SPAWNS = frozenset(
    {"subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "pty.spawn"}
)
CONNECTS = frozenset({"socket.connect", "socket.getaddrinfo", "urllib.Request"})
OPENS = frozenset({"open"})

_LISTENERS: list[tuple[frozenset[str], list[str]]] = []


def _heard(event: str, arguments: tuple[object, ...]) -> None:
    for events, told in _LISTENERS:
        if event in events:
            told.append(f"{event} {arguments!r:.300}")


sys.addaudithook(_heard)


@contextmanager
def audited(events: frozenset[str]) -> Generator[list[str]]:
    """Everything of these kinds that happens meanwhile, in any thread."""
    listener = (events, list[str]())
    _LISTENERS.append(listener)
    try:
        yield listener[1]
    finally:
        _LISTENERS.remove(listener)
