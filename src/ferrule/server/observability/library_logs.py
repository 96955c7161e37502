"""What libraries log, in our lines: which library, how bad, and where in it. Their words may hold anything: left out.

The place names the very line that logged, where whoever wants its words can read them.
"""

from __future__ import annotations

import logging

from ferrule.server.observability.logs import Log
from ferrule.server.observability.stack_trace import kinds, places


class LibraryLines(logging.Handler):
    """Everything from a warning on."""

    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._log.tell(
            "library",
            logger=record.name,
            level=record.levelname.lower(),
            place=f"{record.module}:{record.lineno} {record.funcName}",
            **({"kinds": kinds(error), "stack": places(error)} if error is not None else {}),
        )


def take_over(log: Log) -> None:
    """From now on no library of this process writes lines of its own."""
    root = logging.getLogger()
    root.handlers[:] = [LibraryLines(log)]
    root.setLevel(logging.WARNING)
    logging.captureWarnings(True)
