"""Seen: one request while it is being served, and what became of it. Holds nothing that a client wrote."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ferrule.errors import FerruleError
from ferrule.server.observability.answer_record import LEFT, OK, Noted

SWITCHING = 101
_BAD = 400
NOT_OK = "not_ok"
"""An answer that says by itself that something is wrong, such as that of a probe."""


@dataclass(slots=True, eq=False)
class Seen:
    """`api` is the route's path, not the request's. `answers` are those that ended while it was served."""

    id: str
    api: str
    is_socket: bool = False
    parent: Any = None
    clock: Callable[[], float] = time.monotonic
    began: float = 0.0
    principal: str = ""
    status: int = 0
    outcome: str = LEFT
    is_streaming: bool = False
    is_over: bool = False
    open_answers: int = 0
    answers: list[Noted] = field(default_factory=list[Noted])
    is_cut: bool = False
    task: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self.began = self.clock()
        if self.is_socket:
            self.status, self.outcome = SWITCHING, OK

    @property
    def can_wait(self) -> bool:
        """A connection on which nothing is asked just now."""
        return self.is_socket and not self.open_answers

    def cut(self) -> None:
        """An answer under way is cut off itself, and says so to the client; what has none is stopped here."""
        if not self.open_answers and not self.is_cut and self.task is not None:
            self.is_cut = True
            self.task.cancel()

    def given(self, status: int, *, is_streaming: bool) -> None:
        self.status, self.outcome, self.is_streaming = status, OK if status < _BAD else NOT_OK, is_streaming

    def refused(self, refusal: FerruleError) -> None:
        self.status, self.outcome = refusal.status, type(refusal).code

    def takes(self, noted: Noted) -> bool:
        """A connection is not told of before it ends, and so its answers are told of by themselves."""
        self.open_answers -= 1
        if self.is_over or self.is_socket:
            return False
        self.answers.append(noted)
        return True

    @property
    def seconds(self) -> float:
        return self.clock() - self.began

    @property
    def last(self) -> Noted | None:
        return self.answers[-1] if self.answers else None


CURRENT: ContextVar[Seen | None] = ContextVar("ferrule_request", default=None)
"""The request that this task works for; None where it works for none, such as a stored response."""
