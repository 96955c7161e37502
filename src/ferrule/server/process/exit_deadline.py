"""ExitDeadline: ends the process at a time, whatever still runs in it.

A thread cannot be killed, and Python waits for threads when it ends: for a function of a library, for llama.cpp that
reads a long prompt, for a tool's own thread. A gateway that got a signal to stop must not wait for them. Its ledger and
log need no flush, because every record is committed when it is made.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable

from ferrule.server.observability.logs import Log

AFTER_DRAIN = 5.0
"""How many seconds a gateway may take to close after its drain. Less than a supervisor waits for its workers."""
AFTER_CLOSE = 1.0
"""How many seconds threads may take to end once everything is closed."""
_LOG_SECONDS = 0.5


class ExitDeadline:
    """Ends the process unless it ends by itself. Nothing happens before the first `set`.

    Example:
        deadline = ExitDeadline(Log.to_stderr())
        deadline.set(30.0, code=1)
    """

    def __init__(self, log: Log, end: Callable[[int], object] = os._exit) -> None:
        self._log, self._end = log, end
        self._times: queue.SimpleQueue[tuple[float, int]] = queue.SimpleQueue()
        # The thread is started now, because a signal handler cannot start one safely.
        threading.Thread(target=self._watch, name="exit-deadline", daemon=True).start()

    def set(self, seconds: float, code: int) -> None:
        """Set the deadline, or replace it. A signal handler may call this."""
        self._times.put((time.monotonic() + seconds, code))

    def _watch(self) -> None:
        at, code = self._times.get()
        while True:
            try:
                at, code = self._times.get(timeout=max(0.0, at - time.monotonic()))
            except queue.Empty:
                break
        # Nothing may hold this up, not even a log that nobody reads.
        report = threading.Thread(target=self._report, args=(code,), daemon=True)
        report.start()
        report.join(_LOG_SECONDS)
        self._end(code)

    def _report(self, code: int) -> None:
        self._log.emit("exit_forced", pid=os.getpid(), exit=code, count=threading.active_count() - 2)
