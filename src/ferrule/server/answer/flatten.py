"""RoundFlattener: turns a loop of several rounds into one answer, for APIs that have no rounds.

Calls that the gateway runs are not part of the answer. They are reported as extension events next to it, as is
everything that tools and approvers do meanwhile. Calls that the client runs pass through.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, Finish, FinishReason, TextDelta, add_usage
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
class ExtensionEvent:
    """Data that no API has a field for. It is sent under the extension's key, which strict clients ignore."""

    data: dict[str, Any]


@dataclass(slots=True)
class RoundFlattener:
    """`gateway_runs_calls`: the calls are not the client's. `conversation` is sent if an answer waits for approval."""

    gateway_runs_calls: bool = False
    conversation: str = ""
    _finish: Finish | None = None
    _calls: dict[int, tuple[str, str]] = field(default_factory=dict[int, tuple[str, str]])
    _has_text: bool = False
    _pending: list[ConfirmationRequired] = field(default_factory=list[ConfirmationRequired])

    def feed(self, event: LoopEvent) -> list[Event | ExtensionEvent]:
        match event:
            case Finish():
                self._finish = _sum_usage(self._finish, event)
                return []
            case CallStart() | ArgumentsDelta() | CallEnd() if self.gateway_runs_calls:
                return self._gateway_call(event)
            case ToolStarted(call):
                return [
                    ExtensionEvent(
                        {"tool_started": {"id": call.id, "name": call.name, "arguments": call.function.arguments}}
                    )
                ]
            case ToolProgressed(id, progress):
                return [ExtensionEvent({"tool_progress": {"id": id, **asdict(progress)}})]
            case ToolFinished(result):
                data = {"id": result.tool_call_id, "name": result.name, "is_error": result.is_error}
                return [ExtensionEvent({"tool_finished": {**data, "content": result.content}})]
            case ConfirmationRequired(call, approval):
                self._pending.append(event)
                data = {"approval": approval, "id": call.id, "name": call.name, "arguments": call.function.arguments}
                return [ExtensionEvent({"confirmation_required": data})]
            case LoopEnded(state, limit):
                return self._end(state, limit)
            case _:
                self._has_text = self._has_text or isinstance(event, TextDelta)
                return [event]

    def _gateway_call(self, event: CallStart | ArgumentsDelta | CallEnd) -> list[Event | ExtensionEvent]:
        match event:
            case CallStart(index, id, name):
                self._calls[index] = (id, name)
            case CallEnd(index, complete, receipt) if receipt:
                id, name = self._calls.get(index, ("", ""))
                return [
                    ExtensionEvent(
                        {"tool_call": {"id": id, "name": name, "complete": complete, "receipt": receipt.as_dict()}}
                    )
                ]
            case _:
                pass
        return []

    def _end(self, state: State, limit: str) -> list[Event | ExtensionEvent]:
        usage = self._finish.usage if self._finish else None
        events: list[Event | ExtensionEvent] = []
        if limit:
            events.append(ExtensionEvent({"limit": limit}))
        if state is State.WAITING and self.gateway_runs_calls:
            events += self._pending_events()
        reason = self._finish.reason if self._finish else FinishReason.STOP
        if self.gateway_runs_calls and reason is FinishReason.TOOL_CALLS:
            # The calls were the gateway's, and have been run.
            reason = FinishReason.STOP
        return [*events, Finish(reason, usage)]

    def _pending_events(self) -> list[Event | ExtensionEvent]:
        """Report the pending approvals, also as text, for clients that do not read the extension."""
        approvals = [one.approval for one in self._pending]
        extension = ExtensionEvent({"waiting": {"conversation": self.conversation, "approvals": approvals}})
        names = ", ".join(f"{one.call.name} ({one.approval})" for one in self._pending)
        text = f"[Waiting for approval of {names}.]"
        return [extension, TextDelta(f"\n{text}" if self._has_text else text)]


def _sum_usage(earlier: Finish | None, latest: Finish) -> Finish:
    if earlier is None or earlier.usage is None or latest.usage is None:
        return latest
    return Finish(latest.reason, add_usage(earlier.usage, latest.usage))
