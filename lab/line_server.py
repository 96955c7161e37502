"""The server side of a worker process: it answers each JSON line with one JSON line. `workers` is the client side.

It runs in interpreters where Ferrule is not installed, so it imports only the standard library.
"""

import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

SECONDS_PER_REQUEST: Final = 30

# These must end the process.
_ENDS_THE_PROCESS: Final = (KeyboardInterrupt, SystemExit)
# Foreign code may raise anything, and one bad text must not end the run, so every other failure becomes an answer. That
# includes BaseException: a panic in a Rust library, and TooSlow, which foreign code must not be able to swallow.
_ANY_FOREIGN_FAILURE: Final = (BaseException,)

Prepare = Callable[[Mapping[str, Any]], Callable[[], Mapping[str, Any]]]


class TooSlow(BaseException):
    """The foreign code exceeded its time limit."""


def serve(
    prepare: Prepare, blank: Mapping[str, Any] = MappingProxyType({}), seconds: int = SECONDS_PER_REQUEST
) -> None:
    """Answer every line of stdin until it ends.

    `prepare` reads the request and returns the work, whose CPU seconds are measured. The output of foreign code goes to
    stderr, never between the answers. After a failure the answer is `blank` with "error".
    """
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    sys.stdout = sys.stderr
    signal.signal(signal.SIGPROF, _raise_too_slow)
    for line in io.TextIOWrapper(sys.stdin.buffer, encoding="utf-8"):
        answers.write(json.dumps(_answer(prepare, line, blank, seconds)) + "\n")
        answers.flush()


def _answer(prepare: Prepare, line: str, blank: Mapping[str, Any], seconds: int) -> dict[str, Any]:
    started = time.process_time()
    # In CPU time: on a busy machine the same work takes several times as long.
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        work = prepare(json.loads(line))
        started = time.process_time()
        outcome = work()
        return {**outcome, "seconds": time.process_time() - started}
    except _ENDS_THE_PROCESS:
        raise
    except _ANY_FOREIGN_FAILURE as failure:
        spent = time.process_time() - started
        return {**blank, "error": f"{type(failure).__name__}: {failure}", "seconds": spent}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def _raise_too_slow(_signal: int, _frame: object) -> None:
    raise TooSlow("no answer in time")
