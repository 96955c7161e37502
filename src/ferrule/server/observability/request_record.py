"""RequestRecord: one request while it is served, and its outcome. Holds no text from the client."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from ferrule.errors import FerruleError
from ferrule.server.observability.answer_record import CLIENT_LEFT, OK, AnswerRecord

SWITCHING = 101
_ERROR_STATUS = 400
NOT_OK = "not_ok"
"""The outcome of a response with an error status that no exception caused, such as that of a probe."""


@dataclass(slots=True, eq=False)
class RequestRecord:
    """`api` is the path of the route, not of the request. `answers` are those that ended during the request."""

    id: str
    api: str
    is_socket: bool = False
    parent: Any = None
    clock: Callable[[], float] = time.monotonic
    started_at: float = 0.0
    principal: str = ""
    status: int = 0
    outcome: str = CLIENT_LEFT
    is_streaming: bool = False
    is_finished: bool = False
    open_answers: int = 0
    answers: list[AnswerRecord] = field(default_factory=list[AnswerRecord])
    is_cancelled: bool = False
    task: asyncio.Task[Any] | None = None

    def __post_init__(self) -> None:
        self.started_at = self.clock()
        if self.is_socket:
            self.status, self.outcome = SWITCHING, OK

    @property
    def is_idle(self) -> bool:
        """Whether it is a WebSocket connection without an active answer."""
        return self.is_socket and not self.open_answers

    def cancel(self) -> None:
        """Cancel a request that has no active answer. Answers are cancelled themselves and report it to the client."""
        if not self.open_answers and not self.is_cancelled and self.task is not None:
            self.is_cancelled = True
            self.task.cancel()

    def record_response(self, status: int, *, is_streaming: bool) -> None:
        self.status, self.outcome, self.is_streaming = status, OK if status < _ERROR_STATUS else NOT_OK, is_streaming

    def record_error(self, error: FerruleError) -> None:
        self.status, self.outcome = error.status, type(error).code

    def add_answer(self, record: AnswerRecord) -> bool:
        """Add a finished answer. Answers on a WebSocket are logged separately, since the connection may stay open."""
        self.open_answers -= 1
        if self.is_finished or self.is_socket:
            return False
        self.answers.append(record)
        return True

    @property
    def seconds(self) -> float:
        return self.clock() - self.started_at

    @property
    def last_answer(self) -> AnswerRecord | None:
        return self.answers[-1] if self.answers else None


CURRENT: ContextVar[RequestRecord | None] = ContextVar("ferrule_request", default=None)
"""The request that the current task serves; None for work without a request, such as a stored response."""
