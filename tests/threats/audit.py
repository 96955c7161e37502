"""Record audit events of the interpreter during a test: processes, connections, files.

An audit hook cannot be removed, so there is a single one, and it records only while a test listens.
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


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    for events, records in _LISTENERS:
        if event in events:
            records.append(f"{event} {arguments!r:.300}")


sys.addaudithook(_on_event)


@contextmanager
def audit(events: frozenset[str]) -> Generator[list[str]]:
    """Collect the given audit events of all threads."""
    listener = (events, list[str]())
    _LISTENERS.append(listener)
    try:
        yield listener[1]
    finally:
        _LISTENERS.remove(listener)
