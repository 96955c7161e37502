"""Rounds: a loop of several rounds as the one answer that an API without rounds can say.

Calls that the gateway ran itself are not the client's: they are told as asides, beside the answer, and so is everything
that tools and people did meanwhile. Calls that are the client's to run pass through.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, Finish, FinishReason, TextDelta, added
from ferrule.run.events import (
    ConfirmationRequired,
    LoopEnded,
    LoopEvent,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
)
from ferrule.run.machine import State


@dataclass(frozen=True, slots=True)
class Aside:
    """Something that no API has a field for: told under the extension's key, where strict clients pass over it."""

    told: dict[str, Any]


@dataclass(slots=True)
class Rounds:
    """`is_internal`: calls are run by the gateway. `conversation` is told where an answer waits for leave."""

    is_internal: bool = False
    conversation: str = ""
    _finish: Finish | None = None
    _calls: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    _said_text: bool = False
    _waiting: list[ConfirmationRequired] = field(default_factory=list[ConfirmationRequired])

    def feed(self, event: LoopEvent) -> list[Event | Aside]:
        match event:
            case Finish():
                self._finish = _summed(self._finish, event)
                return []
            case CallStart() | ArgumentsDelta() | CallEnd() if self.is_internal:
                return self._own(event)
            case ToolStarted(call):
                return [
                    Aside({"tool_started": {"id": call.id, "name": call.name, "arguments": call.function.arguments}})
                ]
            case ToolProgressed(id, progress):
                return [Aside({"tool_progress": {"id": id, **asdict(progress)}})]
            case ToolFinished(result):
                told = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error}
                return [Aside({"tool_finished": {**told, "content": result.content}})]
            case ConfirmationRequired(call, approval):
                self._waiting.append(event)
                told = {"approval": approval, "id": call.id, "name": call.name, "arguments": call.function.arguments}
                return [Aside({"confirmation_required": told})]
            case LoopEnded(state, words):
                return self._ended(state, words)
            case _:
                self._said_text = self._said_text or isinstance(event, TextDelta)
                return [event]

    def _own(self, event: CallStart | ArgumentsDelta | CallEnd) -> list[Event | Aside]:
        match event:
            case CallStart(index, id, name):
                self._calls[index] = (id, name)
            case CallEnd(index, complete, receipt) if receipt:
                id, name = self._calls.get(index, ("", ""))
                return [
                    Aside({"tool_call": {"id": id, "name": name, "complete": complete, "receipt": receipt.as_dict()}})
                ]
            case _:
                pass
        return []

    def _ended(self, state: State, words: str) -> list[Event | Aside]:
        usage = self._finish.usage if self._finish else None
        told: list[Event | Aside] = []
        if words:
            told.append(Aside({"limit": words}))
        if state is State.WAITING and self.is_internal:
            told += self._waits()
        reason = self._finish.reason if self._finish else FinishReason.STOP
        if self.is_internal and reason is FinishReason.TOOL_CALLS:
            # They were the gateway's own, and have been run.
            reason = FinishReason.STOP
        return [*told, Finish(reason, usage)]

    def _waits(self) -> list[Event | Aside]:
        """A client that knows nothing of approvals is told in words what it waits for."""
        asked = [one.approval for one in self._waiting]
        waiting = Aside({"waiting": {"conversation": self.conversation, "approvals": asked}})
        names = ", ".join(f"{one.call.name} ({one.approval})" for one in self._waiting)
        words = f"[Waiting for approval of {names}.]"
        return [waiting, TextDelta(f"\n{words}" if self._said_text else words)]


def _summed(before: Finish | None, now: Finish) -> Finish:
    if before is None or before.usage is None or now.usage is None:
        return now
    return Finish(now.reason, added(before.usage, now.usage))
