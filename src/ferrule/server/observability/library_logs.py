"""Log records of libraries, as lines of our log: logger, level and place, without the message.

A message may contain secrets, so it is left out. The place names the line of code that logged it.
"""

from __future__ import annotations

import logging

from ferrule.server.observability.logs import Log
from ferrule.server.observability.stack_trace import error_types, stack_frames


class LibraryLogHandler(logging.Handler):
    """Writes every record of level WARNING or above to a `Log`."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._log.emit(
            "library",
            logger=record.name,
            level=record.levelname.lower(),
            place=f"{record.module}:{record.lineno} {record.funcName}",
            **({"kinds": error_types(error), "stack": stack_frames(error)} if error is not None else {}),
        )


def capture_library_logs(log: Log) -> None:
    """Replace the handlers of the root logger, so that no library of this process writes its own lines."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLogHandler(log)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
