"""FrameEncoder: encodes the events of a turn as frames. Independent of socket, ledger and engine.

Calls go through `EventSequence`, as in every other API: the joined pieces are never a whole call before the call is
known to be complete.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import partial

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
    ToolSearch,
    Usage,
    WireText,
    add_usage,
)
from ferrule.core.ids import make_unique
from ferrule.core.reply import Reply, ReplyFold
from ferrule.dialects.caller_error import caller_error
from ferrule.dialects.frames import server_frames as out
from ferrule.dialects.sequence import EventSequence
from ferrule.errors import FerruleError
from ferrule.run.events import ConfirmationRequired, LoopEnded, LoopEvent, ToolFinished, ToolProgressed, ToolStarted
from ferrule.server.answer.plan import ToolOwner


@dataclass(slots=True)
class FrameEncoder:
    """Encodes one turn with all its rounds. `reply` is that of the last round, if the caller runs the calls."""

    tool_owner: ToolOwner
    usage: Usage | None = None
    reason: FinishReason = FinishReason.STOP
    reply: Reply = field(default_factory=Reply)
    _sequence: EventSequence = field(default_factory=partial(EventSequence, is_live=True))
    _folding: ReplyFold = field(default_factory=ReplyFold)
    _ids: dict[int, str] = field(default_factory=dict[int, str])
    """The ids of this round's calls, by the engine's index."""
    _calls: list[tuple[str, str, list[str]]] = field(default_factory=list[tuple[str, str, list[str]]])
    _used_ids: list[str] = field(default_factory=list[str])

    def feed(self, event: LoopEvent) -> list[out.ServerFrame]:
        match event:
            case ToolStarted(call):
                return [out.ToolStartedFrame(call.id, call.name, call.function.arguments)]
            case ToolProgressed(id, progress):
                return _progress(out.ToolProgressFrame(id, progress.done, progress.total, progress.message))
            case ToolFinished(result):
                names, media = (result.tool_call_id, result.name), result.media or None
                return [out.ToolResultFrame(*names, result.content, result.is_error, media)]
            case ConfirmationRequired() | LoopEnded():
                # `LiveTurn` sends the approval from the ledger, and `done_frame` ends the turn.
                return []
            case Diagnostic(code, message, text, index):
                return [out.DiagnosticFrame(code, message, text, "" if index is None else self._ids.get(index, ""))]
            case CallStart(index, id, name):
                return self._encode_model_event(CallStart(index, self._unique_id(index, id), name))
            case _:
                return self._encode_model_event(event)

    def done_frame(self, limit: str = "") -> out.DoneFrame:
        reason = self.reason
        if self.tool_owner is ToolOwner.GATEWAY and reason is FinishReason.TOOL_CALLS:
            # The calls were the gateway's, and have been run.
            reason = FinishReason.STOP
        return out.DoneFrame(reason.value, self.usage, limit)

    def _unique_id(self, index: int, id: str) -> str:
        """Return a unique id, made as in the loop. The caller's results need ids that are unique in the whole turn."""
        self._ids[index] = make_unique((*self._used_ids, id))[-1]
        self._used_ids.append(self._ids[index])
        return self._ids[index]

    def _encode_model_event(self, event: Event) -> list[out.ServerFrame]:
        if self.tool_owner is ToolOwner.CALLER:
            self._folding.add(event)
        frames: list[out.ServerFrame] = []
        for ordered in self._sequence.feed(event):
            self._encode(ordered, frames)
        return frames

    def _encode(self, event: Event, frames: list[out.ServerFrame]) -> None:
        match event:
            case TextDelta(text):
                frames += [out.TokenFrame(text)] if text else []
            case ReasoningDelta(text):
                frames += [out.ReasoningFrame(text)] if text else []
            case CallStart(_, id, name):
                self._calls.append((id, name, []))
                frames.append(out.CallDeltaFrame(id, name))
            case ArgumentsDelta(index, json):
                id, name, pieces = self._calls[index]
                pieces.append(json)
                frames.append(out.CallDeltaFrame(id, name, json))
            case CallEnd():
                frames.append(self._call_end_frame(event))
            case Finish(reason, usage):
                self._end_round(reason, usage)
            case Diagnostic() | RuleShown() | WireText() | ToolSearch():
                # `EventSequence` returns no diagnostics, `RawFrameEncoder` handles raw output, and a search is no call.
                pass

    def _call_end_frame(self, event: CallEnd) -> out.ServerFrame:
        id, name, pieces = self._calls[event.index]
        if event.complete:
            return out.CallFrame(id, name, "".join(pieces), self.tool_owner.value, event.receipt)
        arguments = self._sequence.extension.incomplete[id].arguments
        detail = f"; {event.receipt}" if event.receipt else ""
        return out.DiagnosticFrame(
            "incomplete_call", f"the call of {name} is incomplete and was not sent{detail}", arguments, id
        )

    def _end_round(self, reason: FinishReason, usage: Usage | None) -> None:
        self.reason, self.usage = reason, add_usage(self.usage, usage)
        self.reply, self._folding, self._sequence = self._folding.reply(), ReplyFold(), EventSequence(is_live=True)
        self._calls, self._ids = [], {}
        if self.tool_owner is not ToolOwner.CALLER:
            self._used_ids = []


def error_frame(error: FerruleError, ref: str = "") -> out.ErrorFrame:
    shown = caller_error(error)
    return out.ErrorFrame(shown.code, shown.message, shown.hint, error.retryable, ref)


def caller_call(frame: out.ServerFrame) -> ToolCall | None:
    """Return the call in a frame, if it is one that the caller has to run."""
    if isinstance(frame, out.CallFrame) and frame.runs == ToolOwner.CALLER.value:
        return ToolCall.of(frame.name, frame.arguments, frame.id)
    return None


def _progress(frame: out.ToolProgressFrame) -> list[out.ServerFrame]:
    """Return the frame without infinite or NaN numbers, which a tool may report and JSON cannot express."""
    if not math.isfinite(frame.done):
        return []
    if frame.total is not None and not math.isfinite(frame.total):
        frame = replace(frame, total=None)
    return [frame]


# RawFrameEncoder: also sends the raw model output and the grammar, for clients that request them with `wire`.
#
# It is separate from `FrameEncoder`, so that other clients do not pay for it.


@dataclass(slots=True)
class RawFrameEncoder(FrameEncoder):
    """Sends raw frames immediately, even while a call is open: they are about the text, not about its meaning."""

    def feed(self, event: LoopEvent) -> list[out.ServerFrame]:
        match event:
            case WireText(text, is_forced):
                return [out.WireFrame(text, is_forced)]
            case RuleShown():
                return [out.RuleFrame(event.format, event.target, event.grammar, event.prompt, event.triggers)]
            case _:
                return FrameEncoder.feed(self, event)
