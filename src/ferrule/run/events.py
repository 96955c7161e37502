"""The events of a running loop, besides those of the model's replies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import Progress
from ferrule.core.event import Event
from ferrule.run.machine import State


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A tool call has started."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A tool reports progress."""

    call_id: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call has ended. `result` is what the model will read."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ConfirmationRequired:
    """A call with side effects is waiting for approval. `approval` is the id in the ledger, if there is one."""

    call: ToolCall
    approval: str = ""


@dataclass(frozen=True, slots=True)
class LoopEnded:
    """The loop is over; this is its last event. `reason` names the limit that ended it, if one did.

    `calls` are those that the caller has to run, where a conversation has `client_tools`.
    """

    state: State
    reason: str = ""
    calls: tuple[ToolCall, ...] = ()


LoopEvent: TypeAlias = Event | ToolStarted | ToolProgressed | ToolFinished | ConfirmationRequired | LoopEnded
