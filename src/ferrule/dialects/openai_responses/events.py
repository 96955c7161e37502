"""Events as the named events of a streamed response. The name of each is its `type`.

The client's own accumulator decides what must come: the response first, an item before its deltas, a part before its
text, the same ids in the item's beginning, its end and the whole response, and the whole response at the end.
"""

from __future__ import annotations

from typing import Any

from ferrule.core.call import FunctionCall, ToolCall
from ferrule.core.event import (
    ArgumentsDelta,
    CallEnd,
    CallStart,
    Event,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
)
from ferrule.core.message import Reasoning, Text
from ferrule.core.request import ToolCallRequest
from ferrule.dialects.extension import Extension
from ferrule.dialects.openai_responses.body import head_of, item_id, response_of
from ferrule.dialects.openai_responses.open_item import OpenItem
from ferrule.dialects.sequence import Sequence
from ferrule.errors import FerruleError

Told = list[dict[str, Any]]


class EventEncoder:
    """`request` is echoed in the response, as the API does."""

    def __init__(self, *, id: str, model: str, created: int, request: ToolCallRequest | None = None) -> None:
        self._id = id
        self._head = head_of(id=id, model=model, created=created, request=request)
        self._sequence = Sequence()
        self._has_begun = False
        self._number = 0
        self._item: OpenItem | None = None
        self._output: Told = []

    def feed(self, event: Event) -> Told:
        told = self._begun()
        for plain in self._sequence.feed(event):
            told += self._told(plain)
        return self._numbered(told)

    def close(self) -> Told:
        """Ends the open item of an answer that broke off; the response itself is left without an end."""
        told = [found for plain in self._sequence.close() for found in self._told(plain)]
        return self._numbered(told + self._ended("incomplete"))

    def fail(self, error: FerruleError) -> Told:
        """Ends the response because of an error."""
        ended = self.close()
        told = {"code": "server_error", "message": f"{error.message} {error.hint}".strip()}
        response = {**self._head, "status": "failed", "error": told, "output": self._output}
        failed = [*self._begun(), {"type": "response.failed", "response": response}]
        return ended + self._numbered(failed)

    def _numbered(self, told: Told) -> Told:
        for event in told:
            event["sequence_number"] = self._number
            self._number += 1
        return told

    def _begun(self) -> Told:
        if self._has_begun:
            return []
        self._has_begun = True
        response: dict[str, Any] = {**self._head, "status": "in_progress", "output": []}
        return [{"type": f"response.{state}", "response": response} for state in ("created", "in_progress")]

    def _told(self, event: Event) -> Told:
        match event:
            case TextDelta(text):
                return self._spoken(Text(""), text)
            case ReasoningDelta(text):
                return self._spoken(Reasoning(""), text)
            case CallStart(_, id, name):
                return self._started(ToolCall(id, FunctionCall(name, "")))
            case ArgumentsDelta(_, json) if self._item:
                return [self._item.delta(json)]
            case CallEnd(_, complete, receipt):
                return self._ended_call(complete, receipt_field(self._item, event) if complete and receipt else {})
            case Finish():
                return [*self._ended("completed"), self._finished(event)]
            case _:
                return []

    def _spoken(self, kind: Text | Reasoning, text: str) -> Told:
        if not text:
            return []
        started = [] if self._item and isinstance(self._item.part, kind.__class__) else self._started(kind)
        assert self._item is not None
        return [*started, self._item.delta(text)]

    def _started(self, part: Text | Reasoning | ToolCall) -> Told:
        ended = self._ended("completed")
        at = len(self._output)
        self._item = OpenItem(part, at, item_id(self._id, at, part))
        return ended + self._item.started()

    def _ended_call(self, complete: bool, told: dict[str, Any]) -> Told:
        ended = self._ended("completed" if complete else "incomplete")
        return [*ended[:-1], {**ended[-1], **told}] if ended else []

    def _ended(self, status: str) -> Told:
        item, self._item = self._item, None
        if item is None:
            return []
        self._output.append(item.whole(status))
        return item.ended(status)

    def _finished(self, finish: Finish) -> dict[str, Any]:
        response = response_of(self._head, self._output, finish.reason, finish.usage)
        state = "incomplete" if finish.reason is FinishReason.LENGTH else "completed"
        return {"type": f"response.{state}", "response": {**response, **self._sequence.extension.as_field()}}


def receipt_field(item: OpenItem | None, end: CallEnd) -> dict[str, Any]:
    if item is None or not isinstance(item.part, ToolCall) or end.receipt is None:
        return {}
    return Extension({item.part.id: end.receipt}).as_field()
