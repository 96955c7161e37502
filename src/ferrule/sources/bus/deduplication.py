"""Deduplicator: remembers the calls with side effects that a worker has started, so that a repeated call does not run
again. It does no I/O.

It is the worker's own memory and ends with the process. What survives a crash is in the caller's ledger.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import digest
from ferrule.sources.bus.frame import Frame, UnknownOutcome

MAX_CALLS = 10_000
_ALREADY_RUNNING = UnknownOutcome("the same call is running already, or began and was not finished")


class Deduplicator:
    """The most recent calls with side effects, by caller and arguments."""

    def __init__(self, max_calls: int = MAX_CALLS) -> None:
        self._max_calls = max_calls
        self._frames: OrderedDict[str, Frame | None] = OrderedDict()

    def begin(self, key: str) -> Frame | None:
        """Start a call: None if it is new, otherwise the frame that answers the earlier attempt."""
        if key in self._frames:
            return self._frames[key] or _ALREADY_RUNNING
        self._frames[key] = None
        while len(self._frames) > self._max_calls:
            self._frames.popitem(last=False)
        return None

    def finish(self, key: str, frame: Frame) -> None:
        if key in self._frames:
            self._frames[key] = frame

    def forget(self, key: str) -> None:
        """Forget a call that did not run after all."""
        self._frames.pop(key, None)


def key_of(subject: str, arguments: Mapping[str, Any], context: CallContext) -> str:
    """The key of a call: the same for every attempt. It includes the conversation, because call ids may repeat."""
    principal = context.principal
    return digest([principal.tenant, principal.name, context.conversation, context.call_id, subject, dict(arguments)])
