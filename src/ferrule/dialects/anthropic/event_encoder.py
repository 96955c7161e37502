"""Events as the named events of a streamed message. The name of each is its `type`; the client drops what has none.

Blocks follow each other, counted from 0, and their order is the order of the reply's parts.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.event import ArgumentsDelta, CallEnd, CallStart, Event, Finish, ReasoningDelta, TextDelta, Usage
from ferrule.dialects.anthropic.response_body import STOP_REASONS, usage_body
from ferrule.dialects.extension import Extension
from ferrule.dialects.sequence import Sequence

_TEXT: dict[str, Any] = {"type": "text", "text": ""}
# The client's type wants a signature; there is none to give.
_THINKING: dict[str, Any] = {"type": "thinking", "thinking": "", "signature": ""}


class EventEncoder:
    """`prompt_tokens` is told at the start, where it is known by then, and again at the end."""

    def __init__(self, *, id: str, model: str, prompt_tokens: int = 0) -> None:
        message: dict[str, Any] = {"id": id, "type": "message", "role": "assistant", "model": model, "content": []}
        ending = {"stop_reason": None, "stop_sequence": None, "usage": usage_body(Usage(prompt_tokens))}
        self._message: dict[str, Any] | None = {**message, **ending}
        self._sequence = Sequence()
        self._open = ""
        self._index = -1
        self._ids: list[str] = []

    def feed(self, event: Event) -> list[dict[str, Any]]:
        return self._begun() + [told for plain in self._sequence.feed(event) for told in self._told(plain)]

    def close(self) -> list[dict[str, Any]]:
        """Ends an answer that broke off: without `message_stop`, so that it does not look finished."""
        rest = [told for plain in self._sequence.close() for told in self._told(plain)]
        return rest + self._stopped()

    def _begun(self) -> list[dict[str, Any]]:
        message, self._message = self._message, None
        return [{"type": "message_start", "message": message}] if message else []

    def _told(self, event: Event) -> list[dict[str, Any]]:
        match event:
            case TextDelta(text):
                return self._spoken(_TEXT, {"type": "text_delta", "text": text}) if text else []
            case ReasoningDelta(text):
                return self._spoken(_THINKING, {"type": "thinking_delta", "thinking": text}) if text else []
            case CallStart(_, id, name):
                self._ids.append(id)
                return self._started({"type": "tool_use", "id": id, "name": name, "input": {}})
            case ArgumentsDelta(_, json):
                return [self._delta({"type": "input_json_delta", "partial_json": json})]
            case CallEnd(index, complete, receipt):
                told = Extension({self._ids[index]: receipt}) if complete and receipt else Extension()
                return self._stopped(told)
            case Finish():
                return [*self._stopped(), *self._finished(event)]
            case _:
                return []

    def _spoken(self, block: dict[str, Any], delta: dict[str, Any]) -> list[dict[str, Any]]:
        started = [] if self._open == block["type"] else self._started(block)
        return [*started, self._delta(delta)]

    def _started(self, block: dict[str, Any]) -> list[dict[str, Any]]:
        stopped = self._stopped()
        self._open = block["type"]
        self._index += 1
        return [*stopped, {"type": "content_block_start", "index": self._index, "content_block": dict(block)}]

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"type": "content_block_delta", "index": self._index, "delta": delta}

    def _stopped(self, told: Extension | None = None) -> list[dict[str, Any]]:
        if not self._open:
            return []
        self._open = ""
        return [{"type": "content_block_stop", "index": self._index, **(told.as_field() if told else {})}]

    def _finished(self, finish: Finish) -> list[dict[str, Any]]:
        delta = {"stop_reason": STOP_REASONS[finish.reason], "stop_sequence": None}
        usage = usage_body(finish.usage or Usage())
        told = self._sequence.extension.as_field()
        return [{"type": "message_delta", "delta": delta, "usage": usage, **told}, {"type": "message_stop"}]
