"""Noted: one answer as it forms, counted. What it costs for each event is one addition and one look into a table."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Protocol, Self

from ferrule.core.event import CallEnd, CallStart, Finish, RuleShown, WireText
from ferrule.core.receipt import How
from ferrule.errors import FerruleError
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolStarted
from ferrule.server.observability.spans import Spans, Took, Value
from ferrule.server.process import drain

CALLER = "caller"
"""Stands for every tool of a caller: the names of those are his own, and without end."""
OK, LEFT = "ok", "left"
_NANO = 1_000_000_000


class Notes(Protocol):
    """Who is told of answers."""

    spans: Spans

    def called(self, model: str, tool: str, how: str, *, is_complete: bool) -> None: ...

    def leave_asked(self, tool: str) -> None: ...

    def answered(self, noted: Noted) -> None: ...

    def unexpected(self, error: Exception, request_id: str) -> FerruleError:
        """Written down; what the client is told instead."""
        ...


class Request(Protocol):
    """What is known here of the request that an answer is given to."""

    id: str
    parent: Any

    def takes(self, noted: Noted) -> bool:
        """An answer is over; whether it is told of with the request, and not by itself."""
        ...


@dataclass(slots=True, eq=False)
class Noted:
    """Entered while an answer is given. `own` are the names of the gateway's tools, where it runs the calls."""

    notes: Notes
    model: str
    engine: str
    own: Container[str]
    seen: Request | None = None
    conversation: str = ""
    clock: Callable[[], float] = time.monotonic
    events: int = 0
    began: float = 0.0
    first: float = 0.0
    ended: float = 0.0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish: str = ""
    outcome: str = OK
    calls: list[str] = field(default_factory=list[str])
    can_wait: bool = False
    _began_at: int = 0
    _round: float = 0.0
    _is_over: bool = False
    _is_cut: bool = False
    _task: asyncio.Task[Any] | None = None
    _names: dict[int, str] = field(default_factory=dict[int, str])
    _running: dict[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])

    def __enter__(self) -> Self:
        self.began = self._round = self.clock()
        self._began_at = time.time_ns()
        return self

    def note(self, event: LoopEvent) -> None:
        """Called for every event, and so for every token: keep it small."""
        self._task = None
        self.events += 1
        if self.events == 1:
            self.first = self.clock()
        look = _LOOKS.get(event.__class__)
        if look is not None:
            look(self, event)

    def wait(self) -> None:
        """Called before every event is waited for: where it can be cut off."""
        if self._is_cut:
            raise drain.refusal()
        self._task = asyncio.current_task()

    def cut(self) -> None:
        self._is_cut = True
        if self._task is not None:
            self._task.cancel()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.ended = self.clock()
        told = self._told(error)
        self.outcome = _outcome(told) if not self._is_over else OK
        if isinstance(told, Exception):
            self._round_ended(self.outcome)
        self.notes.answered(self)
        if told is not None and told is not error:
            raise told from error

    def _told(self, error: BaseException | None) -> BaseException | None:
        """What the client is told of an error: of one that nobody foresaw, nothing but where to ask."""
        if isinstance(error, asyncio.CancelledError) and self._is_cut and self._task is not None:
            # The task was stopped for this, and goes on to say so.
            self._task.uncancel()
            return drain.refusal()
        if isinstance(error, Exception) and not isinstance(error, FerruleError):
            return self.notes.unexpected(error, self.seen.id if self.seen else "")
        return error

    def _tool(self, name: str) -> str:
        return name if name in self.own else CALLER

    def _shown(self, event: RuleShown | WireText) -> None:
        # Not of the answer: the first event is still to come, and is as late as it is.
        self.events -= 1

    def _call_began(self, event: CallStart) -> None:
        self._names[event.index] = event.name

    def _call_ended(self, event: CallEnd) -> None:
        tool = self._tool(self._names.pop(event.index, ""))
        how = str(event.receipt.how) if event.receipt else "none"
        self.calls.append(f"{tool}={how}")
        self.notes.called(self.model, tool, how, is_complete=event.complete)

    def _round_over(self, event: Finish) -> None:
        self.finish = str(event.reason)
        told: dict[str, Value] = {"gen_ai.response.finish_reasons": (self.finish,)}
        if event.usage:
            self.prompt_tokens += event.usage.prompt_tokens
            self.completion_tokens += event.usage.completion_tokens
            told["gen_ai.usage.input_tokens"] = event.usage.prompt_tokens
            told["gen_ai.usage.output_tokens"] = event.usage.completion_tokens
        self._round_ended("", told)

    def _round_ended(self, error: str, told: Mapping[str, Value] | None = None) -> None:
        spans = self.notes.spans
        now = self.clock()
        if spans.is_on:
            named: dict[str, Value] = {"gen_ai.provider.name": self.engine, **(told or {})}
            if self.conversation:
                named["gen_ai.conversation.id"] = self.conversation
            spans.chat(self.model, Took(self._at(self._round), self._at(now), error), self._parent, named)
        self._round = now

    def _tool_began(self, event: ToolStarted) -> None:
        self._running[event.call.id] = (self._tool(event.call.name), self.clock())

    def _tool_ended(self, event: ToolFinished) -> None:
        now = self._round = self.clock()
        tool, began = self._running.pop(event.result.tool_call_id, (self._tool(event.result.name), now))
        if self.notes.spans.is_on:
            took = Took(self._at(began), self._at(now), "tool_failed" if event.result.is_error else "")
            self.notes.spans.tool(tool, event.result.tool_call_id, took, self._parent)

    def _leave_asked(self, event: ConfirmationRequired) -> None:
        self.notes.leave_asked(self._tool(event.call.name))

    def _loop_ended(self, event: LoopEnded) -> None:
        self._is_over = True

    @property
    def _parent(self) -> Any:
        return self.seen.parent if self.seen else None

    def _at(self, moment: float) -> int:
        return self._began_at + int((moment - self.began) * _NANO)


_LOOKS: Mapping[type, Callable[[Noted, Any], None]] = {
    CallStart: Noted._call_began,  # pyright: ignore[reportPrivateUsage]  # its own table
    CallEnd: Noted._call_ended,  # pyright: ignore[reportPrivateUsage]
    Finish: Noted._round_over,  # pyright: ignore[reportPrivateUsage]
    ToolStarted: Noted._tool_began,  # pyright: ignore[reportPrivateUsage]
    ToolFinished: Noted._tool_ended,  # pyright: ignore[reportPrivateUsage]
    ConfirmationRequired: Noted._leave_asked,  # pyright: ignore[reportPrivateUsage]
    LoopEnded: Noted._loop_ended,  # pyright: ignore[reportPrivateUsage]
    RuleShown: Noted._shown,  # pyright: ignore[reportPrivateUsage]
    WireText: Noted._shown,  # pyright: ignore[reportPrivateUsage]
}
REPAIRED = str(How.REPAIRED)


def _outcome(error: BaseException | None) -> str:
    """A word of a fixed list: an error's class has one, whatever code an engine gave this one."""
    if error is None:
        return OK
    return type(error).code if isinstance(error, FerruleError) else LEFT
