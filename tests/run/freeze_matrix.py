"""One conversation of three tool steps, frozen at one point after another: `freeze_matrix.py LEDGER FOLDER LIMIT`.

For every point it forks a process that stops there by SIGSTOP, like a machine that sleeps. Another process resumes from
the ledger while the first one sleeps. Then the first one wakes and goes on with what it was doing. The points are after
each statement and step, and at the beginning, in the middle and at the end of each effect. LIMIT is appended to the
address of the first process: it sets how long the server lets a transaction of several statements idle. It prints one
line of JSON for each point.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path
from typing import Any

from ferrule.errors import FerruleError
from ferrule.run.ledger.ledger import Ledger
from ferrule.run.ledger.postgres import PostgresLedger
from ferrule.run.ledger.sqlite import SqliteLedger
from run.kill_matrix import Kill, Watch, fork, point_of, points, run_conversation
from run.watched_ledger import Executed, watch

GAVE_UP = 3
"""The exit code of a process that woke and was told that it no longer owns the conversation."""


_THREAD = "ferrule-ledger"
_file_threads: list[ThreadPoolExecutor] = []
"""The threads of the ledgers in files that this process has open."""


def stop_after_statements(ledger: Ledger, stop: Kill) -> None:
    """Stop after each statement and step. SQLite locks its file for a transaction of several: not inside those."""
    is_server = isinstance(ledger, PostgresLedger)
    if isinstance(ledger, SqliteLedger):
        _file_threads.append(ledger._thread)  # pyright: ignore[reportPrivateUsage]

    def executed(one: Executed) -> None:
        if is_server or not one.is_atomic:
            stop(point_of(one))

    watch(ledger, executed, lambda name, number: stop(f"{number} {name}: returned"))


def stop_here() -> None:
    """Stop this process: by this thread, because a signal to the process may reach another one first."""
    signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)


def stop_between_transactions() -> None:
    """Stop this process while no transaction of several statements is open in a file.

    The index of words is written behind, in the ledger's thread. What that thread runs is between two transactions.
    """
    if _file_threads and not threading.current_thread().name.startswith(_THREAD):
        _file_threads[-1].submit(stop_here).result()
    else:
        stop_here()


def chosen(found: list[str]) -> list[str]:
    """One point of each kind: the same transaction, the same statement."""
    kinds: dict[str, str] = {}
    for point in found:
        number, _, rest = point.partition(" ")
        kinds.setdefault(rest if number.isdigit() else point, point)
    return list(kinds.values())


def main(address: str, folder: Path, limit: str) -> None:
    for late in ("psycopg", "ferrule.run.ledger.postgres", "ferrule.run.ledger.sqlite"):
        import_module(late)
    watch = stop_after_statements
    for number, point in enumerate(chosen(points(address, folder, watch))):
        attempt, report = 0, None
        while report is None:
            # A busy machine may stall a process for so long that the server ends its transaction before the point.
            attempt += 1
            report = freeze(address, limit, folder, point, f"{number}-{attempt}", watch)
        if report:
            print(json.dumps(report), flush=True)


def freeze(address: str, limit: str, folder: Path, point: str, name: str, watch: Watch) -> dict[str, Any] | None:
    """Freeze a process at the point, let another one resume, and wake the first.

    None if it failed before the point. Empty if it passed no such point: a second conversation has fewer statements,
    because what the first one recorded about a tool exists already.
    """
    file, report, id = folder / f"effects-{name}", folder / f"told-{name}", f"c{name}"
    file.touch()

    def stop(here: str) -> None:
        if here == point:
            stop_between_transactions()

    def victim() -> None:
        try:
            asyncio.run(run_conversation(address + limit, file, id, stop, time.time, watch))
        except FerruleError:
            os._exit(GAVE_UP)
        os._exit(0)

    def successor() -> None:
        # An hour later: the lease has run out, and nobody had to wait for it.
        told = asyncio.run(run_conversation(address, file, id, None, lambda: time.time() + 3600))
        report.write_text(json.dumps(told))
        os._exit(0)

    child = os.fork()
    if child == 0:
        victim()
    _, status = os.waitpid(child, os.WUNTRACED)
    if not os.WIFSTOPPED(status):
        assert os.WIFEXITED(status)
        return {} if os.WEXITSTATUS(status) == 0 else None
    ended = fork(successor)
    os.kill(child, signal.SIGCONT)
    _, status = os.waitpid(child, 0)
    woke = os.WEXITSTATUS(status) if os.WIFEXITED(status) else -os.WTERMSIG(status)
    told = json.loads(report.read_text()) if ended == 0 else {}
    return {"point": point, "ended": ended, "woke": woke, "effects": file.read_text(), **told}


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
