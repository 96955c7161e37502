"""What a loop tells while it runs, besides the events of the model's answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from ferrule.core.call import ToolCall, ToolResult
from ferrule.core.context import Progress
from ferrule.core.event import Event
from ferrule.run.machine import State


@dataclass(frozen=True, slots=True)
class ToolStarted:
    """A call is handed to its tool."""

    call: ToolCall


@dataclass(frozen=True, slots=True)
class ToolProgressed:
    """A tool tells how far it has come."""

    call_id: str
    progress: Progress


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A call has ended; this is what the model will read."""

    result: ToolResult


@dataclass(frozen=True, slots=True)
class ConfirmationRequired:
    """A call changes the world and waits for leave. `approval` is its id in the ledger, where there is one."""

    call: ToolCall
    approval: str = ""


@dataclass(frozen=True, slots=True)
class LoopEnded:
    """Nothing more will come. `words` say which limit ended it, if one did."""

    state: State
    words: str = ""


LoopEvent: TypeAlias = Event | ToolStarted | ToolProgressed | ToolFinished | ConfirmationRequired | LoopEnded
