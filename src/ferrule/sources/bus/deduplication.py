"""Once: which effects a worker has begun, so that the same call, come twice, does not happen twice. No IO.

It is a worker's own memory and ends with it; what outlives a crash is the caller's ledger.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from ferrule.core.context import CallContext
from ferrule.core.json_text import digest
from ferrule.sources.bus.frame import Frame, Lost

REMEMBERED = 10_000
_RUNS = Lost("the same call is running already, or began and was not finished")


class Once:
    """The last so many effects, by whose call it was and what it asked."""

    def __init__(self, most: int = REMEMBERED) -> None:
        self._most = most
        self._begun: OrderedDict[str, Frame | None] = OrderedDict()

    def begin(self, key: str) -> Frame | None:
        """None where the call is new and is begun now; else what is known of it."""
        if key in self._begun:
            return self._begun[key] or _RUNS
        self._begun[key] = None
        while len(self._begun) > self._most:
            self._begun.popitem(last=False)
        return None

    def finish(self, key: str, frame: Frame) -> None:
        if key in self._begun:
            self._begun[key] = frame

    def forget(self, key: str) -> None:
        """For a call that turned out not to have run at all."""
        self._begun.pop(key, None)


def key_of(subject: str, arguments: Mapping[str, Any], context: CallContext) -> str:
    """The same for every attempt at one call. A model may give two calls of two conversations the same id."""
    who = context.principal
    return digest([who.tenant, who.name, context.conversation, context.call_id, subject, dict(arguments)])
