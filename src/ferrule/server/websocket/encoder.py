"""Telling: what happens in a turn, as frames. Knows no socket, no ledger and no engine.

Calls go through `Sequence`, like in every other API: what a client joins is never a whole call before the call is known
to be complete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from ferrule.core.call import ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Diagnostic,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    RuleShown,
    TextDelta,
    Usage,
    WireText,
    added,
)
from ferrule.core.ids import apart
from ferrule.core.reply import Folding, Reply
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.sequence import Sequence
from ferrule.errors import FerruleError
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.server.answer.turn import ToolOwner


@dataclass(slots=True)
class Telling:
    """The frames of one turn, over all of its rounds. `reply` is the last round's, where the caller runs the calls."""

    whose: ToolOwner
    usage: Usage | None = None
    reason: FinishReason = FinishReason.STOP
    reply: Reply = field(default_factory=Reply)
    _sequence: Sequence = field(default_factory=Sequence)
    _folding: Folding = field(default_factory=Folding)
    _ids: dict[int, str] = field(default_factory=dict[int, str])
    """Of this round's calls, by the engine's index."""
    _calls: list[tuple[str, str, list[str]]] = field(default_factory=list[tuple[str, str, list[str]]])
    _taken: list[str] = field(default_factory=list[str])

    def feed(self, event: LoopEvent) -> list[out.Outgoing]:
        match event:
            case ToolStarted(call):
                return [out.ToolStarted(call.id, call.name, call.function.arguments)]
            case ToolProgressed(id, progress):
                return _progress(out.ToolProgress(id, progress.done, progress.total, progress.message))
            case ToolFinished(result):
                return [out.ToolGave(result.tool_call_id, result.name, result.content, result.is_error)]
            case ConfirmationRequired() | LoopEnded():
                # Whoever holds the ledger tells the one, and the turn's end is told by `done`.
                return []
            case Diagnostic(code, message, text, index):
                return [out.Odd(code, message, text, "" if index is None else self._ids.get(index, ""))]
            case CallStart(index, id, name):
                return self._model(CallStart(index, self._id_apart(index, id), name))
            case _:
                return self._model(event)

    def done(self, words: str = "") -> out.Done:
        reason = self.reason
        if self.whose is ToolOwner.GATEWAY and reason is FinishReason.TOOL_CALLS:
            # They were the gateway's own, and have been run.
            reason = FinishReason.STOP
        return out.Done(reason.value, self.usage, words)

    def _id_apart(self, index: int, id: str) -> str:
        """The loop tells the calls of a round apart in this way. The caller's results need ids for the whole turn."""
        self._ids[index] = apart((*self._taken, id))[-1]
        self._taken.append(self._ids[index])
        return self._ids[index]

    def _model(self, event: Event) -> list[out.Outgoing]:
        if self.whose is ToolOwner.CALLER:
            self._folding.add(event)
        told: list[out.Outgoing] = []
        for plain in self._sequence.feed(event):
            self._say(plain, told)
        return told

    def _say(self, event: Event, told: list[out.Outgoing]) -> None:
        match event:
            case TextDelta(text):
                told += [out.Token(text)] if text else []
            case ReasoningDelta(text):
                told += [out.Reasoning(text)] if text else []
            case CallStart(_, id, name):
                self._calls.append((id, name, []))
                told.append(out.CallDelta(id, name))
            case ArgumentsDelta(index, json):
                id, name, pieces = self._calls[index]
                pieces.append(json)
                told.append(out.CallDelta(id, name, json))
            case CallEnd():
                told.append(self._ended(event))
            case Finish(reason, usage):
                self._round_ended(reason, usage)
            case Diagnostic() | RuleShown() | WireText():
                # `Sequence` gives none of the first, and `wire` takes the others before this.
                pass

    def _ended(self, event: CallEnd) -> out.Outgoing:
        id, name, pieces = self._calls[event.index]
        if event.complete:
            return out.Call(id, name, "".join(pieces), self.whose.value, event.receipt)
        written = self._sequence.extension.incomplete[id].arguments
        words = f"; {event.receipt}" if event.receipt else ""
        return out.Odd("incomplete_call", f"the call of {name} is not handed on{words}", written, id)

    def _round_ended(self, reason: FinishReason, usage: Usage | None) -> None:
        self.reason, self.usage = reason, added(self.usage, usage)
        self.reply, self._folding, self._sequence = self._folding.reply(), Folding(), Sequence()
        self._calls, self._ids = [], {}
        if self.whose is not ToolOwner.CALLER:
            self._taken = []


def failed(error: FerruleError, ref: str = "") -> out.Failed:
    return out.Failed(error.code, error.message, error.hint, error.retryable, ref)


def handed_out(frame: out.Outgoing) -> ToolCall | None:
    """The call that the caller is to run, where a frame is one."""
    if isinstance(frame, out.Call) and frame.runs == ToolOwner.CALLER.value:
        return ToolCall.of(frame.name, frame.arguments, frame.id)
    return None


def _progress(frame: out.ToolProgress) -> list[out.Outgoing]:
    """A tool may divide by nothing; JSON has no word for what comes out."""
    if not math.isfinite(frame.done):
        return []
    if frame.total is not None and not math.isfinite(frame.total):
        frame = replace(frame, total=None)
    return [frame]
